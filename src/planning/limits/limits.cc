#include "square/limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/check.h"
#include "planning/limits/cuts.h"
#include "planning/limits/proof.h"
#include "square/validator.h"
#include "validator/checks.h"

namespace square {
namespace planning {
namespace {

using LimitKind = LimitedResource::Kind;

// Makes the limits of one collective after another; what belongs to a level is made once.
class LimitFinder {
 public:
  LimitFinder(const Plan& plan, std::size_t max_cuts)
      : reading_(plan), max_cuts_(max_cuts), no_lengths_(plan), prover_(plan) {}

  Limits find(CollectiveId id, std::optional<SessionId> session) {
    const std::size_t c = reading_.position_of(id);
    reading_.ask_about(c);
    const PlanCollective& collective = reading_.plan().collectives[c];
    Limits limits;
    limits.collective = id;
    limits.session = session;
    limits.level = reading_.level_of(c);
    if (reading_.is_about_cost() && !reading_.plan().certificate.levels.empty()) limits.level = 0;
    limits.rate_bps = reading_.kept_bps(c);
    limits.bound_bps = collective.bound_bps;
    if (limits.level.has_value() && !reading_.is_about_cost()) {
      limits.proof = level(*limits.level).proof;
      limits.bound_bps = bound_by(*limits.proof, id);
    }
    const std::vector<NamedCut> cuts = cuts_of(collective, limits);
    add_cuts(cuts, limits);
    decide(collective, cuts, limits);
    return limits;
  }

 private:
  struct Level {
    Lengths lengths;
    std::shared_ptr<const LimitProof> proof;  // none where the level is about cost
  };

  const Level& level(std::size_t position) {
    const auto known = levels_.find(position);
    if (known != levels_.end()) return known->second;
    const PlanLevel& level = reading_.plan().certificate.levels[position];
    Level made{Lengths(reading_.plan(), level), nullptr};
    if (!reading_.is_about_cost()) {
      validation::Findings unsound;  // is for the validator to report
      const validation::Inequality proven = prover_.prove(level, false, "", unsound);
      made.proof =
          std::make_shared<const LimitProof>(proof_of(reading_, position, made.lengths, proven.length));
    }
    return levels_.emplace(position, std::move(made)).first->second;
  }

  const Lengths& lengths_of(const Limits& limits) {
    return limits.level.has_value() ? level(*limits.level).lengths : no_lengths_;
  }

  // Also notes the other sessions of the collective that have them instead.
  std::vector<NamedCut> cuts_of(const PlanCollective& collective, Limits& limits) {
    if (!limits.level.has_value()) return certified_cuts(reading_, collective.id);
    const Lengths& lengths = lengths_of(limits);
    if (!limits.session.has_value()) return packed_cuts(reading_, lengths, collective.sessions);
    std::vector<NamedCut> cuts = packed_cuts(reading_, lengths, {*limits.session});
    if (!cuts.empty()) return cuts;
    cuts = packed_cuts(reading_, lengths, collective.sessions);
    std::set<SessionId> others;
    for (const NamedCut& cut : cuts) others.insert(cut.sessions.begin(), cut.sessions.end());
    limits.keeps_pace_with.assign(others.begin(), others.end());
    return cuts;
  }

  void add_cuts(const std::vector<NamedCut>& cuts, Limits& limits) {
    limits.cut_count = cuts.size();
    for (const NamedCut& cut : cuts) {
      limits.length += cut.length;
      if (limits.cuts.size() >= max_cuts_) continue;
      LimitingCut& made =
          limits.cuts.emplace_back(crossed(reading_, cut, lengths_of(limits), limits.collective));
      made.is_proof = !reading_.is_about_cost() && std::isfinite(limits.bound_bps) &&
                      made.bound_bps <= limits.bound_bps * (1.0 + kPlanTolerance);
    }
  }

  void decide(const PlanCollective& collective, const std::vector<NamedCut>& cuts, Limits& limits) {
    limits.reason = LimitReason::kUnproven;
    if (collective.sessions.empty()) {
      limits.reason = LimitReason::kIdle;
    } else if (reading_.is_about_cost()) {
      limits.reason = LimitReason::kRequired;
    } else if (limits.level.has_value()) {
      limits.held_by = held_by_level(cuts, lengths_of(limits));
      limits.is_held_by_budget =
          lengths_of(limits).budget > 0.0 && reading_.plan().budget_usd_per_hour.has_value();
      if (!limits.held_by.empty() || limits.is_held_by_budget) limits.reason = LimitReason::kLevel;
    } else if (!cuts.empty()) {
      const LimitingCut narrowest = crossed(reading_, cuts.front(), no_lengths_, collective.id);
      limits.held_by = narrowest.links;
      std::sort(limits.held_by.begin(), limits.held_by.end(),
                [](const LimitedResource& a, const LimitedResource& b) { return a.link < b.link; });
      limits.held_by.insert(limits.held_by.end(), narrowest.node_limits.begin(), narrowest.node_limits.end());
      limits.reason = is_reached(limits) ? LimitReason::kCut : LimitReason::kPolicy;
    }
  }

