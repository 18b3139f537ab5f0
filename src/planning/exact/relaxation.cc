#include "planning/exact/relaxation.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/spending.h"
#include "planning/exact/cut_program.h"
#include "planning/exact/unit_flow.h"
#include "planning/packing/steiner.h"
#include "planning/packing/steiner_reduction.h"

namespace square::planning {
namespace {

// How far a packing may fall short of the flow that it proves.
constexpr double kGap = 1e-9;
constexpr double kAsShort = 1.0 + 1e-11;

// The reduced problem without the arcs that are longer than the way from the root to their
// end: that way can take over what they carry, and no packing fills them.
struct Core {
  Digraph graph{0};
  std::vector<double> cost;
  std::vector<int> original;     // by arc
  std::vector<int> unreachable;  // nodes: on the far side of every cut, so that no arc from there enters
};

Core core_of(const SteinerReduction& reduction) {
  Digraph all(reduction.node_count());
  std::vector<double> cost;
  for (const SteinerReduction::Arc& arc : reduction.arcs()) {
    all.add_arc(arc.from, arc.to);
    cost.push_back(arc.cost);
  }
  const Distances ways = shortest_from(all, {reduction.root()}, cost);
  Core core{Digraph(reduction.node_count()), {}, {}, {}};
  for (int v = 0; v < reduction.node_count(); ++v) {
    if (ways.distance[v] == kUnreachable) core.unreachable.push_back(v);
  }
  for (const SteinerReduction::Arc& arc : reduction.arcs()) {
    if (ways.distance[arc.from] == kUnreachable || arc.cost > ways.distance[arc.to]) continue;
    core.graph.add_arc(arc.from, arc.to);
    core.cost.push_back(arc.cost);
    core.original.push_back(arc.original);
  }
  return core;
}

// Puts an answer for the core back into the graph.
class CoreExpansion {
 public:
  CoreExpansion(const Digraph& graph, int root, const SteinerReduction& reduction, const Core& core)
      : graph_(graph), root_(root), reduction_(reduction), core_(core) {}

  [[nodiscard]] CutPacking packing(const CutPacking& inside) const {
    std::map<std::vector<int>, double> merged;
    for (const CutPacking::Cut& cut : inside.cuts) {
      std::vector<int> nodes = cut.far_side;
      nodes.insert(nodes.end(), core_.unreachable.begin(), core_.unreachable.end());
      merged[reduction_.expand_nodes(nodes)] += cut.length;
    }
    CutPacking outside{{}, inside.length};
    for (const auto& [nodes, length] : merged) outside.cuts.push_back({nodes, length});
    return outside;
  }

  // Paths to one terminal of the graph, from those to its leader in the core.
  [[nodiscard]] std::vector<Relaxation::Path> paths(int terminal,
                                                    const std::vector<Relaxation::Path>& inside) const {
    const SteinerReduction::Leader leader = reduction_.leader(terminal);
    if (leader.reduced < 0) return {{reduction_.free_way(root_, terminal), 1.0}};
    std::vector<Relaxation::Path> outside;
    for (const auto& [arcs, rate] : inside) {
      std::vector<int> way;
      int node = root_;
      const auto go_free = [&](int to) {
        const std::vector<int> free = reduction_.free_way(node, to);
        way.insert(way.end(), free.begin(), free.end());
        node = to;
      };
      for (const int arc : arcs) {
        const int original = core_.original[arc];
        go_free(graph_.arcs[original].from);
        way.push_back(original);
        node = graph_.arcs[original].to;
      }
      go_free(leader.node);
      go_free(terminal);
      outside.emplace_back(without_cycles(way), rate);
    }
    return outside;
  }

 private:
  [[nodiscard]] std::vector<int> without_cycles(const std::vector<int>& way) const {
    std::vector<int> simple;
    for (const int arc : way) {
      simple.push_back(arc);
      const int node = graph_.arcs[arc].to;
      const auto first = std::find_if(simple.begin(), simple.end(),
                                      [&](int before) { return graph_.arcs[before].from == node; });
      simple.erase(first, simple.end());
    }
    return simple;
  }

