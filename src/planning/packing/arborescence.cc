#include "planning/packing/arborescence.h"

#include <algorithm>

namespace square::planning {
namespace {

// One graph of the sequence of contractions.
struct Level {
  struct Arc {
    int from = 0;
    int to = 0;
    double cost = 0.0;
    int below = 0;  // its position one level down; the arc of the graph at the bottom
  };
  int nodes = 0;
  int root = 0;
  std::vector<Arc> arcs;
  std::vector<int> cheapest;  // by node: the arc that enters it, -1 at the root
  std::vector<int> cycle;     // by node: which cycle of cheapest arcs it is on, -1 for none
  int cycles = 0;
};

bool choose_cheapest(Level& level) {
  level.cheapest.assign(level.nodes, -1);
  for (int a = 0; a < static_cast<int>(level.arcs.size()); ++a) {
    const Level::Arc& arc = level.arcs[a];
    if (arc.to == level.root) continue;
    int& best = level.cheapest[arc.to];
    if (best < 0 || arc.cost < level.arcs[best].cost) best = a;
  }
  for (int v = 0; v < level.nodes; ++v) {
    if (v != level.root && level.cheapest[v] < 0) return false;
  }
  return true;
}

void find_cycles(Level& level) {
  level.cycle.assign(level.nodes, -1);
  std::vector<int> seen(level.nodes, -1);
  for (int start = 0; start < level.nodes; ++start) {
    int v = start;
    while (v != level.root && seen[v] < 0) {
      seen[v] = start;
      v = level.arcs[level.cheapest[v]].from;
    }
    if (v == level.root || seen[v] != start || level.cycle[v] >= 0) continue;
    for (int u = v; level.cycle[u] < 0; u = level.arcs[level.cheapest[u]].from) level.cycle[u] = level.cycles;
    ++level.cycles;
  }
}

// Each cycle becomes one node; an arc into it costs what it adds to the arc it replaces.
Level contract(const Level& level) {
  Level next;
  next.nodes = level.cycles;
  std::vector<int> image(level.nodes);
  for (int v = 0; v < level.nodes; ++v) image[v] = level.cycle[v] >= 0 ? level.cycle[v] : next.nodes++;
  next.root = image[level.root];
  next.arcs.reserve(level.arcs.size());
  for (int a = 0; a < static_cast<int>(level.arcs.size()); ++a) {
    const Level::Arc& arc = level.arcs[a];
    if (image[arc.from] == image[arc.to] || arc.to == level.root) continue;
    const double replaced = level.cycle[arc.to] >= 0 ? level.arcs[level.cheapest[arc.to]].cost : 0.0;
    next.arcs.push_back({image[arc.from], image[arc.to], arc.cost - replaced, a});
  }
  return next;
}

}  // namespace

std::optional<std::vector<int>> minimum_arborescence(const Digraph& graph, int root,
                                                     const std::vector<double>& cost) {
  std::vector<Level> levels(1);
  levels[0].nodes = graph.node_count();
  levels[0].root = root;
  levels[0].arcs.reserve(graph.arcs.size());
  for (int a = 0; a < static_cast<int>(graph.arcs.size()); ++a) {
    levels[0].arcs.push_back({graph.arcs[a].from, graph.arcs[a].to, cost[a], a});
  }
  while (true) {
    Level& top = levels.back();
    if (!choose_cheapest(top)) return std::nullopt;
    find_cycles(top);
    if (top.cycles == 0) break;
    levels.push_back(contract(top));
  }
  // Going down, each cycle keeps its arcs but the one into the node where it is entered.
  std::vector<int> entering = levels.back().cheapest;
  for (std::size_t depth = levels.size() - 1; depth > 0; --depth) {
    std::vector<int> below = levels[depth - 1].cheapest;
    for (const int arc : entering) {
      if (arc < 0) continue;
      const int lower = levels[depth].arcs[arc].below;
      below[levels[depth - 1].arcs[lower].to] = lower;
    }
    entering = std::move(below);
  }
  std::vector<int> tree;
  for (const int arc : entering) {
    if (arc >= 0) tree.push_back(arc);
  }
  return tree;
}

}  // namespace square::planning
