// What holds the collectives of a plan back: links, limits of nodes, cuts, and the sum that
// proves it. Read from the plan and its certificate alone; nothing is solved again.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "square/plan.h"
#include "square/status.h"

namespace square {

// A link, or the limit of a node over all links that leave it (egress) or enter it (ingress).
struct LimitedResource {
  enum class Kind { kLink, kEgress, kIngress };
  struct Load {
    SessionId session;
    double rate_bps = 0;
  };

  Kind kind = Kind::kLink;
  LinkId link;  // of kLink
  NodeId node;  // of the others
  // What a bound counts: an unlimited link is as wide as the widest of the plan that is
  // limited, or 1 Gbit/s wide where none is.
  double capacity_bps = 0;
  std::vector<Load> loads;  // what streams put on it, by session, in the order of the plan
  double load_bps = 0;      // together
  double length = 0;        // its dual, as in PlanLevel; 0 where it has none
};
// "link", "egress", "ingress".
std::string_view to_string(LimitedResource::Kind kind);

// A set of nodes that data must enter, and all that crosses into it.
struct LimitingCut {
  // What one collective must bring across.
  struct Demand {
    CollectiveId collective;
    double crossings = 0;  // bits that cross for each of its own
    double rate_bps = 0;   // that it keeps
    double needs_bps = 0;  // crossings times rate
  };

  std::vector<NodeId> into;
  // The certificate names the other side, which data of a reduce leaves.
  bool is_left = false;
  // How much of the proof it is, and the sessions that have it there. 0 and empty under a
  // policy without levels.
  double length = 0;
  std::vector<SessionId> sessions;
  std::vector<LimitedResource> links;  // into it, the most loaded first
  // Limits of nodes at the links' ends that leave less than the links carry, or have a length.
  std::vector<LimitedResource> node_limits;
  double carried_bps = 0;         // at most, by the links within the limits of their nodes
  std::vector<Demand> demands;    // of every collective that must cross it
  double bound_bps = kUnlimited;  // what it leaves to the collective while the others keep theirs
  bool is_proof = false;          // alone it proves Limits::bound_bps
};

// The inequality of PlanLevel, to be added up by hand: the lengths of all parts times their
// rates are at most what the resources are worth, in every plan.
struct LimitProof {
  struct Part {
    CollectiveId collective;
    double length = 0;  // D_c, above 0
    double weight = 1;
    double lp_rate_bps = 0;
    double rate_bps = 0;      // that it keeps
    bool is_earlier = false;  // it stopped at a lower level
  };

  std::vector<LimitedResource> resources;  // with a length above 0, the largest products first
  double budget_length = 0;
  double budget_usd_per_hour = 0;
  std::vector<Part> parts;
  double worth = 0;               // capacities, limits and budget, each times its length
  double earlier = 0;             // what earlier collectives use of it at their lp_rate: lengths times rates
  double active = 0;              // lengths times weights of the others
  double bound_bps = kUnlimited;  // (worth - earlier) / active: the level is no higher
};

enum class LimitReason {
  kIdle,      // it sends nothing: it has one member
  kRequired,  // Objective::kCost: it has the rate that is required, at the least cost found
  kLevel,     // links, limits of nodes or the budget fill its level
  kCut,       // its narrowest cut is full (policies without levels)
  kPolicy,    // its narrowest cut would allow more than the policy reaches
  kUnproven,  // the plan proves no bound
};
// "idle", "required", "level", "cut", "policy", "unproven".
std::string_view to_string(LimitReason reason);

// Why one collective, or one of its sessions, has no higher rate.
struct Limits {
  CollectiveId collective;
  std::optional<SessionId> session;  // none: of the whole collective
  LimitReason reason = LimitReason::kUnproven;
  std::optional<std::size_t> level;  // position in PlanCertificate::levels
  // Of the collective: what streams carry, or, without streams, what the program allows; and
  // what no plan exceeds while the others keep their rates.
  double rate_bps = 0;
  double bound_bps = kUnlimited;
  // kLevel: links that its cuts cross and nodes at their ends, those with a length.
  // kCut, kPolicy: links and node limits of the narrowest cut. Else empty. Links by id,
  // then egress and ingress limits by the names of the nodes.
  std::vector<LimitedResource> held_by;
  bool is_held_by_budget = false;
  // The session has no cuts of its own: it keeps pace with these, which have those below.
  std::vector<SessionId> keeps_pace_with;
  // Under a policy with levels the heaviest first, else the narrowest first. There may be
  // more: `cut_count` and `length` are of all.
  std::vector<LimitingCut> cuts;
  std::size_t cut_count = 0;
  double length = 0;
  // Of the level; shared by its collectives. None for a policy without levels, for kRequired.
  std::shared_ptr<const LimitProof> proof;
};

inline constexpr std::size_t kDefaultLimitingCuts = 3;

// Limits of a session or of a collective, with so many cuts at most. The plan should be
// sound (validator.h): what it claims is believed. Errors: NOT_FOUND for an id that the plan
// does not have; INVALID_ARGUMENT with what the plan names that is not there. Thread-safe;
// does not block; linear in the plan and, for each cut, in links and sessions.
Result<Limits> limits_of(const Plan& plan, SessionId session, std::size_t max_cuts = kDefaultLimitingCuts);
Result<Limits> limits_of(const Plan& plan, CollectiveId collective,
                         std::size_t max_cuts = kDefaultLimitingCuts);

// Of every collective, in the order of the plan; reads it once. Errors: INVALID_ARGUMENT.
Result<std::vector<Limits>> limits_of_collectives(const Plan& plan,
                                                  std::size_t max_cuts = kDefaultLimitingCuts);

}  // namespace square
