#include "planning/codes/redundant_code.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "coding/codes/redundancy.h"
#include "planning/codes/independent_ways.h"
#include "square/coded_block.h"

namespace square::planning {
namespace {

// What an arc costs that already carries something for a terminal before, compared with one that does not.
constexpr double kShared = 0.01;
// And every arc at least, of the dearest: where nothing costs anything, few links are better.
constexpr double kEachArc = 1e-6;
// So many numbers of ways are tried one by one, and then only the largest.
constexpr int kEachNumber = 12;

using Way = std::vector<int>;

// Copies of one part of the generation from the root to some of the terminals.
struct Tree {
  std::vector<int> arcs;
  std::map<int, int> arc_to;  // by node

  // Arcs from the root on that are in the tree already.
  [[nodiscard]] std::size_t shared(const Digraph& graph, const Way& way) const {
    std::size_t count = 0;
    while (count < way.size() && leads(graph, way[count])) ++count;
    return count;
  }
  // With it, no node would be reached twice.
  [[nodiscard]] bool takes(const Digraph& graph, const Way& way) const {
    return std::ranges::all_of(
        way, [&](int arc) { return !arc_to.contains(head(graph, arc)) || leads(graph, arc); });
  }
  void add(const Digraph& graph, const Way& way) {
    for (const int arc : way) {
      if (arc_to.emplace(head(graph, arc), arc).second) arcs.push_back(arc);
    }
  }

 private:
  static int head(const Digraph& graph, int arc) { return graph.arcs[static_cast<std::size_t>(arc)].to; }
  [[nodiscard]] bool leads(const Digraph& graph, int arc) const {
    const auto found = arc_to.find(head(graph, arc));
    return found != arc_to.end() && found->second == arc;
  }
};

// Which part of a generation goes on which way of each terminal: where ways begin alike, the same one.
class Dealing {
 public:
  Dealing(const Digraph& graph, std::size_t parts) : graph_(graph), trees_(parts) {}

  // Each part goes on one of the ways. Returns by part which of its trees brings it.
  std::vector<std::size_t> deal(const std::vector<Way>& ways) {
    std::vector<std::tuple<std::size_t, std::size_t, std::size_t>> choices;  // arcs shared, way, part
    for (std::size_t w = 0; w < ways.size(); ++w) {
      for (std::size_t part = 0; part < trees_.size(); ++part)
        choices.emplace_back(shared(part, ways[w]), w, part);
    }
    std::ranges::stable_sort(choices, [](const auto& a, const auto& b) { return get<0>(a) > get<0>(b); });
    std::vector<bool> is_dealt(ways.size(), false);
    std::vector<std::size_t> tree_of(trees_.size(), kNone);
    for (const auto& [arcs, w, part] : choices) {
      if (is_dealt[w] || tree_of[part] != kNone) continue;
      is_dealt[w] = true;
      tree_of[part] = add(part, ways[w]);
    }
    return tree_of;
  }

  [[nodiscard]] const std::vector<std::vector<Tree>>& trees() const { return trees_; }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  [[nodiscard]] std::size_t shared(std::size_t part, const Way& way) const {
    std::size_t most = 0;
    for (const Tree& tree : trees_[part]) {
      if (tree.takes(graph_, way)) most = std::max(most, tree.shared(graph_, way));
    }
    return most;
  }

  // To the tree that it shares most with; to one of its own where it would come to a node twice.
  std::size_t add(std::size_t part, const Way& way) {
    std::vector<Tree>& trees = trees_[part];
    std::size_t best = trees.size();
    for (std::size_t t = 0; t < trees.size(); ++t) {
      if (!trees[t].takes(graph_, way)) continue;
      if (best == trees.size() || trees[t].shared(graph_, way) > trees[best].shared(graph_, way)) best = t;
    }
    if (best == trees.size()) trees.emplace_back();
    trees[best].add(graph_, way);
    return best;
  }