  static bool is_reached(const Limits& limits) {
    if (!std::isfinite(limits.rate_bps) || !std::isfinite(limits.bound_bps)) return true;
    return limits.bound_bps == 0.0 || limits.rate_bps / limits.bound_bps >= 1.0 - kPlanTolerance;
  }

  // Of the links and nodes with a length, those that the cuts cross.
  std::vector<LimitedResource> held_by_level(const std::vector<NamedCut>& cuts, const Lengths& lengths) {
    std::set<LinkId> links;
    std::map<std::size_t, NodeId> tails;  // by name
    std::map<std::size_t, NodeId> heads;
    for (const NamedCut& cut : cuts) {
      for (const LinkId id : reading_.links_into(cut.into)) {
        const PlanLink& link = reading_.plan().links[id.index()];
        if (lengths.link[id.index()] > 0.0) links.insert(id);
        if (lengths.egress[link.from.index()] > 0.0) tails.emplace(reading_.name_rank(link.from), link.from);
        if (lengths.ingress[link.to.index()] > 0.0) heads.emplace(reading_.name_rank(link.to), link.to);
      }
    }
    std::vector<LimitedResource> held;
    for (const LinkId id : links) held.push_back(reading_.link(id, lengths.link[id.index()]));
    for (const auto& [rank, node] : tails) {
      held.push_back(reading_.node_limit(LimitKind::kEgress, node, lengths.egress[node.index()]));
    }
    for (const auto& [rank, node] : heads) {
      held.push_back(reading_.node_limit(LimitKind::kIngress, node, lengths.ingress[node.index()]));
    }
    return held;
  }

  PlanReading reading_;
  std::size_t max_cuts_;
  Lengths no_lengths_;
  validation::DualProver prover_;
  std::map<std::size_t, Level> levels_;
};

Status check_names(const Plan& plan) {
  validation::Findings findings;
  const validation::References known = validation::check_references(plan, findings);
  if (known.plan && known.certificate) return Status::ok();
  return invalid_argument("plan: " + std::move(findings).take().front());
}

}  // namespace
}  // namespace planning

std::string_view to_string(LimitedResource::Kind kind) {
  switch (kind) {
    case LimitedResource::Kind::kLink: return "link";
    case LimitedResource::Kind::kEgress: return "egress";
    case LimitedResource::Kind::kIngress: return "ingress";
  }
  return "unknown";
}

std::string_view to_string(LimitReason reason) {
  switch (reason) {
    case LimitReason::kIdle: return "idle";
    case LimitReason::kRequired: return "required";
    case LimitReason::kLevel: return "level";
    case LimitReason::kCut: return "cut";
    case LimitReason::kPolicy: return "policy";
    case LimitReason::kUnproven: return "unproven";
  }
  return "unknown";
}

Result<Limits> limits_of(const Plan& plan, SessionId session, std::size_t max_cuts) {
  const PlanSession* const found = plan.find_session(session);
  if (found == nullptr) {
    return not_found(
        fmt::format("the plan has no session {} among its {}", session.value(), plan.sessions.size()));
  }
  SQUARE_RETURN_IF_ERROR(planning::check_names(plan));
  return planning::LimitFinder(plan, max_cuts).find(found->collective, session);
}

Result<Limits> limits_of(const Plan& plan, CollectiveId collective, std::size_t max_cuts) {
  if (plan.find_collective(collective) == nullptr) {
    return not_found(fmt::format("the plan has no collective {} among its {}", collective.value(),
                                 plan.collectives.size()));
  }
  SQUARE_RETURN_IF_ERROR(planning::check_names(plan));
  return planning::LimitFinder(plan, max_cuts).find(collective, std::nullopt);
}

Result<std::vector<Limits>> limits_of_collectives(const Plan& plan, std::size_t max_cuts) {
  SQUARE_RETURN_IF_ERROR(planning::check_names(plan));
  planning::LimitFinder finder(plan, max_cuts);
  std::vector<Limits> limits;
  for (const PlanCollective& collective : plan.collectives) {
    limits.push_back(finder.find(collective.id, std::nullopt));
  }
  return limits;
}

}  // namespace square
