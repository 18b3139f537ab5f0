#include "planning/exact/hub_levels.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/spending.h"

namespace square::planning {
namespace {

// Levels that differ by less are one.
constexpr double kSameLevel = 1e-9;

using Kind = Targets::Kind;

bool add_all_reduce(const Instance& instance, const Group& group, HubNeed& need) {
  std::size_t members = 0;
  for (const Alternative& alternative : group.alternatives) {
    if (alternative.demands.size() != 2) return false;
    if (alternative.fractions.front() != 1.0 || alternative.fractions.back() != 1.0) return false;
    const Demand& first = instance.demands[alternative.demands.front()];
    const Demand& second = instance.demands[alternative.demands.back()];
    if (first.reversed == second.reversed || first.root != second.root) return false;
    if (first.terminals.size() != second.terminals.size()) return false;
    members = first.terminals.size() + 1;
    need.sends.emplace_back(first.root, group.weight);
  }
  need.receives = need.sends;
  need.copies = 2.0 * group.weight * static_cast<double>(members - 1);
  return need.sends.size() == members;
}

void add_demand(const Demand& demand, double rate, HubNeed& need) {
  (demand.reversed ? need.receives : need.sends).emplace_back(demand.root, rate);
  for (const int terminal : demand.terminals)
    (demand.reversed ? need.sends : need.receives).emplace_back(terminal, rate);
  need.copies += rate * static_cast<double>(demand.terminals.size());
}

class Levels {
 public:
  Levels(const Instance& instance, const std::vector<HubNeed>& needs, bool sending)
      : instance_(instance), needs_(needs), sending_(sending), targets_(active_targets(instance)) {
    out_.rate.assign(instance.groups.size(), 0.0);
    const std::vector<double>& limit = sending ? instance.network.egress_bps : instance.network.ingress_bps;
    whole_.left = std::accumulate(limit.begin(), limit.end(), 0.0);
    for (const double bps : instance.network.egress_bps) nodes_.push_back({bps});
    for (const double bps : instance.network.ingress_bps) nodes_.push_back({bps});
    for (std::size_t c = 0; c < needs.size(); ++c) {
      if (targets_.kind[c] == Kind::kActive) change(c, 0.0, 1.0);
    }
  }

  std::optional<HubLevels> run() {
    while (std::ranges::find(targets_.kind, Kind::kActive) != targets_.kind.end()) {
      look_at_budget();
      std::size_t first = nodes_.size();
      double level = whole_.level();
      for (std::size_t r = 0; r < nodes_.size(); ++r) {
        if (nodes_[r].level() >= level * (1.0 - kSameLevel)) continue;
        level = nodes_[r].level();
        first = r;
      }
      if (!std::isfinite(level)) return std::nullopt;
      stop(level, first);
    }
    return std::move(out_);
  }

 private:
  // What is left of a limit, and what the active groups take of it at level one.
  struct Limit {
    double left = 0.0;
    double taken = 0.0;
    [[nodiscard]] double level() const { return taken > 0.0 ? std::max(left, 0.0) / taken : kUnreachable; }
  };

  // The group has `bps` times its need for good, and takes `part` more of it for each level.
  void change(std::size_t c, double bps, double part) {
    const auto take = [&](Limit& limit, double need) {
      limit.left -= bps * need;
      limit.taken += part * need;
    };
    for (const auto& [node, need] : needs_[c].sends) take(nodes_[static_cast<std::size_t>(node)], need);
    for (const auto& [node, need] : needs_[c].receives)
      take(nodes_[instance_.node_count() + static_cast<std::size_t>(node)], need);
    take(whole_, needs_[c].copies);
  }

