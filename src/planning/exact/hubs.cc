#include "planning/exact/hubs.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/spending.h"
#include "planning/exact/balance.h"
#include "planning/exact/load.h"

namespace square::planning {
namespace {

// Sums of equal numbers differ by so much.
constexpr double kSame = 1e-9;
// Less than this part of a unit is nothing.
constexpr double kNoPart = 1e-9;
// So often copies are moved away from links and limits that do not carry them.
constexpr int kMostRounds = 24;

std::size_t index(int node) { return static_cast<std::size_t>(node); }

// With one of two limits: of what nodes send, or of what they receive.
class Hubs {
 public:
  Hubs(const Instance& instance, const std::vector<HubNeed>& needs, bool sending, HubMemory* memory)
      : instance_(instance),
        needs_(needs),
        sending_(sending),
        memory_(memory),
        room_(sending ? instance.network.egress_bps : instance.network.ingress_bps) {}

  std::optional<HubsAnswer> run() {
    std::optional<HubLevels> levels = hub_levels(instance_, needs_, sending_);
    if (!levels.has_value()) return std::nullopt;
    for (std::size_t c = 0; c < instance_.groups.size(); ++c) add_group(c, levels->rate[c]);
    for (double& bps : room_) bps = std::max(bps, 0.0);
    BalanceParts start = recall();
    for (int round = 0; round < kMostRounds && !instance_.is_late(); ++round) {
      std::optional<BalanceParts> parts = balance(units_, room_, std::move(start));
      if (!parts.has_value()) return std::nullopt;
      HubsAnswer answer{{}, carried_by(*parts, levels->rate)};
      const std::optional<Load> load = load_of(answer.carried);
      if (!load.has_value()) return std::nullopt;
      const double factor = fit(*load, answer.carried);
      if (factor >= 1.0 - kSame) {
        if (memory_ != nullptr) remember(*parts);
        answer.levels = *std::move(levels);
        for (double& rate : answer.levels.rate) rate *= factor;
        return answer;
      }
      if (!relieve(*load, *parts)) return std::nullopt;
      start = *std::move(parts);
    }
    return std::nullopt;
  }

 private:
  // Whose copies a unit is: of a session, or of an all-reduce, whose alternatives have a root each.
  struct Whose {
    std::size_t group;
    std::size_t demand;
    bool is_shared;
  };

  [[nodiscard]] bool is_free(const Demand& demand) const { return demand.reversed != sending_; }

  // What it needs of the nodes' room, and what can be anywhere.
  void add_group(std::size_t c, double rate) {
    look_at_budget();
    const Group& group = instance_.groups[c];
    if (group.alternatives.empty()) return;
    const HubNeed& need = needs_[c];
    const double level = rate / group.weight;
    for (const auto& [node, part] : sending_ ? need.sends : need.receives) room_[index(node)] -= level * part;
    const std::vector<Alternative>& alternatives = group.alternatives;
    if (alternatives.size() > 1) {
      // By the star around each of the roots: a member sends and receives its own once, the root the rest.
      BalanceUnit unit{rate * static_cast<double>(alternatives.size() - 2), {}};
      for (const Alternative& alternative : alternatives)
        unit.nodes.push_back(instance_.demands[alternative.demands.front()].root);
      units_.push_back(std::move(unit));
      whose_.push_back({c, alternatives.front().demands.front(), true});
      return;
    }
    for (std::size_t k = 0; k < alternatives.front().demands.size(); ++k)
      add_demand(c, alternatives.front().demands[k], rate * alternatives.front().fractions[k]);
  }

  void add_demand(std::size_t c, std::size_t i, double rate) {
    const Demand& demand = instance_.demands[i];
    if (!is_free(demand) || demand.terminals.size() < 2) return;
    BalanceUnit unit{rate * static_cast<double>(demand.terminals.size() - 1), {demand.root}};
    unit.nodes.insert(unit.nodes.end(), demand.terminals.begin(), demand.terminals.end());
    units_.push_back(std::move(unit));
    whose_.push_back({c, i, false});
  }

  [[nodiscard]] std::pair<CollectiveId, std::size_t> key_of(const Whose& whose) const {
    const std::vector<std::size_t>& sessions = instance_.problem->sessions_of[whose.group];
    return {instance_.problem->scenario->collectives[whose.group].id, whose.demand - sessions.front()};
  }