  const Digraph& graph_;
  int root_;
  const SteinerReduction& reduction_;
  const Core& core_;
};

struct CoreAnswer {
  std::vector<double> usage;
  CutPacking packing;
};

Result<CoreAnswer> solve_core(const Core& core, int root, const std::vector<int>& terminals,
                              double work_limit) {
  CoreAnswer answer{std::vector<double>(core.cost.size(), 0.0), {}};
  if (terminals.empty()) return answer;
  std::vector<double> reduced_cost;
  answer.packing = dual_ascent(core.graph, root, terminals, core.cost, &reduced_cost);
  if (answer.packing.length == kUnreachable) {
    return failed_precondition("flow relaxation: a terminal cannot be reached from the root");
  }
  std::vector<int> tree = *ascent_tree(core.graph, root, terminals, core.cost, reduced_cost);
  if (tree_cost(tree, core.cost) <= answer.packing.length * kAsShort) {
    for (const int arc : tree) answer.usage[arc] = 1.0;
    return answer;
  }
  const double work = 3.0 * static_cast<double>(terminals.size() * core.cost.size());
  if (work > work_limit) {
    return resource_exhausted(fmt::format(
        "flow relaxation: {} terminals and {} arcs are {:.3g} entries, more than the limit of {:.3g}",
        terminals.size(), core.cost.size(), work, work_limit));
  }
  CutProgram program(core.graph, root, terminals, core.cost, answer.packing, std::move(tree));
  SQUARE_RETURN_IF_ERROR(program.solve());
  return CoreAnswer{program.usage(), program.packing()};
}

}  // namespace

Result<Relaxation> steiner_relaxation(const Digraph& graph, int root, const std::vector<int>& terminals,
                                      const std::vector<double>& cost, double work_limit) {
  SteinerReduction reduction(graph, root, terminals);
  reduction.update(cost);
  const Core core = core_of(reduction);
  SQUARE_ASSIGN_OR_RETURN(CoreAnswer inside,
                          solve_core(core, reduction.root(), reduction.terminals(), work_limit));
  for (std::size_t a = 0; a < core.cost.size(); ++a) {
    if (core.cost[a] <= 0.0) inside.usage[a] = 1.0;
  }
  UnitFlow flow(core.graph, reduction.root());
  flow.set_capacity(inside.usage);
  std::vector<std::vector<Relaxation::Path>> core_paths(reduction.node_count());
  for (const int terminal : reduction.terminals()) {
    look_at_budget();
    flow.run(terminal);
    core_paths[terminal] = flow.take_paths();
    double sum = 0.0;
    for (const Relaxation::Path& path : core_paths[terminal]) sum += path.second;
    for (Relaxation::Path& path : core_paths[terminal]) path.second /= sum;
  }

  const CoreExpansion expansion(graph, root, reduction, core);
  Relaxation answer;
  answer.packing = expansion.packing(inside.packing);
  answer.usage.assign(cost.size(), 0.0);
  for (const int terminal : terminals) {
    look_at_budget();
    const int leader = reduction.leader(terminal).reduced;
    answer.paths.push_back(expansion.paths(terminal, leader < 0 ? core_paths[0] : core_paths[leader]));
    std::vector<double> load(cost.size(), 0.0);
    for (const auto& [arcs, rate] : answer.paths.back()) {
      for (const int arc : arcs) load[arc] += rate;
    }
    for (std::size_t a = 0; a < load.size(); ++a) answer.usage[a] = std::max(answer.usage[a], load[a]);
  }
  for (std::size_t a = 0; a < cost.size(); ++a) answer.cost += cost[a] * answer.usage[a];
  if (answer.cost > answer.packing.length * (1.0 + kGap)) {
    return internal_error(fmt::format("flow relaxation: a flow of cost {} but cuts of length {}", answer.cost,
                                      answer.packing.length));
  }
  return answer;
}

}  // namespace square::planning
