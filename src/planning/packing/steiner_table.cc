#include "planning/packing/steiner_table.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "base/check.h"
#include "base/spending.h"
#include "planning/packing/min_plus.h"

namespace square::planning {
namespace {

bool is_single(unsigned set) { return (set & (set - 1)) == 0; }

// out[v] = min(first[v] + second[v]) over all pairs of rows, which follow each other, for
// one block of v.
void join_block(const std::vector<const double*>& halves, std::size_t begin, double* out) {
  NumberPair best[kRowBlock / kPair];
  for (NumberPair& pair : best) pair = NumberPair{kUnreachable, kUnreachable};
  for (std::size_t h = 0; h < halves.size(); h += 2) {
    const double* first = halves[h] + begin;
    const double* second = halves[h + 1] + begin;
#pragma GCC unroll 4  // which keeps the minima in registers
    for (std::size_t p = 0; p < kRowBlock / kPair; ++p) {
      best[p] = lesser(load_pair(first + p * kPair) + load_pair(second + p * kPair), best[p]);
    }
  }
  for (std::size_t p = 0; p < kRowBlock / kPair; ++p) store_pair(best[p], out + begin + p * kPair);
}

}  // namespace

SteinerTable::SteinerTable(const Digraph& graph, int root, const std::vector<int>& terminals)
    : reduction_(graph, root, terminals), work_(work(graph, terminals.size())) {}

double SteinerTable::work(const Digraph& graph, std::size_t terminals) {
  if (terminals > kMaxTerminals) return kUnreachable;
  const double splits = std::pow(3.0, static_cast<double>(terminals)) / 2.0;
  const SteinerWork spread = steiner_work(graph.node_count(), graph.arcs.size(), terminals);
  return splits * graph.node_count() + std::min(spread.dense, spread.sparse);
}

std::optional<std::vector<int>> SteinerTable::cheapest(const std::vector<double>& cost) {
  SQUARE_CHECK(work_ < kUnreachable, "a table for more terminals than there is room for");
  reduction_.update(cost);
  std::vector<int> arcs;
  if (reduction_.terminals().empty()) return reduction_.expand(arcs);
  index_arcs();
  search_from(reduction_.root());
  for (const int terminal : reduction_.terminals()) {
    if (distance_[terminal] == kUnreachable) return std::nullopt;
  }
  fill();
  trace((1U << reduction_.terminals().size()) - 1, reduction_.root(), arcs);
  return reduction_.expand(arcs);
}

void SteinerTable::index_arcs() {
  const std::vector<Arc>& arcs = reduction_.arcs();
  const int n = reduction_.node_count();
  out_begin_.assign(n + 1, 0);
  for (const Arc& arc : arcs) ++out_begin_[arc.from + 1];
  for (int v = 0; v < n; ++v) out_begin_[v + 1] += out_begin_[v];
  if (reduction_.is_dense()) return;
  in_begin_.assign(n + 1, 0);
  for (const Arc& arc : arcs) ++in_begin_[arc.to + 1];
  for (int v = 0; v < n; ++v) in_begin_[v + 1] += in_begin_[v];
  in_arcs_.resize(arcs.size());
  std::vector<int> next(in_begin_.begin(), in_begin_.end() - 1);
  for (const Arc& arc : arcs) in_arcs_[next[arc.to]++] = arc;
}

// Every set but the whole one, which only the root needs.
void SteinerTable::fill() {
  const std::vector<int>& terminals = reduction_.terminals();
  const unsigned sets = 1U << terminals.size();
  const std::size_t stride = reduction_.stride();
  table_.resize((sets - 1) * stride);
  joined_.resize(stride);
  for (unsigned set = 1; set < sets - 1; ++set) {
    look_at_budget();
    double* out = row(set);
    if (!is_single(set)) {
      join(set);
      std::copy(joined_.begin(), joined_.end(), out);
    } else if (const int terminal = terminals[__builtin_ctz(set)]; reduction_.is_dense()) {
      std::copy_n(reduction_.distances_to(terminal), stride, out);
      continue;
    } else {
      std::fill_n(out, stride, kUnreachable);
      out[terminal] = 0.0;
    }
    if (reduction_.is_dense()) {
      spread_dense(out);
    } else {
      spread_sparse(out);
    }
  }
}

void SteinerTable::join(unsigned set) {
  const unsigned low = set & (~set + 1);
  const unsigned others = set ^ low;
  halves_.clear();
  // The half without the lowest member, so that each split comes once.
  for (unsigned half = others; half != 0; half = (half - 1) & others) {
    halves_.push_back(row(half));
    halves_.push_back(row(set ^ half));
  }
  const std::size_t stride = reduction_.stride();
  std::size_t column = 0;
  for (; column + kRowBlock <= stride; column += kRowBlock) join_block(halves_, column, joined_.data());
  for (; column < stride; ++column) {
    joined_[column] = kUnreachable;
    for (std::size_t h = 0; h < halves_.size(); h += 2) {
      joined_[column] = std::min(joined_[column], halves_[h][column] + halves_[h + 1][column]);
    }
  }
}

// The min-plus product of joined_, of which `out` is a copy, and all distances.
void SteinerTable::spread_dense(double* out) {
  const auto relax = [&](std::size_t middle) {
    min_plus(out, reduction_.distances_to(static_cast<int>(middle)), joined_[middle], reduction_.stride());
  };
  const auto best =
      static_cast<std::size_t>(std::min_element(joined_.begin(), joined_.end()) - joined_.begin());
  relax(best);
  for (std::size_t middle = 0; middle < static_cast<std::size_t>(reduction_.node_count()); ++middle) {
    // Going on elsewhere is cheaper already, so it is from wherever one comes.
    if (out[middle] < joined_[middle] || middle == best) continue;
    relax(middle);
  }
}

void SteinerTable::spread_sparse(double* out) {
  heap_.clear();
  for (int v = 0; v < reduction_.node_count(); ++v) {
    if (out[v] < kUnreachable) heap_.emplace_back(out[v], v);
  }
  std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    const auto [distance, node] = heap_.back();
    heap_.pop_back();
    if (distance > out[node]) continue;
    for (int a = in_begin_[node]; a < in_begin_[node + 1]; ++a) {
      const double candidate = distance + in_arcs_[a].cost;
      if (candidate >= out[in_arcs_[a].from]) continue;
      out[in_arcs_[a].from] = candidate;
      heap_.emplace_back(candidate, in_arcs_[a].from);
      std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
    }
  }
}

