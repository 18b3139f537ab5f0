// What the levels of a certificate prove, and how far the rates are from it.
#include <algorithm>
#include <cmath>

#include "square/units.h"
#include "square/validator.h"
#include "validator/checks.h"

namespace square::validation {
namespace {

double quotient(double value, double by) {
  if (by > 0.0) return value / by;
  return kUnlimited;
}

// The inequality of one level, read as a bound on the level.
class LevelBound {
 public:
  LevelBound(const Plan& plan, const Inequality& proven, const std::vector<std::size_t>& level_of,
             std::size_t level)
      : plan_(plan), proven_(proven), level_of_(level_of), level_(level) {
    for (std::size_t c = 0; c < plan.collectives.size(); ++c) {
      if (level_of[c] >= level) active_ += proven.length[c] * plan.collectives[c].weight;
    }
  }

  // With earlier collectives at these rates: t of every other one is at most this.
  [[nodiscard]] double at(double PlanCollective::*rate) const {
    double rest = proven_.worth;
    for (std::size_t c = 0; c < plan_.collectives.size(); ++c) {
      if (level_of_[c] < level_ && proven_.length[c] > 0.0) {
        rest -= proven_.length[c] * (plan_.collectives[c].*rate);
      }
    }
    return quotient(std::max(rest, 0.0), active_);
  }

  [[nodiscard]] double noise() const {
    const double whole = quotient(proven_.worth, active_);
    return std::isfinite(whole) ? kCancellation * whole : 0.0;
  }

  // The least rate / weight of the collectives of this level, or of later ones as well.
  [[nodiscard]] double least(double PlanCollective::*rate, bool and_later) const {
    double result = kUnlimited;
    for (std::size_t c = 0; c < plan_.collectives.size(); ++c) {
      if (level_of_[c] != level_ && !(and_later && level_of_[c] > level_)) continue;
      result = std::min(result, plan_.collectives[c].*rate / plan_.collectives[c].weight);
    }
    return result;
  }