  [[nodiscard]] BalanceParts recall() const {
    BalanceParts start(units_.size());
    if (memory_ == nullptr) return start;
    for (std::size_t u = 0; u < units_.size(); ++u) {
      const auto found = memory_->by_session.find(key_of(whose_[u]));
      if (found != memory_->by_session.end() && found->second.nodes == units_[u].nodes)
        start[u] = found->second.parts;
    }
    return start;
  }

  void remember(const BalanceParts& parts) const {
    memory_->by_session.clear();
    for (std::size_t u = 0; u < units_.size(); ++u)
      memory_->by_session[key_of(whose_[u])] = {units_[u].nodes, parts[u]};
  }

  [[nodiscard]] Carried carried_by(const BalanceParts& parts, const std::vector<double>& rates) const {
    Carried carried;
    carried.trees.resize(instance_.demands.size());
    std::vector<bool> is_done(instance_.demands.size(), false);
    for (std::size_t u = 0; u < units_.size(); ++u) {
      look_at_budget();
      whose_[u].is_shared ? add_shares(whose_[u].group, parts[u], rates, carried)
                          : add_hubs(whose_[u], units_[u], parts[u], carried);
      is_done[whose_[u].demand] = true;
    }
    for (std::size_t c = 0; c < instance_.groups.size(); ++c) {
      const Group& group = instance_.groups[c];
      if (group.alternatives.size() != 1) continue;
      const Alternative& only = group.alternatives.front();
      for (std::size_t k = 0; k < only.demands.size(); ++k) {
        const std::size_t i = only.demands[k];
        if (is_done[i]) continue;
        const double rate = rates[c] * only.fractions[k];
        carried.trees[i].push_back({tree(instance_.demands[i], instance_.demands[i].root), rate});
      }
    }
    return carried;
  }

  void add_shares(std::size_t c, const std::vector<double>& parts, const std::vector<double>& rates,
                  Carried& carried) const {
    const Group& group = instance_.groups[c];
    const double whole = std::accumulate(parts.begin(), parts.end(), 0.0);
    const std::size_t roots = group.alternatives.size();
    for (std::size_t a = 0; a < roots; ++a) {
      // Of two members neither makes copies for others.
      const double part = whole > 0.0 ? parts[a] / whole : 1.0 / static_cast<double>(roots);
      if (part < kNoPart) continue;
      for (const std::size_t i : group.alternatives[a].demands) {
        const Demand& demand = instance_.demands[i];
        carried.trees[i].push_back({tree(demand, demand.root), part * rates[c]});
      }
    }
  }

  void add_hubs(const Whose& whose, const BalanceUnit& unit, const std::vector<double>& parts,
                Carried& carried) const {
    const Demand& demand = instance_.demands[whose.demand];
    const auto others = static_cast<double>(demand.terminals.size() - 1);
    for (std::size_t k = 0; k < parts.size(); ++k) {
      if (parts[k] <= kNoPart * unit.amount) continue;
      carried.trees[whose.demand].push_back({tree(demand, unit.nodes[k]), parts[k] / others});
    }
  }

  // Links by way of the hub; -1 for one that is not there.
  [[nodiscard]] std::vector<int> tree(const Demand& demand, int hub) const {
    std::vector<int> links;
    if (hub != demand.root) links.push_back(link_between(demand, demand.root, hub));
    for (const int terminal : demand.terminals) {
      if (terminal != hub) links.push_back(link_between(demand, hub, terminal));
    }
    return links;
  }

  // In the direction of the demand's graph, which may be turned round.
  [[nodiscard]] int link_between(const Demand& demand, int from, int to) const {
    const auto& graph = *demand.graph;
    for (const int arc : graph.graph.out[index(from)]) {
      if (graph.graph.arcs[index(arc)].to == to) return graph.link[index(arc)];
    }
    return -1;
  }

  // Nothing where a link is missing.
  [[nodiscard]] std::optional<Load> load_of(const Carried& carried) const {
    Load load(instance_);
    for (const auto& trees : carried.trees) {
      look_at_budget();
      for (const Carried::Tree& tree : trees) {
        if (std::ranges::find(tree.links, -1) != tree.links.end()) return std::nullopt;
        for (const int link : tree.links) load.add(instance_, link, tree.rate);
      }
    }
    return load;
  }

  // What of all rates every link and limit has room for, to which they are lowered.
  [[nodiscard]] double fit(const Load& load, Carried& carried) const {
    double factor = 1.0;
    const auto lower = [&](const std::vector<double>& used, const std::vector<double>& limit) {
      for (std::size_t k = 0; k < used.size(); ++k)
        factor = std::min(factor, fitting_factor(used[k], limit[k]));
    };
    lower(load.link, instance_.network.capacity_bps);
    lower(load.egress, instance_.network.egress_bps);
    lower(load.ingress, instance_.network.ingress_bps);
    for (auto& trees : carried.trees) {
      for (Carried::Tree& tree : trees) tree.rate *= factor;
    }
    return factor;
  }