void SteinerTable::search_from(int start) {
  const std::vector<Arc>& arcs = reduction_.arcs();
  distance_.assign(reduction_.node_count(), kUnreachable);
  arrival_.assign(reduction_.node_count(), -1);
  distance_[start] = 0.0;
  heap_.assign(1, {0.0, start});
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    const auto [distance, node] = heap_.back();
    heap_.pop_back();
    if (distance > distance_[node]) continue;
    for (int a = out_begin_[node]; a < out_begin_[node + 1]; ++a) {
      const double candidate = distance + arcs[a].cost;
      if (candidate >= distance_[arcs[a].to]) continue;
      distance_[arcs[a].to] = candidate;
      arrival_[arcs[a].to] = a;
      heap_.emplace_back(candidate, arcs[a].to);
      std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
    }
  }
}

void SteinerTable::trace_way(int start, int end, std::vector<int>& arcs) const {
  for (int v = end; v != start; v = reduction_.arcs()[arrival_[v]].from) {
    arcs.push_back(reduction_.arcs()[arrival_[v]].original);
  }
}

// Decided again from the rows of smaller sets: cheaper than remembering every step.
void SteinerTable::trace(unsigned set, int node, std::vector<int>& arcs) {
  search_from(node);
  if (is_single(set)) {
    trace_way(node, reduction_.terminals()[__builtin_ctz(set)], arcs);
    return;
  }
  join(set);
  int branch = node;
  for (int v = 0; v < reduction_.node_count(); ++v) {
    if (distance_[v] + joined_[v] < distance_[branch] + joined_[branch]) branch = v;
  }
  trace_way(node, branch, arcs);
  const unsigned low = set & (~set + 1);
  const unsigned others = set ^ low;
  unsigned best = others;
  for (unsigned half = others; half != 0; half = (half - 1) & others) {
    if (row(half)[branch] + row(set ^ half)[branch] < row(best)[branch] + row(set ^ best)[branch])
      best = half;
  }
  trace(best, branch, arcs);
  trace(set ^ best, branch, arcs);
}

}  // namespace square::planning