 private:
  const Plan& plan_;
  const Inequality& proven_;
  const std::vector<std::size_t>& level_of_;
  std::size_t level_;
  double active_ = 0.0;
};

void check_level(const LevelBound& bound, const PlanLevel& level, const std::string& name,
                 Findings& findings) {
  if (level.collectives.empty()) findings.add("{} has no collectives", name);
  // The rates of earlier collectives may be those of the program or those of the streams.
  const auto [low, high] =
      std::minmax({bound.at(&PlanCollective::lp_rate_bps), bound.at(&PlanCollective::rate_bps)});
  const double noise = bound.noise();
  const bool as_proven = (at_most(low, level.bound_bps) || low <= level.bound_bps + noise) &&
                         (at_most(level.bound_bps, high) || level.bound_bps <= high + noise);
  if (!as_proven) {
    findings.add("{}: its bound is given as {}, its duals prove {}", name, mbps(level.bound_bps), mbps(low));
  }
  const double reached = bound.least(&PlanCollective::lp_rate_bps, true);
  const double allowed = bound.at(&PlanCollective::lp_rate_bps);
  if (!at_most(reached, allowed) && !(reached <= allowed + noise)) {
    findings.add("{}: its collectives and later ones have at least {} per unit of weight, over its bound {}",
                 name, mbps(reached), mbps(allowed));
  }
}

// What no plan with the lp rates costs less than, and how exact that is.
struct CostBound {
  double usd_per_hour = 0.0;
  double noise = 0.0;
};

CostBound cost_bound(const Plan& plan, const Inequality& proven) {
  double needed = 0.0;
  for (std::size_t c = 0; c < plan.collectives.size(); ++c) {
    if (proven.length[c] > 0.0) needed += proven.length[c] * plan.collectives[c].lp_rate_bps;
  }
  return {needed - proven.worth, kCancellation * needed};
}

void check_cost_bound(const Plan& plan, const CostBound& proven, Findings& findings) {
  const double claimed = plan.certificate.cost_bound_usd_per_hour.value_or(0.0);
  if (!at_most(claimed, proven.usd_per_hour) && !(claimed <= proven.usd_per_hour + proven.noise)) {
    findings.add("the bound on the cost is given as {} USD an hour, its duals prove {}", claimed,
                 proven.usd_per_hour);
  }
  if (plan.realised && !at_most(claimed, plan.cost_usd_per_hour)) {
    findings.add("the plan costs {} USD an hour, less than its bound {}", plan.cost_usd_per_hour, claimed);
  }
}

}  // namespace

bool is_cost_level(const Plan& plan, const PlanLevel& level) {
  return plan.certificate.cost_bound_usd_per_hour.has_value() && level.bound_bps == 0.0;
}

std::vector<std::size_t> levels_of_collectives(const Plan& plan) {
  const std::vector<PlanLevel>& levels = plan.certificate.levels;
  std::vector<std::pair<CollectiveId, std::size_t>> level_of;
  for (std::size_t k = 0; k < levels.size(); ++k) {
    for (const CollectiveId id : levels[k].collectives) level_of.emplace_back(id, k);
  }
  std::sort(level_of.begin(), level_of.end());
  std::vector<std::size_t> result;
  for (const PlanCollective& collective : plan.collectives) {
    const auto found =
        std::lower_bound(level_of.begin(), level_of.end(), std::pair(collective.id, std::size_t{0}));
    const bool known = found != level_of.end() && found->first == collective.id;
    result.push_back(known ? found->second : levels.size());
  }
  return result;
}

void check_levels(const Plan& plan, Findings& findings) {
  const std::vector<PlanLevel>& levels = plan.certificate.levels;
  const std::vector<std::size_t> level_of = levels_of_collectives(plan);
  DualProver prover(plan);
  CostBound cost;
  for (std::size_t k = 0; k < levels.size(); ++k) {
    const std::string name = fmt::format("level {}", k);
    if (is_cost_level(plan, levels[k])) {
      const CostBound proven = cost_bound(plan, prover.prove(levels[k], true, name, findings));
      if (proven.usd_per_hour > cost.usd_per_hour) cost = proven;
      continue;
    }
    const Inequality proven = prover.prove(levels[k], false, name, findings);
    check_level(LevelBound(plan, proven, level_of, k), levels[k], name, findings);
  }
  if (plan.certificate.cost_bound_usd_per_hour.has_value()) check_cost_bound(plan, cost, findings);
}

}  // namespace square::validation

namespace square {
namespace {

double gap(double bound, double reached) {
  if (reached > 0.0 && std::isfinite(bound)) return bound / reached - 1.0;
  return bound == reached ? 0.0 : kUnlimited;
}

}  // namespace

Result<std::vector<LevelGap>> certified_gaps(const Plan& plan) {
  validation::Findings findings;
  const validation::References sound = validation::check_references(plan, findings);
  std::vector<LevelGap> gaps;
  if (sound.plan && sound.certificate) {
    findings = {};  // of what does not matter here
    const std::vector<std::size_t> level_of = validation::levels_of_collectives(plan);
    validation::DualProver prover(plan);
    for (std::size_t k = 0; k < plan.certificate.levels.size(); ++k) {
      const PlanLevel& level = plan.certificate.levels[k];
      if (validation::is_cost_level(plan, level)) continue;
      const validation::Inequality proven = prover.prove(level, false, fmt::format("level {}", k), findings);
      const validation::LevelBound bound(plan, proven, level_of, k);
      LevelGap found;
      found.level = k;
      found.bound_bps = bound.at(&PlanCollective::lp_rate_bps);
      found.lp_level_bps = bound.least(&PlanCollective::lp_rate_bps, false);
      found.rate_level_bps = bound.least(&PlanCollective::rate_bps, false);
      found.lp_gap = gap(found.bound_bps, found.lp_level_bps);
      found.rate_gap = gap(bound.at(&PlanCollective::rate_bps), found.rate_level_bps);
      gaps.push_back(found);
    }
  }
  if (findings.count() > 0) return invalid_argument("plan: " + std::move(findings).take().front());
  return gaps;
}

}  // namespace square
