#include "planning/exact/unit_flow.h"

#include <algorithm>

namespace square::planning {
namespace {

constexpr double kNoUnitFlow = 1e-12;
constexpr int kNeverArrived = -2;
constexpr int kAtRoot = -1;

}  // namespace

void UnitFlow::set_capacity(const std::vector<double>& capacity) {
  capacity_.assign(capacity.size(), 0.0);
  begin_.assign(graph_.node_count() + 1, 0);
  for (std::size_t a = 0; a < capacity.size(); ++a) {
    if (capacity[a] <= kNoUnitFlow) continue;
    capacity_[a] = std::min(capacity[a], 1.0);
    ++begin_[graph_.arcs[a].from + 1];
    ++begin_[graph_.arcs[a].to + 1];
  }
  for (int v = 0; v < graph_.node_count(); ++v) begin_[v + 1] += begin_[v];
  halves_.resize(begin_.back());
  forward_.clear();
  std::vector<int> next(begin_.begin(), begin_.end() - 1);
  for (int a = 0; a < static_cast<int>(capacity.size()); ++a) {
    if (capacity_[a] == 0.0) continue;
    const auto [from, to] = graph_.arcs[a];
    const int there = next[from]++;
    const int back = next[to]++;
    halves_[there] = {to, back, a, 0.0};
    halves_[back] = {from, there, a, 0.0};
    forward_.push_back(there);
  }
}

double UnitFlow::run(int sink) {
  sink_ = sink;
  amount_ = 0.0;
  for (const int half : forward_) {
    halves_[half].left = capacity_[halves_[half].arc];
    halves_[halves_[half].twin].left = 0.0;
  }
  while (1.0 - amount_ > kNoUnitFlow && search()) {
    double most = 1.0 - amount_;
    for (int v = sink; v != root_; v = halves_[halves_[arrival_[v]].twin].to) {
      most = std::min(most, halves_[arrival_[v]].left);
    }
    for (int v = sink; v != root_; v = halves_[halves_[arrival_[v]].twin].to) {
      Half& half = halves_[arrival_[v]];
      half.left -= most;
      halves_[half.twin].left += most;
    }
    amount_ += most;
  }
  return amount_;
}

// Breadth first, up to the sink.
bool UnitFlow::search() {
  arrival_.assign(graph_.node_count(), kNeverArrived);
  arrival_[root_] = kAtRoot;
  queue_.assign(1, root_);
  for (std::size_t i = 0; i < queue_.size(); ++i) {
    for (int h = begin_[queue_[i]]; h < begin_[queue_[i] + 1]; ++h) {
      if (halves_[h].left <= kNoUnitFlow || arrival_[halves_[h].to] != kNeverArrived) continue;
      arrival_[halves_[h].to] = h;
      if (halves_[h].to == sink_) return true;
      queue_.push_back(halves_[h].to);
    }
  }
  return false;
}

std::vector<int> UnitFlow::near_sink() const {
  std::vector<bool> seen(graph_.node_count(), false);
  seen[sink_] = true;
  std::vector<int> nodes = {sink_};
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (int h = begin_[nodes[i]]; h < begin_[nodes[i] + 1]; ++h) {
      if (halves_[halves_[h].twin].left <= kNoUnitFlow || seen[halves_[h].to]) continue;
      seen[halves_[h].to] = true;
      nodes.push_back(halves_[h].to);
    }
  }
  std::sort(nodes.begin(), nodes.end());
  return nodes;
}

std::vector<int> UnitFlow::beyond_root() const {
  std::vector<int> nodes;
  for (int v = 0; v < graph_.node_count(); ++v) {
    if (arrival_[v] == kNeverArrived) nodes.push_back(v);
  }
  return nodes;
}

std::vector<std::pair<std::vector<int>, double>> UnitFlow::take_paths() {
  std::vector<std::pair<std::vector<int>, double>> paths;
  const auto flow = [&](int half) -> double& { return halves_[halves_[half].twin].left; };
  const auto is_forward = [&](int half) { return halves_[half].to == graph_.arcs[halves_[half].arc].to; };
  while (true) {
    // Breadth first along the flow, so that paths are simple whatever cycles it has.
    arrival_.assign(graph_.node_count(), kNeverArrived);
    arrival_[root_] = kAtRoot;
    queue_.assign(1, root_);
    for (std::size_t i = 0; i < queue_.size() && arrival_[sink_] == kNeverArrived; ++i) {
      for (int h = begin_[queue_[i]]; h < begin_[queue_[i] + 1]; ++h) {
        if (!is_forward(h) || flow(h) <= kNoUnitFlow || arrival_[halves_[h].to] != kNeverArrived) continue;
        arrival_[halves_[h].to] = h;
        queue_.push_back(halves_[h].to);
      }
    }
    if (arrival_[sink_] == kNeverArrived || sink_ == root_) return paths;
    std::vector<int> arcs;
    double least = 1.0;
    for (int v = sink_; v != root_; v = graph_.arcs[arcs.back()].from) {
      arcs.push_back(halves_[arrival_[v]].arc);
      least = std::min(least, flow(arrival_[v]));
    }
    for (int v = sink_; v != root_; v = graph_.arcs[halves_[arrival_[v]].arc].from)
      flow(arrival_[v]) -= least;
    std::reverse(arcs.begin(), arcs.end());
    paths.emplace_back(std::move(arcs), least);
  }
}

}  // namespace square::planning