  // A unit's part at one of its nodes, where it is in the way, and what it puts there.
  struct InTheWay {
    double bps;
    std::size_t unit;
    std::size_t position;
  };

  // Takes units off the nodes from which they fill links, or the other limit, too much: the smallest first,
  // as many as must go. Whether there are any.
  bool relieve(const Load& load, const BalanceParts& parts) {
    const std::vector<double>& other = sending_ ? load.ingress : load.egress;
    const std::vector<double>& other_limit =
        sending_ ? instance_.network.ingress_bps : instance_.network.egress_bps;
    std::vector<std::vector<InTheWay>> at_link(instance_.link_count());
    std::vector<std::vector<InTheWay>> at_node(instance_.node_count());
    const auto is_too_much = [](double bps, double limit) { return bps > limit * (1.0 + kSame); };
    for (std::size_t u = 0; u < units_.size(); ++u) {
      look_at_budget();
      for (std::size_t k = 0; k < parts[u].size(); ++k) {
        if (parts[u][k] <= kNoPart * units_[u].amount) continue;
        const std::size_t hub = index(units_[u].nodes[k]);
        if (whose_[u].is_shared && is_too_much(other[hub], other_limit[hub]))
          at_node[hub].push_back({parts[u][k], u, k});
        each_link_of(u, k, parts[u][k], [&](std::size_t e, double bps) {
          if (is_too_much(load.link[e], instance_.network.capacity_bps[e])) at_link[e].push_back({bps, u, k});
        });
      }
    }
    bool any = false;
    for (std::size_t e = 0; e < at_link.size(); ++e)
      any = keep_away(at_link[e], load.link[e] - instance_.network.capacity_bps[e], parts) || any;
    for (std::size_t v = 0; v < at_node.size(); ++v)
      any = keep_away(at_node[v], other[v] - other_limit[v], parts) || any;
    return any;
  }

  // Links that a unit's part at a node fills, and what it puts there.
  template <typename Visit>
  void each_link_of(std::size_t u, std::size_t k, double part, const Visit& visit) const {
    const Whose& whose = whose_[u];
    const auto visit_all = [&](const Demand& demand, double bps) {
      for (const int link : tree(demand, units_[u].nodes[k])) visit(index(link), bps);
    };
    const auto others = static_cast<double>(units_[u].nodes.size() - 2);
    if (!whose.is_shared) return visit_all(instance_.demands[whose.demand], part / others);
    for (const std::size_t i : instance_.groups[whose.group].alternatives[k].demands)
      visit_all(instance_.demands[i], part / others);
  }

  bool keep_away(std::vector<InTheWay>& those, double excess, const BalanceParts& parts) {
    std::ranges::stable_sort(those, {}, &InTheWay::bps);
    for (const auto& [bps, unit, position] : those) {
      if (excess <= 0.0) break;
      std::vector<double>& most = units_[unit].most;
      most.resize(units_[unit].nodes.size(), units_[unit].amount);
      most[position] = std::min(most[position], parts[unit][position] * std::max(0.0, 1.0 - excess / bps));
      excess -= bps;
    }
    return !those.empty();
  }

  const Instance& instance_;
  const std::vector<HubNeed>& needs_;
  const bool sending_;
  HubMemory* memory_;
  std::vector<double> room_;  // by node: for what can be anywhere
  std::vector<BalanceUnit> units_;
  std::vector<Whose> whose_;  // by unit
};

}  // namespace

std::optional<HubsAnswer> carry_by_hubs(const Instance& instance, HubMemory* memory) {
  const Phase phase("sharing out copies");
  const auto is_bounded = [](const Demand& demand) {
    return demand.redundancy > 0 || !demand.max_latency.empty();
  };
  if (instance.demands.empty() || instance.budget_usd_per_hour.has_value() ||
      std::ranges::any_of(instance.demands, is_bounded))
    return std::nullopt;
  const std::optional<std::vector<HubNeed>> needs = hub_needs(instance);
  if (!needs.has_value()) return std::nullopt;
  for (const bool sending : {true, false}) {
    std::optional<HubsAnswer> answer = Hubs(instance, *needs, sending, memory).run();
    if (answer.has_value()) return answer;
  }
  return std::nullopt;
}

}  // namespace square::planning
