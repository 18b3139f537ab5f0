#include "planning/packing/steiner_reduction.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/spending.h"
#include "planning/packing/min_plus.h"

namespace square::planning {
namespace {

// Marks of flood(), beside arcs.
constexpr int kNotReached = -2;
constexpr int kStart = -1;

}  // namespace

SteinerWork steiner_work(int nodes, std::size_t arcs, std::size_t terminals) {
  // A search takes this many steps for each arc and each node, against one that runs in
  // parallel with others: measured.
  constexpr double kStepsPerArc = 40.0;
  constexpr double kStepsPerNode = 500.0;
  constexpr double kMostTerminals = 14.0;
  const double n = nodes;
  const double sets = std::exp2(std::min(static_cast<double>(terminals), kMostTerminals));
  return {n * n * (n + sets), sets * (kStepsPerArc * static_cast<double>(arcs) + kStepsPerNode * n)};
}

SteinerReduction::SteinerReduction(const Digraph& graph, int root, const std::vector<int>& terminals)
    : graph_(graph), root_(root) {
  std::vector<bool> known(graph.node_count(), false);
  known[root] = true;
  for (const int terminal : terminals) {
    if (!known[terminal]) terminals_.push_back(terminal);
    known[terminal] = true;
  }
}

void SteinerReduction::update(const std::vector<double>& cost) {
  collect_free_arcs(cost);
  contract();
  choose_terminals();
  const SteinerWork work = steiner_work(nodes_, graph_.arcs.size(), reduced_terminals_.size());
  is_dense_ = work.dense <= work.sparse;
  if (is_dense_) {
    fill_dense(cost);
  } else {
    fill_sparse(cost);
  }
}

void SteinerReduction::collect_free_arcs(const std::vector<double>& cost) {
  free_arcs_.clear();
  free_begin_.clear();
  for (const std::vector<int>& out : graph_.out) {
    free_begin_.push_back(static_cast<int>(free_arcs_.size()));
    for (const int arc : out) {
      if (cost[arc] <= 0.0) free_arcs_.push_back(arc);
    }
  }
  free_begin_.push_back(static_cast<int>(free_arcs_.size()));
}

void SteinerReduction::flood(int start) const {
  reached_by_.assign(graph_.node_count(), kNotReached);
  reached_by_[start] = kStart;
  queue_.assign(1, start);
  for (std::size_t i = 0; i < queue_.size(); ++i) {
    const int node = queue_[i];
    for (int f = free_begin_[node]; f < free_begin_[node + 1]; ++f) {
      const int to = graph_.arcs[free_arcs_[f]].to;
      if (reached_by_[to] != kNotReached) continue;
      reached_by_[to] = free_arcs_[f];
      queue_.push_back(to);
    }
  }
}

void SteinerReduction::contract() {
  constexpr int kNone = -1;
  node_of_.assign(graph_.node_count(), kNone);
  flood(root_);
  for (const int node : queue_) node_of_[node] = 0;
  nodes_ = 1;
  if (!free_arcs_.empty()) {
    contract_cycles();
    return;
  }
  for (int& node : node_of_) {
    if (node == kNone) node = nodes_++;
  }
}

// Strongly connected components of the arcs of no cost, outside the root's: Tarjan's
// algorithm with a stack of its own.
void SteinerReduction::contract_cycles() {
  const int n = graph_.node_count();
  std::vector<int> index(n, 0);  // order of discovery from 1 on; 0 for not yet
  std::vector<int> low(n, 0);
  std::vector<int> next = free_begin_;
  std::vector<int> stack;
  std::vector<int> path;
  int discovered = 0;
  for (int start = 0; start < n; ++start) {
    if (node_of_[start] >= 0 || index[start] > 0) continue;
    path.push_back(start);
    while (!path.empty()) {
      const int v = path.back();
      if (index[v] == 0) {
        index[v] = low[v] = ++discovered;
        stack.push_back(v);
      }
      if (next[v] < free_begin_[v + 1]) {
        const int to = graph_.arcs[free_arcs_[next[v]]].to;
        if (node_of_[to] >= 0) {
          ++next[v];
        } else if (index[to] == 0) {
          path.push_back(to);  // and looks at the same arc again afterwards
        } else {
          low[v] = std::min(low[v], low[to]);
          ++next[v];
        }
        continue;
      }
      path.pop_back();
      if (low[v] != index[v]) continue;
      int member = 0;
      do {
        member = stack.back();
        stack.pop_back();
        node_of_[member] = nodes_;
      } while (member != v);
      ++nodes_;
    }
  }
}

void SteinerReduction::choose_terminals() {
  leader_.assign(graph_.node_count(), {});
  reduced_terminals_.clear();
  std::vector<int> leading;
  for (const int terminal : terminals_) {
    leader_[terminal] = node_of_[terminal] == 0 ? Leader{root_, -1} : Leader{terminal, 0};
    if (node_of_[terminal] != 0) leading.push_back(terminal);
  }
  if (!free_arcs_.empty()) {
    // One that is led already leads nobody: its leader reaches whatever it does.
    for (const int terminal : leading) {
      if (leader_[terminal].node != terminal) continue;
      flood(terminal);
      for (const int other : leading) {
        if (reached_by_[leader_[other].node] != kNotReached) leader_[other].node = terminal;
      }
    }
  }
  for (const int terminal : leading) {
    Leader& leader = leader_[terminal];
    leader.reduced = node_of_[leader.node];
    if (leader.node == terminal) reduced_terminals_.push_back(leader.reduced);
  }
}

void SteinerReduction::fill_dense(const std::vector<double>& cost) {
  stride_ = padded_row(nodes_);
  direct_.assign(nodes_ * stride_, kUnreachable);
  direct_arc_.assign(nodes_ * stride_, -1);
  for (int a = 0; a < static_cast<int>(graph_.arcs.size()); ++a) {
    const int from = node_of_[graph_.arcs[a].from];
    const int to = node_of_[graph_.arcs[a].to];
    const std::size_t place = to * stride_ + from;
    if (from == to || to == 0 || cost[a] >= direct_[place]) continue;
    direct_[place] = std::max(cost[a], 0.0);
    direct_arc_[place] = a;
  }
  close_distances();
  arcs_.clear();
  for (int from = 0; from < nodes_; ++from) {
    for (int to = 1; to < nodes_; ++to) {
      const std::size_t place = to * stride_ + from;
      if (direct_arc_[place] < 0 || direct_[place] > distance_[place]) continue;
      arcs_.push_back({from, to, direct_[place], direct_arc_[place]});
    }
  }
}

// Floyd and Warshall.
void SteinerReduction::close_distances() {
  distance_ = direct_;
  for (int v = 0; v < nodes_; ++v) distance_[v * stride_ + v] = 0.0;
  for (int middle = 0; middle < nodes_; ++middle) {
    look_at_budget();
    const double* to_middle = distance_.data() + middle * stride_;
    for (int to = 0; to < nodes_; ++to) {
      double* to_there = distance_.data() + to * stride_;
      const double rest = to_there[middle];
      if (to == middle || rest == kUnreachable) continue;
      min_plus(to_there, to_middle, rest, stride_);
    }
  }
}

void SteinerReduction::fill_sparse(const std::vector<double>& cost) {
  stride_ = static_cast<std::size_t>(nodes_);
  arcs_.clear();
  for (int a = 0; a < static_cast<int>(graph_.arcs.size()); ++a) {
    const int from = node_of_[graph_.arcs[a].from];
    const int to = node_of_[graph_.arcs[a].to];
    if (from != to && to != 0) arcs_.push_back({from, to, std::max(cost[a], 0.0), a});
  }
  std::sort(arcs_.begin(), arcs_.end(), [](const Arc& a, const Arc& b) {
    return std::tie(a.from, a.original) < std::tie(b.from, b.original);
  });
}

std::vector<int> SteinerReduction::expand(const std::vector<int>& chosen) const {
  const int n = graph_.node_count();
  std::vector<int> first(n, -1);  // by node: its chosen arcs, as a list
  std::vector<int> following(chosen.size(), -1);
  for (int i = static_cast<int>(chosen.size()) - 1; i >= 0; --i) {
    const int from = graph_.arcs[chosen[i]].from;
    following[i] = first[from];
    first[from] = i;
  }
  // Whatever is free comes before a chosen arc, which so may turn out useless.
  reached_by_.assign(n, kNotReached);
  reached_by_[root_] = kStart;
  queue_.assign(1, root_);
  std::vector<int> waiting;
  std::size_t flooded = 0;
  std::size_t taken = 0;
  const auto reach = [&](int arc) {
    const int to = graph_.arcs[arc].to;
    if (reached_by_[to] != kNotReached) return;
    reached_by_[to] = arc;
    queue_.push_back(to);
  };
  while (true) {
    for (; flooded < queue_.size(); ++flooded) {
      const int node = queue_[flooded];
      for (int f = free_begin_[node]; f < free_begin_[node + 1]; ++f) reach(free_arcs_[f]);
      for (int i = first[node]; i >= 0; i = following[i]) waiting.push_back(chosen[i]);
    }
    if (taken == waiting.size()) break;
    reach(waiting[taken++]);
  }
  std::vector<bool> needed(n, false);
  for (const int terminal : terminals_) {
    for (int v = terminal; v != root_ && !needed[v]; v = graph_.arcs[reached_by_[v]].from) needed[v] = true;
  }
  std::vector<int> tree;
  for (const int node : queue_) {
    if (needed[node]) tree.push_back(reached_by_[node]);
  }
  return tree;
}

std::vector<int> SteinerReduction::expand_nodes(const std::vector<int>& reduced) const {
  std::vector<bool> inside(nodes_, false);
  for (const int node : reduced) inside[node] = true;
  std::vector<int> nodes;
  for (int v = 0; v < graph_.node_count(); ++v) {
    if (inside[node_of_[v]]) nodes.push_back(v);
  }
  return nodes;
}

std::vector<int> SteinerReduction::free_way(int from, int to) const {
  std::vector<int> way;
  if (from == to) return way;
  flood(from);
  for (int v = to; v != from; v = graph_.arcs[way.back()].from) way.push_back(reached_by_[v]);
  std::reverse(way.begin(), way.end());
  return way;
}

}  // namespace square::planning
