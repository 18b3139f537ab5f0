#include "planning/exact/max_flow.h"

#include <algorithm>

#include "base/spending.h"

namespace square::planning {

MaxFlow::MaxFlow(const Digraph& graph, const std::vector<double>& capacity)
    : first_(graph.node_count() + 1, 0),
      label_(graph.node_count()),
      unlabelled_(graph.node_count(), kUnseen) {
  const auto counts = [&](std::size_t e) {
    return capacity[e] > 0.0 && graph.arcs[e].from != graph.arcs[e].to;
  };
  for (std::size_t e = 0; e < graph.arcs.size(); ++e) {
    if (!counts(e)) continue;
    ++first_[graph.arcs[e].from + 1];
    ++first_[graph.arcs[e].to + 1];
  }
  for (int v = 0; v < graph.node_count(); ++v) first_[v + 1] += first_[v];
  halves_.resize(first_.back());
  capacity_.assign(halves_.size(), 0.0);
  std::vector<int> next(first_.begin(), first_.end() - 1);
  for (std::size_t e = 0; e < graph.arcs.size(); ++e) {
    if (!counts(e)) continue;
    const int forward = next[graph.arcs[e].from]++;
    const int backward = next[graph.arcs[e].to]++;
    halves_[forward] = {graph.arcs[e].to, backward};
    halves_[backward] = {graph.arcs[e].from, forward};
    capacity_[forward] = capacity[e];
  }
}

void MaxFlow::open_all() { std::fill(unlabelled_.begin(), unlabelled_.end(), kUnseen); }

double MaxFlow::run(const std::vector<double>& supply, int sink, double enough) {
  residual_ = capacity_;
  excess_ = supply;
  do {
    look_at_budget();
    label(sink);
  } while (push_down() && excess_[sink] <= enough);
  return excess_[sink];
}

void MaxFlow::label(int sink) {
  label_ = unlabelled_;
  order_.clear();
  order_.push_back(sink);
  label_[sink] = 0;
  for (std::size_t i = 0; i < order_.size(); ++i) {
    const int node = order_[i];
    for (int half = first_[node]; half < first_[node + 1]; ++half) {
      const auto [from, into] = halves_[half];
      if (label_[from] != kUnseen || residual_[into] <= 0.0) continue;
      label_[from] = label_[node] + 1;
      order_.push_back(from);
    }
  }
}

// False if there was nothing to push. What is left at a node found all its ways at this distance full, so its
// label rises in the next round.
bool MaxFlow::push_down() {
  bool pushed = false;
  for (std::size_t i = order_.size() - 1; i > 0; --i) {
    const int node = order_[i];
    double excess = excess_[node];
    if (excess <= 0.0) continue;
    pushed = true;
    for (int half = first_[node]; half < first_[node + 1] && excess > 0.0; ++half) {
      const auto [to, twin] = halves_[half];
      if (label_[to] != label_[node] - 1 || residual_[half] <= 0.0) continue;
      const double amount = std::min(excess, residual_[half]);
      residual_[half] -= amount;
      residual_[twin] += amount;
      excess_[to] += amount;
      excess -= amount;
    }
    excess_[node] = excess;
  }
  return pushed;
}

}  // namespace square::planning
