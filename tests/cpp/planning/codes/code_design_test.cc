// Codes on networks where coding is known to be needed, and on random ones: every destination decodes.
#include "planning/codes/code_design.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <set>

#include "planning/codes/code_networks.h"
#include "planning/codes/coefficients.h"
#include "planning/scenarios.h"

namespace square::planning {
namespace {

using testing::Delivery;
using testing::Network;

std::vector<std::byte> random_bytes(std::mt19937_64& chance, std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(chance());
  return bytes;
}

// Against the definition: no link carries more blocks than it has room for, what a flow adds is at its
// origin, trees are trees, each terminal's flows come to it.
void check_design(const CodeDesign& design, const CodeProblem& problem) {
  const std::vector<int> copies = design.copies(problem.copies.size());
  for (std::size_t a = 0; a < copies.size(); ++a) CHECK(copies[a] <= problem.copies[a]);
  std::vector<std::set<int>> reached;
  for (std::size_t f = 0; f < design.flows.size(); ++f) {
    const CodeDesign::Flow& flow = design.flows[f];
    std::set<int>& nodes = reached.emplace_back(std::set<int>{flow.origin});
    for (const int arc : flow.arcs) {
      const Digraph::Arc& ends = problem.graph->arcs[static_cast<std::size_t>(arc)];
      CHECK(nodes.contains(ends.from));
      CHECK(nodes.insert(ends.to).second);
    }
    if (flow.inputs.empty()) CHECK(flow.origin == problem.root);
    for (const int input : flow.inputs) {
      REQUIRE(input < static_cast<int>(f));
      CHECK(reached[static_cast<std::size_t>(input)].contains(flow.origin));
    }
  }
  REQUIRE(design.sinks.size() == problem.terminals.size());
  for (std::size_t j = 0; j < design.sinks.size(); ++j) {
    CHECK(design.sinks[j].flows.size() == static_cast<std::size_t>(problem.blocks));
    for (const int flow : design.sinks[j].flows)
      CHECK(reached[static_cast<std::size_t>(flow)].contains(problem.terminals[j]));
  }
}

void check_delivery(const Delivery& delivery) {
  for (const std::vector<std::byte>& received : delivery.received) CHECK(received == delivery.sent);
}

TEST_CASE("the butterfly adds once, with factors of one") {
  const Network butterfly = testing::butterfly_network();
  const CodeProblem problem = butterfly.with_graph();
  for (const FieldKind field : {FieldKind::kGf256, FieldKind::kGf65536}) {
    const CodeDesign design = design_code(field, problem).value();
    check_design(design, problem);
    CHECK(design.sum_count() == 1);
    for (const CodeDesign::Flow& flow : design.flows) {
      for (const double factor : flow.factors) CHECK(factor == 1.0);
    }
    std::mt19937_64 chance(1);
    check_delivery(testing::deliver(design, random_bytes(chance, 1001)));
  }
}

TEST_CASE("combination networks add n - h times") {
  std::mt19937_64 chance(2);
  for (int n = 3; n <= 7; ++n) {
    for (int h = 2; h < n; ++h) {
      CAPTURE(n);
      CAPTURE(h);
      const Network network = testing::combination(n, h);
      const CodeProblem problem = network.with_graph();
      const CodeDesign design = design_code(FieldKind::kGf256, problem).value();
      check_design(design, problem);
      CHECK(design.sum_count() == n - h);
      check_delivery(testing::deliver(design, random_bytes(chance, 257)));
    }
  }
}

TEST_CASE("every destination of random networks decodes, with circles and without") {
  std::mt19937_64 chance(testing::seed());
  const int instances = std::getenv("SQUARE_LONG") != nullptr ? 10'000 : 600;
  int designed = 0;
  int without_sums = 0;
  for (int instance = 0; instance < instances; ++instance) {
    CAPTURE(instance);
    const bool is_layered = chance() % 2 == 0;
    const int nodes = 5 + static_cast<int>(chance() % 26);
    const int arcs = std::min(150, nodes * (2 + static_cast<int>(chance() % 4)));
    const Network network = testing::random_network(chance, nodes, arcs, 16, is_layered);
    const CodeProblem problem = network.with_graph();
    const Result<CodeDesign> design = design_code(FieldKind::kGf256, problem);
    // A circle may be in the way of some; nothing else may.
    if (!design.is_ok()) {
      CHECK_FALSE(is_layered);
      CHECK(design.status().code() == StatusCode::kAborted);
      continue;
    }
    ++designed;
    without_sums += design->sum_count() == 0 ? 1 : 0;
    check_design(*design, problem);
    check_delivery(testing::deliver(*design, random_bytes(chance, 1 + chance() % 300)));
  }
  MESSAGE(designed, " of ", instances, " designed, ", without_sums, " without sums");
  CHECK(designed > instances * 9 / 10);
}

TEST_CASE("usage becomes whole parts") {
  CHECK(whole_parts({1.0, 1.0, 0.0}).blocks == 1);
  const WholeParts halves = whole_parts({0.5, 1.0, 0.0, 0.5 + 1e-9});
  CHECK(halves.blocks == 2);
  CHECK(halves.copies == std::vector<int>{1, 2, 0, 1});
  CHECK(whole_parts({1.0 / 3.0, 0.5}).blocks == 6);
  // Nothing fits: rounded up by less than a thirtieth.
  const WholeParts odd = whole_parts({0.7853981, 0.2718281, 1.0});
  CHECK(odd.copies[0] >= odd.blocks * 0.7853981);
  CHECK(odd.copies[1] <= odd.blocks * 0.2718281 * 1.07);
}

TEST_CASE("a problem that cannot be coded says why") {
  Network butterfly = testing::butterfly_network();
  butterfly.problem.blocks = 3;
  CHECK(design_code(FieldKind::kGf256, butterfly.with_graph()).status().code() == StatusCode::kNotFound);
}

double frobenius(const std::vector<std::vector<double>>& matrix) {
  double squares = 0;
  for (const std::vector<double>& row : matrix) {
    for (const double value : row) squares += value * value;
  }
  return std::sqrt(squares);
}

// The code that goes for what floats would spoil.
CodeDesign over_bytes(CodeDesign design) {
  design.field = FieldKind::kGf256;
  for (CodeDesign::Flow& flow : design.flows) {
    flow.factors = std::move(flow.byte_factors);
    flow.row = std::move(flow.byte_row);
  }
  for (CodeDesign::Sink& sink : design.sinks) sink.inverse = std::move(sink.byte_inverse);
  return design;
}

// Of the worst terminal, as the product of the Frobenius norms: the condition number in the 2-norm is less.
double condition_of(const CodeDesign& design) {
  double worst = 0;
  for (const CodeDesign::Sink& sink : design.sinks) {
    std::vector<std::vector<double>> rows;
    for (const int flow : sink.flows) rows.push_back(design.flows[static_cast<std::size_t>(flow)].row);
    worst = std::max(worst, frobenius(rows) * frobenius(sink.inverse));
  }
  return worst;
}

// Of what any terminal gets, in the largest number sent.
double error_of(const CodeDesign& design, std::mt19937_64& chance) {
  std::vector<float> numbers(64 * static_cast<std::size_t>(design.blocks));
  for (float& number : numbers) number = static_cast<float>(chance() % 20'001) / 10'000.0F - 1.0F;
  std::vector<std::byte> data(4 * numbers.size());
  std::memcpy(data.data(), numbers.data(), data.size());
  double worst = 0;
  for (const std::vector<std::byte>& received : testing::deliver(design, data).received) {
    REQUIRE(received.size() == data.size());
    std::vector<float> got(numbers.size());
    std::memcpy(got.data(), received.data(), received.size());
    for (std::size_t i = 0; i < got.size(); ++i)
      worst = std::max(worst, std::abs(static_cast<double>(got[i]) - static_cast<double>(numbers[i])));
  }
  return worst;
}

double percentile_99(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() * 99 / 100];
}

TEST_CASE("codes of floats lose few digits") {
  std::mt19937_64 chance(testing::seed());
  const int instances = std::getenv("SQUARE_LONG") != nullptr ? 5'000 : 300;
  std::vector<double> conditions;
  std::vector<double> errors;
  int refused = 0;
  const auto look_at = [&](const Network& network) {
    const CodeProblem problem = network.with_graph();
    const Result<CodeDesign> design = design_code(FieldKind::kFloat32, problem);
    if (!design.is_ok()) {
      ++refused;
      return;
    }
    check_design(*design, problem);
    conditions.push_back(condition_of(*design));
    errors.push_back(error_of(*design, chance));
    check_delivery(testing::deliver(over_bytes(*design), random_bytes(chance, 1 + chance() % 300)));
  };
  SUBCASE("random networks") {
    for (int instance = 0; instance < instances; ++instance) {
      const int nodes = 5 + static_cast<int>(chance() % 26);
      const int arcs = std::min(150, nodes * (2 + static_cast<int>(chance() % 4)));
      look_at(testing::random_network(chance, nodes, arcs, 16, true));
    }
  }
  // Where every destination needs sums, of up to 20 destinations and 3 blocks.
  SUBCASE("combination networks") {
    for (const auto& [n, h] : {std::pair(3, 2), std::pair(4, 2), std::pair(5, 2), std::pair(6, 2),
                               std::pair(4, 3), std::pair(5, 3), std::pair(6, 3)})
      look_at(testing::combination(n, h));
  }
  MESSAGE(conditions.size(), " codes, ", refused, " refused; 99th percentile of the condition ",
          percentile_99(conditions), ", of the error ", percentile_99(errors));
  CHECK(refused == 0);
  CHECK(percentile_99(conditions) < 100);
  CHECK(percentile_99(errors) < 5e-6);
}

}  // namespace
}  // namespace square::planning
