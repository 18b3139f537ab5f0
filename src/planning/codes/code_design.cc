#include "planning/codes/code_design.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <utility>

#include "base/check.h"
#include "planning/codes/coefficients.h"
#include "planning/codes/contents.h"
#include "planning/codes/disjoint_ways.h"

namespace square::planning {
namespace {

constexpr double kWhole = 1e-6;
// Ways that are found first decide where later ones meet: so many orders of terminals are tried until one
// needs no sums.
constexpr int kMostOrders = 8;

struct Ways {
  std::vector<TerminalWays> list;
  Contents contents;
};

// Those with the fewest sums. Errors: as disjoint_ways(), of the last order that was tried.
Result<Ways> best_ways(const CodeProblem& problem, const EdgeGraph& graph) {
  std::vector<std::size_t> order(problem.terminals.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937_64 chance;
  std::optional<Ways> best;
  Status refusal;
  for (int tries = 0; tries < kMostOrders; ++tries) {
    Result<std::vector<TerminalWays>> ways = disjoint_ways(problem, graph, order);
    if (ways.status().code() == StatusCode::kNotFound) return ways.status();
    if (ways.is_ok()) {
      Contents contents = *Contents::of(graph, *ways);
      if (!best || contents.sum_count() < best->contents.sum_count())
        best = Ways{*std::move(ways), std::move(contents)};
      if (best->contents.sum_count() == 0 || order.size() < 2) break;
    } else {
      refusal = ways.status();
    }
    for (std::size_t k = order.size(); k > 1; --k) std::swap(order[k - 1], order[chance() % k]);
  }
  if (!best) return refusal;
  return *std::move(best);
}

// By content: its flow, or -1 where nobody needs it.
std::vector<int> number_flows(const Contents& contents, const std::vector<CopyTree>& trees,
                              const std::vector<TerminalWays>& ways, int root) {
  std::vector<bool> is_needed(contents.list.size(), false);
  for (std::size_t c = 0; c < trees.size(); ++c) is_needed[c] = !trees[c].arcs.empty();
  for (const TerminalWays& of_terminal : ways) {
    for (const std::vector<int>& way : of_terminal)
      is_needed[static_cast<std::size_t>(contents.of_edge[static_cast<std::size_t>(way.back())])] = true;
  }
  for (std::size_t c = contents.list.size(); c-- > 0;) {
    if (!is_needed[c] || contents.list[c].origin == root) continue;
    for (const int input : contents.list[c].inputs) is_needed[static_cast<std::size_t>(input)] = true;
  }
  std::vector<int> flow_of(contents.list.size(), -1);
  int next = 0;
  for (std::size_t c = 0; c < flow_of.size(); ++c) {
    if (is_needed[c]) flow_of[c] = next++;
  }
  return flow_of;
}

}  // namespace

int CodeDesign::sum_count() const {
  return static_cast<int>(std::ranges::count_if(flows, [](const Flow& flow) {
    return !flow.inputs.empty() || std::ranges::count(flow.row, 0.0) + 1 < std::ssize(flow.row);
  }));
}

std::vector<int> CodeDesign::copies(std::size_t arc_count) const {
  std::vector<int> copies(arc_count, 0);
  for (const Flow& flow : flows) {
    for (const int arc : flow.arcs) ++copies[static_cast<std::size_t>(arc)];
  }
  return copies;
}

Result<CodeDesign> design_code(FieldKind field, const CodeProblem& problem) {
  const EdgeGraph graph(problem);
  SQUARE_ASSIGN_OR_RETURN(const Ways found, best_ways(problem, graph));
  const auto& [ways, contents] = found;
  SQUARE_ASSIGN_OR_RETURN(Coefficients coefficients,
                          code_coefficients(field, problem, graph, ways, contents));
  std::optional<Coefficients> over_bytes;
  if (field == FieldKind::kFloat32) {
    SQUARE_ASSIGN_OR_RETURN(over_bytes, code_coefficients(FieldKind::kGf256, problem, graph, ways, contents));
  }
  std::vector<CopyTree> trees = copy_trees(problem, graph, ways, contents);
  const std::vector<int> flow_of = number_flows(contents, trees, ways, problem.root);
  CodeDesign design{field, problem.blocks, {}, {}};
  for (std::size_t c = 0; c < contents.list.size(); ++c) {
    if (flow_of[c] < 0) continue;
    const bool is_of_root = contents.list[c].origin == problem.root;
    CodeDesign::Flow flow{contents.list[c].origin,
                          std::move(trees[c].arcs),
                          {},
                          std::move(coefficients.factors[c]),
                          std::move(coefficients.rows[c])};
    if (over_bytes) {
      flow.byte_factors = std::move(over_bytes->factors[c]);
      flow.byte_row = std::move(over_bytes->rows[c]);
    }
    // The root has all blocks: what it sends is said by the row.
    if (is_of_root) {
      flow.factors.clear();
      flow.byte_factors.clear();
    }
    for (const int input : is_of_root ? std::vector<int>() : contents.list[c].inputs)
      flow.inputs.push_back(flow_of[static_cast<std::size_t>(input)]);
    design.flows.push_back(std::move(flow));
  }
  for (std::size_t j = 0; j < ways.size(); ++j) {
    CodeDesign::Sink sink{{}, std::move(coefficients.inverses[j])};
    if (over_bytes) sink.byte_inverse = std::move(over_bytes->inverses[j]);
    for (const std::vector<int>& way : ways[j]) {
      const int content = contents.of_edge[static_cast<std::size_t>(way.back())];
      sink.flows.push_back(flow_of[static_cast<std::size_t>(content)]);
    }
    design.sinks.push_back(std::move(sink));
  }
  return design;
}

WholeParts whole_parts(const std::vector<double>& usage) {
  WholeParts best;
  double least = std::numeric_limits<double>::infinity();
  for (int blocks = 1; blocks <= kMostCodeBlocks && least > 1.0; ++blocks) {
    WholeParts parts{blocks, {}};
    double most = 1.0;  // how many times the rounded usage is what it was, at worst
    for (const double part : usage) {
      const double exact = part * blocks;
      const double near = std::round(exact);
      const bool is_whole = std::abs(exact - near) <= kWhole * blocks;
      const double copies = is_whole ? near : std::ceil(exact);
      if (!is_whole) most = std::max(most, copies / exact);
      parts.copies.push_back(static_cast<int>(copies));
    }
    if (most < least) {
      least = most;
      best = std::move(parts);
    }
  }
  return best;
}

}  // namespace square::planning
