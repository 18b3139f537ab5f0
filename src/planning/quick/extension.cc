#include "planning/quick/extension.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/plan/field_visits.h"
#include "base/spending.h"
#include "planning/exact/plan_writing.h"
#include "planning/quick/filling.h"
#include "planning/quick/quick_plan.h"
#include "planning/quick/trees.h"

namespace square::planning {
namespace {

// Sums of rates may be rounded up by a little.
constexpr double kRoundedDown = 1.0 - 1e-9;

// Compares all but what links carry, which follows from the collectives.
bool same_overlay(const Plan& a, const Plan& b) {
  return plan_fields::same_values(a.nodes, b.nodes) &&
         std::ranges::equal(a.links, b.links, [](const PlanLink& one, const PlanLink& other) {
           return plan_fields::same_fields(one, other, &PlanLink::load_bps, &PlanLink::pace_bps);
         });
}

class Extension {
 public:
  Extension(const Problem& problem, const Instance& instance, const Plan& base)
      : problem_(problem), instance_(instance), base_(base), need_(needs_of(instance)) {
    const std::size_t demands = instance.demands.size();
    is_kept_.assign(demands, false);
    trees_.resize(demands);
    rates_.resize(demands);
    resources_.resize(instance.link_count() + 2 * instance.node_count());
    for (std::size_t e = 0; e < instance.link_count(); ++e)
      resources_[e].limit = instance.network.capacity_bps[e];
    for (std::size_t v = 0; v < instance.node_count(); ++v) {
      resources_[instance.link_count() + v].limit = instance.network.egress_bps[v];
      resources_[instance.link_count() + instance.node_count() + v].limit = instance.network.ingress_bps[v];
    }
  }

  std::optional<Plan> run() {
    std::size_t kept = 0;
    for (std::size_t c = 0; c < instance_.groups.size(); ++c) {
      look_at_budget();
      kept += keep(c) ? 1 : 0;
    }
    if (2 * kept < instance_.groups.size()) return std::nullopt;
    add_new_trees();
    make_room();
    Plan plan = write();
    if (!same_overlay(plan, base_)) return std::nullopt;
    plan.provisional = true;
    return plan;
  }

 private:
  // A link, or a node's limit.
  struct Resource {
    double limit = 0.0;
    double kept = 0.0;      // what those that stay have
    double pace = 0.0;      // of all, in units of level
    double new_pace = 0.0;  // of the new ones
    double added = 0.0;     // what the new ones get
    double factor = 1.0;    // what those that stay keep
  };

  template <typename Use>
  void for_each_resource(const QuickTree& tree, const Use& use) {
    for (const int link : tree.links) {
      const auto e = static_cast<std::size_t>(link);
      const std::size_t nodes = instance_.link_count();
      for (const std::size_t r : {e, nodes + instance_.tail[e].index(),
                                  nodes + instance_.node_count() + instance_.head[e].index()}) {
        if (std::isfinite(resources_[r].limit)) use(resources_[r]);
      }
    }
  }

  // Whether the collective is in the base as it is now: then its demands have their streams. One that got
  // nothing there gets a part here.
  bool keep(std::size_t c) {
    const CollectiveSpec& spec = problem_.scenario->collectives[c];
    const PlanCollective* const before = base_.find_collective(spec.id);
    const std::vector<std::size_t>& sessions = problem_.sessions_of[c];
    if (before == nullptr || before->op != spec.op || before->size_bytes != spec.size_bytes ||
        before->weight != problem_.weight[c] || before->sessions.size() != sessions.size() ||
        before->rate_bps <= 0.0) {
      return false;
    }
    for (std::size_t k = 0; k < sessions.size(); ++k) {
      const PlanSession* const old = base_.find_session(before->sessions[k]);
      if (old == nullptr || !is_same(problem_.sessions[sessions[k]], *old)) return forget(c);
      is_kept_[sessions[k]] = true;
      if (!keep_streams(sessions[k], *old)) return forget(c);
    }
    return true;
  }

  bool forget(std::size_t c) {
    for (const std::size_t i : problem_.sessions_of[c]) {
      is_kept_[i] = false;
      trees_[i].clear();
      rates_[i].clear();
    }
    return false;
  }

  static bool is_same(const Session& session, const PlanSession& old) {
    if (session.kind != old.kind || session.root != old.root ||
        session.destinations.size() + 1 != old.members.size())
      return false;
    return std::ranges::all_of(session.destinations, [&](NodeId node) {
      return std::ranges::find(old.members, node) != old.members.end();
    });
  }

  bool keep_streams(std::size_t i, const PlanSession& old) {
    // The streams of a code could not give up different parts of their rates.
    if (!old.codes.empty()) return false;
    for (const PlanStream& stream : old.streams) {
      QuickTree tree;
      for (const auto& [from, to] : stream.links) {
        const bool is_known = from.index() < instance_.node_count() && to.index() < instance_.node_count();
        const auto link = is_known ? problem_.topology().find_link(from, to) : std::nullopt;
        if (!link) return false;
        tree.links.push_back(static_cast<int>(link->value()));
      }
      // Seen from the root.
      if (instance_.demands[i].reversed) std::ranges::reverse(tree.links);
      tree.weight = stream.rate_bps;
      trees_[i].push_back(std::move(tree));
      rates_[i].push_back(stream.rate_bps);
    }
    return true;
  }