  // Those that need what is full; past the last node, all.
  void stop(double level, std::size_t resource) {
    const std::size_t nodes = instance_.node_count();
    const bool is_node = resource < nodes_.size();
    const auto needs_it = [&](const HubNeed& need) {
      const auto& ends = resource < nodes ? need.sends : need.receives;
      return std::ranges::any_of(
          ends, [&](const auto& end) { return end.first == static_cast<int>(resource % nodes); });
    };
    std::vector<std::size_t> groups;
    for (std::size_t c = 0; c < needs_.size(); ++c) {
      if (targets_.kind[c] == Kind::kActive && (!is_node || needs_it(needs_[c]))) groups.push_back(c);
    }
    if (groups.empty()) {  // all that need it stopped at another node that was full at the same level
      nodes_[resource] = {};
      return;
    }
    ProvenLevel proven{level, std::move(groups), is_node ? node_proof(resource) : whole_proof()};
    proven.proof.bound = proven_bound(instance_, targets_, proven.proof);
    for (const std::size_t c : proven.groups) {
      change(c, level, -1.0);
      out_.rate[c] = targets_.rate[c] = targets_.weight[c] * level;
      targets_.kind[c] = Kind::kFixed;
    }
    if (is_node) nodes_[resource] = {};  // whatever rounding has left
    out_.levels.push_back(std::move(proven));
  }

  [[nodiscard]] Proof empty_proof() const {
    Proof proof;  // links cost nothing, and there may be a million for each level
    proof.duals.egress.assign(instance_.node_count(), 0.0);
    proof.duals.ingress.assign(instance_.node_count(), 0.0);
    proof.packings.resize(instance_.demands.size());
    return proof;
  }

  // What nodes send, or receive, costs the same everywhere. Every member is a cut.
  [[nodiscard]] Proof whole_proof() const {
    Proof proof = empty_proof();
    (sending_ ? proof.duals.egress : proof.duals.ingress).assign(instance_.node_count(), 1.0);
    for (std::size_t i = 0; i < instance_.demands.size(); ++i) {
      for (const int terminal : instance_.demands[i].terminals)
        proof.packings[i].cuts.push_back({{terminal}, 1.0});
      proof.packings[i].length = static_cast<double>(instance_.demands[i].terminals.size());
    }
    return proof;
  }

  // What one node sends, or receives, costs, and must cross the cut around it.
  [[nodiscard]] Proof node_proof(std::size_t resource) const {
    Proof proof = empty_proof();
    const bool sends = resource < instance_.node_count();
    const auto node = static_cast<int>(resource % instance_.node_count());
    (sends ? proof.duals.egress : proof.duals.ingress)[static_cast<std::size_t>(node)] = 1.0;
    std::vector<int> others;
    for (int v = 0; v < static_cast<int>(instance_.node_count()); ++v) {
      if (v != node) others.push_back(v);
    }
    for (std::size_t i = 0; i < instance_.demands.size(); ++i) {
      const Demand& demand = instance_.demands[i];
      const bool from_root = demand.reversed != sends;
      if (from_root && demand.root == node) proof.packings[i] = {{{others, 1.0}}, 1.0};
      const bool is_terminal = std::ranges::find(demand.terminals, node) != demand.terminals.end();
      if (!from_root && is_terminal) proof.packings[i] = {{{{node}, 1.0}}, 1.0};
    }
    return proof;
  }

  const Instance& instance_;
  const std::vector<HubNeed>& needs_;
  const bool sending_;
  Targets targets_;
  Limit whole_;
  std::vector<Limit> nodes_;  // what they send, then what they receive
  HubLevels out_;
};

}  // namespace

std::optional<std::vector<HubNeed>> hub_needs(const Instance& instance) {
  std::vector<HubNeed> needs;
  for (const Group& group : instance.groups) {
    HubNeed& need = needs.emplace_back();
    if (group.alternatives.size() > 1 && !add_all_reduce(instance, group, need)) return std::nullopt;
    if (group.alternatives.size() != 1) continue;
    const Alternative& only = group.alternatives.front();
    for (std::size_t k = 0; k < only.demands.size(); ++k)
      add_demand(instance.demands[only.demands[k]], group.weight * only.fractions[k], need);
  }
  return needs;
}

std::optional<HubLevels> hub_levels(const Instance& instance, const std::vector<HubNeed>& needs,
                                    bool sending) {
  return Levels(instance, needs, sending).run();
}

}  // namespace square::planning
