#include "planning/exact/unicast_ways.h"

#include <algorithm>
#include <map>

#include "base/spending.h"

namespace square::planning {
namespace {

constexpr int kDetoursPerRound = 3;
constexpr int kMostDetours = 6;  // of a pair, before the program

}  // namespace

UnicastWays::UnicastWays(const Instance& instance)
    : instance_(instance),
      graph_(*instance.demands.front().graph),
      pair_of_(instance.demands.size(), 0),
      row_of_egress_(instance.node_count(), -1),
      row_of_ingress_(instance.node_count(), -1) {
  collect_pairs();
  count_rows();
  find_first_ways();
  find_detours();
}

void UnicastWays::collect_pairs() {
  std::map<std::pair<int, int>, std::size_t> known;
  for (const Group& group : instance_.groups) {
    for (const Alternative& only : group.alternatives) {
      for (std::size_t k = 0; k < only.demands.size(); ++k) {
        const Demand& demand = instance_.demands[only.demands[k]];
        const auto [at, is_new] = known.try_emplace({demand.root, demand.terminals.front()}, pairs_.size());
        if (is_new) pairs_.push_back({demand.root, demand.terminals.front(), -1, {}});
        pairs_[at->second].demands.emplace_back(only.demands[k], only.fractions[k]);
        pair_of_[only.demands[k]] = at->second;
      }
    }
  }
  for (std::size_t arc = 0; arc < graph_.link.size(); ++arc) {
    const Digraph::Arc& ends = graph_.graph.arcs[arc];
    if (const auto at = known.find({ends.from, ends.to}); at != known.end())
      pairs_[at->second].link = graph_.link[arc];
  }
  sum_pairs(active_targets(instance_));
}

void UnicastWays::sum_pairs(const Targets& targets, double slack) {
  for (UnicastPair& pair : pairs_) pair.slope = pair.fixed = 0.0;
  for (std::size_t c = 0; c < instance_.groups.size(); ++c) {
    for (const Alternative& only : instance_.groups[c].alternatives) {
      for (std::size_t k = 0; k < only.demands.size(); ++k) {
        UnicastPair& pair = pairs_[pair_of_[only.demands[k]]];
        if (targets.kind[c] == Targets::Kind::kActive) {
          pair.slope += targets.weight[c] * only.fractions[k];
        } else {
          pair.fixed += targets.rate[c] * only.fractions[k] * (1.0 - slack);
        }
      }
    }
  }
}

void UnicastWays::count_rows() {
  rows_ = static_cast<int>(instance_.link_count() + pairs_.size());
  const auto add = [&](const std::vector<double>& limit, const std::vector<NodeId>& end,
                       std::vector<int>& row) {
    std::vector<double> whole(limit.size(), 0.0);
    for (std::size_t e = 0; e < end.size(); ++e) whole[end[e].index()] += instance_.network.capacity_bps[e];
    for (std::size_t v = 0; v < limit.size(); ++v) {
      if (limit[v] < whole[v]) row[v] = rows_++;
    }
  };
  add(instance_.network.egress_bps, instance_.tail, row_of_egress_);
  add(instance_.network.ingress_bps, instance_.head, row_of_ingress_);
}

std::vector<double> UnicastWays::capacities() const {
  std::vector<double> left(static_cast<std::size_t>(rows_), 0.0);
  for (std::size_t e = 0; e < instance_.link_count(); ++e) left[e] = instance_.network.capacity_bps[e];
  for (std::size_t v = 0; v < instance_.node_count(); ++v) {
    if (row_of_egress_[v] >= 0)
      left[static_cast<std::size_t>(row_of_egress_[v])] = instance_.network.egress_bps[v];
    if (row_of_ingress_[v] >= 0)
      left[static_cast<std::size_t>(row_of_ingress_[v])] = instance_.network.ingress_bps[v];
  }
  return left;
}

// Of pairs without a link between them: the fewest links.
void UnicastWays::find_first_ways() {
  const std::vector<double> equal(graph_.link.size(), 1.0);
  std::map<int, Distances> from;
  for (std::size_t p = 0; p < pairs_.size(); ++p) {
    if (pairs_[p].link >= 0) continue;
    const int source = pairs_[p].from;
    if (!from.contains(source)) from.emplace(source, shortest_from(graph_.graph, {source}, equal));
    add_way(p, from.at(source));
  }
}

double UnicastWays::level_of_first_ways() const {
  std::vector<double> load(instance_.link_count(), 0.0);
  for (const UnicastPair& pair : pairs_) {
    if (pair.link >= 0) load[static_cast<std::size_t>(pair.link)] += pair.slope;
  }
  for (const UnicastWay& way : ways_) {
    if (pairs_[way.pair].link >= 0) continue;
    for (const int link : way.links) load[static_cast<std::size_t>(link)] += pairs_[way.pair].slope;
  }
  double level = kUnreachable;
  for (std::size_t e = 0; e < load.size(); ++e) {
    if (load[e] > 0.0) level = std::min(level, instance_.network.capacity_bps[e] / load[e]);
  }
  return level;
}

// At the level that the ends of all pairs allow, what does not fit goes round over one other node, wherever
// most is left: nearly what the program will choose where all nodes are linked.
void UnicastWays::find_detours() {
  std::vector<double> left = capacities();
  const double level = level_of_ends();
  for (const UnicastPair& pair : pairs_) {
    if (pair.link < 0) continue;
    const double rate = pair.slope * level + pair.fixed;
    each_row(pair.link, [&](int row) { left[static_cast<std::size_t>(row)] -= rate; });
  }
  const auto room_of = [&](int arc) {
    double room = kUnreachable;
    each_row(graph_.link[static_cast<std::size_t>(arc)],
             [&](int row) { room = std::min(room, left[static_cast<std::size_t>(row)]); });
    return room;
  };
  for (std::size_t p = 0; p < pairs_.size(); ++p) {
    look_at_budget();
    if (pairs_[p].link < 0) continue;
    double& straight = left[static_cast<std::size_t>(pairs_[p].link)];
    for (int detours = 0; detours < kMostDetours && straight < 0.0; ++detours) {
      const std::optional<std::pair<int, int>> arcs = widest_detour(pairs_[p], room_of);
      if (!arcs.has_value()) break;
      const double moved = std::min({-straight, room_of(arcs->first), room_of(arcs->second)});
      straight += moved;
      UnicastWay way{p, {}};
      for (const int arc : {arcs->first, arcs->second}) {
        way.links.push_back(graph_.link[static_cast<std::size_t>(arc)]);
        each_row(way.links.back(), [&](int row) { left[static_cast<std::size_t>(row)] -= moved; });
      }
      add(std::move(way));
    }
  }
}

template <typename Room>
std::optional<std::pair<int, int>> UnicastWays::widest_detour(const UnicastPair& pair,
                                                              const Room& room_of) const {
  const std::vector<int> last = arcs_to(pair.to);
  double widest = 0.0;
  std::optional<std::pair<int, int>> best;
  for (const int arc : graph_.graph.out[static_cast<std::size_t>(pair.from)]) {
    const int next = last[static_cast<std::size_t>(graph_.graph.arcs[static_cast<std::size_t>(arc)].to)];
    if (next < 0) continue;
    const double room = std::min(room_of(arc), room_of(next));
    if (room <= widest) continue;
    widest = room;
    best = {arc, next};
  }
  return best;
}

// What all links out of a node, or into it, and its limits let through.
double UnicastWays::level_of_ends() const {
  const std::size_t nodes = instance_.node_count();
  std::vector<double> most[2] = {std::vector<double>(nodes, 0.0), std::vector<double>(nodes, 0.0)};
  std::vector<double> slope[2] = {most[0], most[0]};
  for (std::size_t e = 0; e < instance_.link_count(); ++e) {
    most[0][instance_.tail[e].index()] += instance_.network.capacity_bps[e];
    most[1][instance_.head[e].index()] += instance_.network.capacity_bps[e];
  }
  for (const UnicastPair& pair : pairs_) {
    slope[0][static_cast<std::size_t>(pair.from)] += pair.slope;
    slope[1][static_cast<std::size_t>(pair.to)] += pair.slope;
  }
  double level = kUnreachable;
  for (std::size_t v = 0; v < nodes; ++v) {
    if (slope[0][v] > 0.0)
      level = std::min(level, std::min(most[0][v], instance_.network.egress_bps[v]) / slope[0][v]);
    if (slope[1][v] > 0.0)
      level = std::min(level, std::min(most[1][v], instance_.network.ingress_bps[v]) / slope[1][v]);
  }
  return level;
}

void UnicastWays::add_way(std::size_t pair, const Distances& from_source) {
  UnicastWay way{pair, {}};
  for (int v = pairs_[pair].to; v != pairs_[pair].from;) {
    const auto arc = static_cast<std::size_t>(from_source.arc[static_cast<std::size_t>(v)]);
    way.links.push_back(graph_.link[arc]);
    v = graph_.graph.arcs[arc].from;
  }
  std::ranges::reverse(way.links);
  if (way.links.size() > 1) add(std::move(way));
}

bool UnicastWays::add(UnicastWay way) {
  if (!known_.insert({way.pair, way.links}).second) return false;
  ways_.push_back(std::move(way));
  return true;
}

void UnicastWays::add_detours(std::size_t p, double paid, const std::vector<double>& arc_cost) {
  const std::vector<int> last = arcs_to(pairs_[p].to);
  int added = 0;
  for (const int arc : graph_.graph.out[static_cast<std::size_t>(pairs_[p].from)]) {
    const int next = last[static_cast<std::size_t>(graph_.graph.arcs[static_cast<std::size_t>(arc)].to)];
    if (next < 0 || added >= kDetoursPerRound) continue;
    const auto first = static_cast<std::size_t>(arc);
    const auto second = static_cast<std::size_t>(next);
    if (arc_cost[first] + arc_cost[second] >= paid) continue;
    UnicastWay way{p, {graph_.link[first], graph_.link[second]}};
    if (add(std::move(way))) ++added;
  }
}

// By node: the arc from it to `node`, or -1.
std::vector<int> UnicastWays::arcs_to(int node) const {
  std::vector<int> arcs(instance_.node_count(), -1);
  for (const int arc : graph_.graph.in[static_cast<std::size_t>(node)])
    arcs[static_cast<std::size_t>(graph_.graph.arcs[static_cast<std::size_t>(arc)].from)] = arc;
  return arcs;
}

}  // namespace square::planning
