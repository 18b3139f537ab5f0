#include "planning/exact/memory.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "planning/packing/steiner_table.h"

namespace square::planning {
namespace {

// A capacity changed when it is other by this part; when so many did, an old plan is a worse
// start than none.
constexpr double kChanged = 0.05;
constexpr double kMostChanged = 0.3;

// Where trees are priced in fewer steps, new ones for other collectives are sooner found than
// old ones sorted out by the linear programs.
constexpr double kWorthRecalling = 5e6;

double pricing_work(const Instance& instance) {
  double work = 0.0;
  for (const Demand& demand : instance.demands) {
    const Digraph& graph = demand.graph->graph;
    const double sweep = static_cast<double>(graph.arcs.size());
    const bool by_table = !demand.spanning && demand.terminals.size() <= SteinerTable::kMaxTerminals;
    work += by_table ? SteinerTable::work(graph, demand.terminals.size()) : sweep;
  }
  return work;
}

std::size_t position(int value) { return static_cast<std::size_t>(value); }

bool is_basic(const Basis& basis, std::size_t column) {
  return column < basis.columns.size() && basis.columns[column] == kBasic;
}

}  // namespace

ExactMemory::Key ExactMemory::key_of(const Demand& demand) {
  std::vector<int> terminals = demand.terminals;
  std::sort(terminals.begin(), terminals.end());
  return {demand.reversed, demand.root, std::move(terminals)};
}

void ExactMemory::forget() {
  demands_.clear();
  groups_.clear();
  columns_.clear();
  layout_.reset();
  levels_.clear();
  carry_ = {};
}

void ExactMemory::align(const Topology& topology) {
  std::vector<std::string> nodes;
  std::vector<std::pair<int, int>> links;
  std::vector<double> capacity;
  for (std::uint32_t v = 0; v < topology.node_count(); ++v) nodes.push_back(topology.node(NodeId(v)).name);
  for (std::uint32_t e = 0; e < topology.link_count(); ++e) {
    const TopologyLink& link = topology.link(LinkId(e));
    links.emplace_back(static_cast<int>(link.from.value()), static_cast<int>(link.to.value()));
    capacity.push_back(link.properties.capacity_bps);
  }
  if (nodes != nodes_ || links != links_) {
    move_to(topology);
  } else {
    std::size_t changed = 0;
    for (std::size_t e = 0; e < capacity.size(); ++e) {
      if (std::abs(capacity[e] - capacity_[e]) > kChanged * capacity_[e]) ++changed;
    }
    if (static_cast<double>(changed) > kMostChanged * static_cast<double>(capacity.size())) forget();
  }
  nodes_ = std::move(nodes);
  links_ = std::move(links);
  capacity_ = std::move(capacity);
}

void ExactMemory::move_to(const Topology& topology) {
  hubs_ = {};
  const auto node = [&](int old) {
    if (old < 0) return -1;  // gone in a move before
    const auto found = topology.find_node(nodes_[position(old)]);
    return found.has_value() ? static_cast<int>(found->value()) : -1;
  };
  const auto id = [](int number) { return NodeId(static_cast<std::uint32_t>(number)); };
  std::vector<int> link(links_.size(), -1);
  for (std::size_t e = 0; e < links_.size(); ++e) {
    const int tail = node(links_[e].first);
    const int head = node(links_[e].second);
    if (tail < 0 || head < 0) continue;
    const auto found = topology.find_link(id(tail), id(head));
    if (found.has_value()) link[e] = static_cast<int>(found->index());
  }
  for (auto& [reversed, root, terminals] : demands_) {
    root = node(root);
    for (int& terminal : terminals) terminal = node(terminal);
    std::sort(terminals.begin(), terminals.end());
  }
  for (Column& column : columns_) {
    for (int& e : column.links) e = link[position(e)];
  }
  std::erase_if(columns_, [](const Column& column) {
    return std::find(column.links.begin(), column.links.end(), -1) != column.links.end();
  });
  // The rows of the programs are others now.
  layout_.reset();
  levels_.clear();
  carry_ = {};
}

bool ExactMemory::recall(const Instance& instance, ColumnPool& pool) {
  std::map<Key, std::vector<std::size_t>> wanted;  // demands of the same trees
  for (std::size_t i = 0; i < instance.demands.size(); ++i) {
    // A tree does not say how long its ways take.
    if (instance.demands[i].max_latency.empty()) wanted[key_of(instance.demands[i])].push_back(i);
  }
  demand_at_.clear();
  for (const Key& key : demands_) {
    auto found = wanted.find(key);
    const bool is_there = found != wanted.end() && !found->second.empty();
    demand_at_.push_back(is_there ? static_cast<int>(found->second.front()) : -1);
    if (is_there) found->second.erase(found->second.begin());
  }
  std::map<CollectiveId, int> group;
  const auto& collectives = instance.problem->scenario->collectives;
  for (std::size_t c = 0; c < collectives.size(); ++c) group[collectives[c].id] = static_cast<int>(c);
  group_at_.clear();
  for (const CollectiveId id : groups_) group_at_.push_back(group.contains(id) ? group[id] : -1);
  // Programs of other collectives end elsewhere: then nothing is a better start.
  same_groups_ = group.size() == groups_.size() &&
                 std::find(group_at_.begin(), group_at_.end(), -1) == group_at_.end() &&
                 std::find(demand_at_.begin(), demand_at_.end(), -1) == demand_at_.end();

  if (!same_groups_ && pricing_work(instance) < kWorthRecalling) return false;

  std::vector<std::vector<bool>> usable(instance.demands.size());
  column_at_.clear();
  for (const Column& column : columns_) {
    const int demand = demand_at_[column.demand];
    column_at_.push_back(-1);
    if (demand < 0) continue;
    std::vector<bool>& links = usable[position(demand)];
    if (links.empty()) {
      links.assign(instance.link_count(), false);
      for (const int e : instance.demands[position(demand)].graph->link) links[position(e)] = true;
    }
    const auto fits = [&](int e) { return links[position(e)]; };
    if (!std::all_of(column.links.begin(), column.links.end(), fits)) continue;
    column_at_.back() = static_cast<int>(pool.size());
    pool.add({position(demand), column.links, {}, {}});
  }
  return pool.size() > 0;
}

Basis ExactMemory::level_start(const Instance& instance, const std::vector<CollectiveId>& stopped) const {
  for (const Program& level : levels_) {
    if (level.stopped == stopped) return translated(instance, level.basis);
  }
  return {};
}

Basis ExactMemory::carry_start(const Instance& instance) const { return translated(instance, carry_); }

Basis ExactMemory::translated(const Instance& instance, const Basis& basis) const {
  if (basis.rows.empty() || !layout_.has_value() || !same_groups_) return {};
  const MasterLayout now(instance);
  Basis out;
  out.by_dual = true;
  out.rows.assign(position(now.rows), kBasic);
  out.columns.assign(position(now.first_tree_column), kAtLower);
  const auto copy_row = [&](int from, int to) {
    if (from >= 0 && to >= 0) out.rows[position(to)] = basis.rows[position(from)];
  };
  for (int e = 0; e < static_cast<int>(links_.size()); ++e) copy_row(e, e);
  for (std::size_t v = 0; v < nodes_.size(); ++v) {
    copy_row(layout_->egress_row[v], now.egress_row[v]);
    copy_row(layout_->ingress_row[v], now.ingress_row[v]);
  }
  copy_row(layout_->budget_row, now.budget_row);
  for (std::size_t i = 0; i < demand_at_.size(); ++i) {
    if (demand_at_[i] >= 0) copy_row(layout_->demand_row[i], now.demand_row[position(demand_at_[i])]);
  }
  out.columns[0] = basis.columns[0];
  for (std::size_t c = 0; c < group_at_.size(); ++c) {
    if (group_at_[c] < 0) continue;
    const std::size_t at = position(group_at_[c]);
    copy_row(layout_->group_row[c], now.group_row[at]);
    if (layout_->share_column[c].size() != now.share_column[at].size()) continue;
    for (std::size_t a = 0; a < now.share_column[at].size(); ++a) {
      out.columns[position(now.share_column[at][a])] = basis.columns[position(layout_->share_column[c][a])];
    }
  }
  for (std::size_t k = 0; k < column_at_.size(); ++k) {
    const std::size_t from = position(layout_->first_tree_column) + k;
    if (column_at_[k] < 0) continue;
    out.columns.resize(position(now.first_tree_column + column_at_[k]) + 1, kAtLower);
    if (from < basis.columns.size()) out.columns.back() = basis.columns[from];
  }
  return out;
}

void ExactMemory::keep(const Instance& instance, const ColumnPool& pool, std::vector<Program> levels,
                       Basis carry) {
  forget();
  layout_.emplace(instance);
  for (const Demand& demand : instance.demands) demands_.push_back(key_of(demand));
  for (const CollectiveSpec& collective : instance.problem->scenario->collectives)
    groups_.push_back(collective.id);

  // The newest spare trees, and all that some program ended with.
  const std::size_t first = position(layout_->first_tree_column);
  std::vector<std::size_t> spare(instance.demands.size(), 0);
  std::vector<std::size_t> kept;
  for (std::size_t k = pool.size(); k-- > 0;) {
    bool basic = is_basic(carry, first + k);
    for (const Program& level : levels) basic = basic || is_basic(level.basis, first + k);
    if (basic || spare[pool.columns()[k].demand]++ < kSpareTrees) kept.push_back(k);
  }
  std::reverse(kept.begin(), kept.end());
  const auto shrink = [&](Basis& basis) {
    Basis small;
    small.rows = std::move(basis.rows);
    if (basis.columns.size() < first) return Basis{};
    small.columns.assign(basis.columns.begin(), basis.columns.begin() + static_cast<std::ptrdiff_t>(first));
    for (const std::size_t k : kept) {
      if (first + k < basis.columns.size()) small.columns.push_back(basis.columns[first + k]);
    }
    return small;
  };
  for (const std::size_t k : kept) columns_.push_back(pool.columns()[k]);
  for (Program& level : levels) level.basis = shrink(level.basis);
  levels_ = std::move(levels);
  carry_ = shrink(carry);
}

}  // namespace square::planning
