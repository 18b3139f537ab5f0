#include "planning/codes/contents.h"

#include <algorithm>
#include <set>

namespace square::planning {
namespace {

// Edges that ways use, each after those before it; nothing if there is a circle.
std::optional<std::vector<int>> feeding_order(const EdgeGraph& graph,
                                              const std::vector<std::vector<int>>& before) {
  const auto count = static_cast<std::size_t>(graph.edge_count());
  std::vector<std::vector<int>> after(count);
  std::vector<std::size_t> missing(count);
  for (std::size_t e = 0; e < count; ++e) {
    missing[e] = before[e].size();
    for (const int other : before[e]) after[static_cast<std::size_t>(other)].push_back(static_cast<int>(e));
  }
  std::vector<int> order;
  std::size_t used = 0;
  for (std::size_t e = 0; e < count; ++e) {
    const bool is_block = graph.is_block(static_cast<int>(e));
    if (is_block) order.push_back(static_cast<int>(e));
    if (is_block || !before[e].empty()) ++used;
  }
  for (std::size_t at = 0; at < order.size(); ++at) {
    for (const int next : after[static_cast<std::size_t>(order[at])]) {
      if (--missing[static_cast<std::size_t>(next)] == 0) order.push_back(next);
    }
  }
  if (order.size() < used) return std::nullopt;
  return order;
}

}  // namespace

std::vector<std::vector<int>> edges_before(const EdgeGraph& graph, const std::vector<TerminalWays>& ways) {
  std::vector<std::vector<int>> before(static_cast<std::size_t>(graph.edge_count()));
  for (const TerminalWays& of_terminal : ways) {
    for (const std::vector<int>& way : of_terminal) {
      for (std::size_t k = 1; k < way.size(); ++k) {
        std::vector<int>& known = before[static_cast<std::size_t>(way[k])];
        if (std::ranges::find(known, way[k - 1]) == known.end()) known.push_back(way[k - 1]);
      }
    }
  }
  return before;
}

std::optional<Contents> Contents::of(const EdgeGraph& graph, const std::vector<TerminalWays>& ways) {
  const std::vector<std::vector<int>> before = edges_before(graph, ways);
  std::optional<std::vector<int>> order = feeding_order(graph, before);
  if (!order) return std::nullopt;
  Contents contents;
  contents.order = *std::move(order);
  contents.of_edge.assign(static_cast<std::size_t>(graph.edge_count()), -1);
  for (const int edge : contents.order) {
    const auto e = static_cast<std::size_t>(edge);
    std::set<int> inputs;
    for (const int other : before[e]) inputs.insert(contents.of_edge[static_cast<std::size_t>(other)]);
    if (inputs.size() == 1) {
      contents.of_edge[e] = *inputs.begin();
      continue;
    }
    contents.of_edge[e] = static_cast<int>(contents.list.size());
    contents.list.push_back(
        {graph.tail[e], graph.is_block(edge) ? edge : -1, std::vector<int>(inputs.begin(), inputs.end())});
  }
  return contents;
}

int Contents::sum_count() const { return static_cast<int>(std::ranges::count(list, -1, &Content::block)); }

std::vector<CopyTree> copy_trees(const CodeProblem& problem, const EdgeGraph& graph,
                                 const std::vector<TerminalWays>& ways, const Contents& contents) {
  const std::size_t count = contents.list.size();
  // Where each must come.
  std::vector<std::set<int>> needed(count);
  for (const Content& content : contents.list) {
    for (const int input : content.inputs) needed[static_cast<std::size_t>(input)].insert(content.origin);
  }
  for (std::size_t j = 0; j < ways.size(); ++j) {
    for (const std::vector<int>& way : ways[j]) {
      const int content = contents.of_edge[static_cast<std::size_t>(way.back())];
      needed[static_cast<std::size_t>(content)].insert(problem.terminals[j]);
    }
  }
  std::vector<std::set<int>> reached(count);
  std::vector<CopyTree> trees(count);
  for (std::size_t c = 0; c < count; ++c) reached[c].insert(contents.list[c].origin);
  for (const int edge : contents.order) {
    if (graph.is_block(edge)) continue;
    const auto e = static_cast<std::size_t>(edge);
    const auto c = static_cast<std::size_t>(contents.of_edge[e]);
    if (reached[c].insert(graph.head[e]).second) trees[c].arcs.push_back(graph.arc[e]);
  }
  // From the ends back: what leads to nobody goes.
  for (std::size_t c = 0; c < count; ++c) {
    std::vector<int> kept;
    for (auto arc = trees[c].arcs.rbegin(); arc != trees[c].arcs.rend(); ++arc) {
      const Digraph::Arc& ends = problem.graph->arcs[static_cast<std::size_t>(*arc)];
      if (!needed[c].contains(ends.to)) continue;
      needed[c].insert(ends.from);
      kept.push_back(*arc);
    }
    std::ranges::reverse(kept);
    trees[c].arcs = std::move(kept);
  }
  return trees;
}

}  // namespace square::planning