  void add_new_trees() {
    const std::size_t most = most_trees(instance_, trees_);
    std::vector<std::vector<QuickTree>> routed = quick_trees(instance_, {trees_, is_kept_, most});
    for (std::size_t i = 0; i < trees_.size(); ++i) {
      if (!is_kept_[i]) trees_[i] = std::move(routed[i]);
    }
  }

  // Part of the demand's pace.
  [[nodiscard]] double pace_of(std::size_t i, std::size_t t) const {
    double whole = 0.0;
    for (const QuickTree& tree : trees_[i]) whole += tree.weight;
    return whole > 0.0 ? need_[i] * trees_[i][t].weight / whole : 0.0;
  }

  template <typename Visit>
  void for_each_tree(bool kept, const Visit& visit) {
    for (std::size_t i = 0; i < trees_.size(); ++i) {
      if (is_kept_[i] != kept) continue;
      for (std::size_t t = 0; t < trees_[i].size(); ++t) visit(i, t);
    }
  }

  // Rates of what is new: an even part of each link, or all that is free. Who has the rest keeps what fits.
  void make_room() {
    for_each_tree(true, [&](std::size_t i, std::size_t t) {
      const double pace = pace_of(i, t);
      for_each_resource(trees_[i][t], [&](Resource& one) {
        one.kept += rates_[i][t];
        one.pace += pace;
      });
    });
    for_each_tree(false, [&](std::size_t i, std::size_t t) {
      const double pace = pace_of(i, t);
      for_each_resource(trees_[i][t], [&](Resource& one) {
        one.pace += pace;
        one.new_pace += pace;
      });
    });
    for_each_tree(false, [&](std::size_t i, std::size_t t) {
      double level = kUnreachable;
      for_each_resource(trees_[i][t], [&](Resource& one) {
        const double even = one.limit / one.pace;
        const double free = std::max(one.limit - one.kept, 0.0) / one.new_pace;
        level = std::min(level, std::max(even, free));
      });
      rates_[i].push_back(pace_of(i, t) * level * kRoundedDown);
      for_each_resource(trees_[i][t], [&](Resource& one) { one.added += rates_[i].back(); });
    });
    for (Resource& one : resources_) {
      const double left = one.limit * kRoundedDown - one.added;
      if (one.added > 0.0 && one.kept > left) one.factor = std::max(left, 0.0) * kRoundedDown / one.kept;
    }
    for_each_tree(true, [&](std::size_t i, std::size_t t) {
      double factor = 1.0;
      for_each_resource(trees_[i][t], [&](const Resource& one) { factor = std::min(factor, one.factor); });
      rates_[i][t] *= factor;
    });
    for (const Group& group : instance_.groups) {
      for (const Alternative& alternative : group.alternatives) even_out(alternative);
    }
  }

  // Where one demand of an alternative has less, more is of no use to the others.
  void even_out(const Alternative& alternative) {
    const auto rate_of = [&](std::size_t k) {
      double rate = 0.0;
      for (const double part : rates_[alternative.demands[k]]) rate += part;
      return rate / alternative.fractions[k];
    };
    double least = kUnreachable;
    for (std::size_t k = 0; k < alternative.demands.size(); ++k) least = std::min(least, rate_of(k));
    for (std::size_t k = 0; k < alternative.demands.size(); ++k) {
      // Rounding is not worth another rate.
      const double rate = rate_of(k);
      if (rate * kRoundedDown <= least) continue;
      for (double& part : rates_[alternative.demands[k]]) part *= least / rate;
    }
  }

  Plan write() {
    ExactSolution solution;
    solution.carried = Carried{std::vector<std::vector<Carried::Tree>>(trees_.size())};
    for (std::size_t i = 0; i < trees_.size(); ++i) {
      for (std::size_t t = 0; t < trees_[i].size(); ++t) {
        if (rates_[i][t] > 0.0) solution.carried->trees[i].push_back({trees_[i][t].links, rates_[i][t]});
      }
    }
    Filled filled = filled_by(instance_, std::move(rates_));
    solution.lp_rate = std::move(filled.group_rate);
    solution.lp_share = std::move(filled.share_rate);
    return write_plan(problem_, instance_, solution);
  }

  const Problem& problem_;
  const Instance& instance_;
  const Plan& base_;
  const std::vector<double> need_;
  std::vector<bool> is_kept_;  // by demand, as what follows
  std::vector<std::vector<QuickTree>> trees_;
  std::vector<std::vector<double>> rates_;
  std::vector<Resource> resources_;  // links, then what leaves nodes, then what enters them
};

bool has_bounds(const Scenario& scenario) {
  return scenario.policy.objective == Objective::kCost || scenario.policy.budget_usd_per_hour.has_value() ||
         std::ranges::any_of(scenario.collectives, [](const CollectiveSpec& collective) {
           return !collective.max_latency.empty() || collective.required_bps.has_value();
         });
}

}  // namespace

Result<std::optional<Plan>> extend_plan(const Problem& problem, const Plan& base) {
  const Phase phase("extending a plan");
  if (has_bounds(*problem.scenario)) return std::optional<Plan>();
  SQUARE_ASSIGN_OR_RETURN(const Instance instance, make_instance(problem));
  return Extension(problem, instance, base).run();
}

}  // namespace square::planning