  const Digraph& graph_;
  std::vector<std::vector<Tree>> trees_;  // by part
};

std::vector<double> row_of(int part, int blocks) {
  const auto count = static_cast<std::uint32_t>(blocks);
  if (part >= blocks) {
    square::Generation generation;
    generation.field = FieldKind::kGf256;
    generation.blocks = count;
    return redundant_row(generation, static_cast<std::uint64_t>(part - blocks));
  }
  std::vector<double> row(count, 0.0);
  row[static_cast<std::size_t>(part)] = 1.0;
  return row;
}

std::vector<std::vector<double>> identity(int size) {
  std::vector<std::vector<double>> matrix;
  for (int i = 0; i < size; ++i) matrix.push_back(row_of(i, size));
  return matrix;
}

// For what it carries.
double cost_of(const CodeDesign& design, const std::vector<double>& cost) {
  double sum = 0.0;
  for (const CodeDesign::Flow& flow : design.flows) {
    for (const int arc : flow.arcs) sum += cost[static_cast<std::size_t>(arc)];
  }
  return sum / design.blocks;
}

}  // namespace

int independent_way_count(const RedundantProblem& problem) {
  const std::vector<double> free(problem.graph->arcs.size(), 0.0);
  std::size_t fewest = kMostRedundantWays;
  for (const int terminal : problem.terminals) {
    const auto wanted = static_cast<int>(fewest);
    fewest = std::min(fewest, independent_ways(*problem.graph, problem.root, terminal, wanted, free).size());
  }
  return static_cast<int>(fewest);
}

std::optional<CodeDesign> redundant_code(const RedundantProblem& problem, int ways,
                                         const std::vector<double>& cost) {
  const double dearest = cost.empty() ? 0.0 : *std::ranges::max_element(cost);
  std::vector<double> asked = cost;
  for (double& one : asked) one += dearest > 0.0 ? kEachArc * dearest : 1.0;
  std::vector<bool> is_used(cost.size(), false);
  Dealing dealing(*problem.graph, static_cast<std::size_t>(ways));
  std::vector<std::vector<std::size_t>> tree_of;  // by terminal and part
  for (const int terminal : problem.terminals) {
    const std::vector<Way> found = independent_ways(*problem.graph, problem.root, terminal, ways, asked);
    if (static_cast<int>(found.size()) < ways) return std::nullopt;
    tree_of.push_back(dealing.deal(found));
    for (const Way& way : found) {
      for (const int arc : way) {
        const auto a = static_cast<std::size_t>(arc);
        if (!is_used[a]) asked[a] *= kShared;
        is_used[a] = true;
      }
    }
  }
  CodeDesign design{FieldKind::kGf256, ways - problem.redundancy, {}, {}, problem.redundancy};
  std::vector<std::vector<int>> flow_of(dealing.trees().size());  // by part and tree
  for (std::size_t part = 0; part < flow_of.size(); ++part) {
    for (const Tree& tree : dealing.trees()[part]) {
      flow_of[part].push_back(static_cast<int>(design.flows.size()));
      design.flows.push_back(
          {problem.root, tree.arcs, {}, {}, row_of(static_cast<int>(part), design.blocks)});
    }
  }
  for (const std::vector<std::size_t>& of_terminal : tree_of) {
    CodeDesign::Sink sink{{}, identity(design.blocks)};
    for (std::size_t part = 0; part < of_terminal.size(); ++part)
      sink.flows.push_back(flow_of[part][of_terminal[part]]);
    design.sinks.push_back(std::move(sink));
  }
  return design;
}

std::optional<CodeDesign> cheapest_redundant_code(const RedundantProblem& problem, int most_ways,
                                                  const std::vector<double>& cost) {
  std::optional<CodeDesign> best;
  double least = 0.0;
  for (int ways = problem.redundancy + 1; ways <= most_ways; ++ways) {
    if (ways > kEachNumber && ways < most_ways) continue;
    std::optional<CodeDesign> design = redundant_code(problem, ways, cost);
    if (!design) break;
    const double own = cost_of(*design, cost);
    if (best && own >= least) continue;
    least = own;
    best = std::move(design);
  }
  return best;
}

}  // namespace square::planning
