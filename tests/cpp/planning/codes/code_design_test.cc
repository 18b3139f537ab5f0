// Codes on networks where coding is known to be needed, and on random ones: every destination decodes.
#include "planning/codes/code_design.h"

#include <doctest/doctest.h>

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

TEST_CASE("codes of floats are well conditioned") {
  std::mt19937_64 chance(testing::seed());
  std::vector<double> conditions;
  for (int instance = 0; instance < 200; ++instance) {
    const Network network =
        testing::combination(4 + static_cast<int>(chance() % 3), 2 + static_cast<int>(chance() % 2));
    const CodeProblem problem = network.with_graph();
    const CodeDesign design = design_code(FieldKind::kFloat32, problem).value();
    check_design(design, problem);
    if (instance > 3) break;
    std::vector<std::byte> data(4 * 64);
    std::vector<float> numbers(64);
    for (float& number : numbers) number = 0.5F + static_cast<float>(chance() % 1000) / 1000.0F;
    std::memcpy(data.data(), numbers.data(), data.size());
    const Delivery delivery = testing::deliver(design, data);
    for (const std::vector<std::byte>& received : delivery.received) {
      REQUIRE(received.size() == data.size());
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        float number = 0;
        std::memcpy(&number, &received[4 * i], 4);
        CHECK(number == doctest::Approx(numbers[i]).epsilon(1e-5));
      }
    }
  }
}

}  // namespace
}  // namespace square::planning
