// The result of planning: who sends what over which trees at what rate.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "square/ids.h"
#include "square/scenario.h"

namespace square {

enum class SessionKind { kMulticast, kReduce, kUnicast };
std::string_view to_string(SessionKind kind);

// A conceptual path: part of the flow from a session's root to one destination.
struct PlanPath {
  NodeId member;
  std::vector<NodeId> nodes;
  double rate_bps = 0;
};

// A tree from the session's root over its members, relays allowed. The links run in the
// direction of data and a link never comes before the one that feeds it.
struct PlanStream {
  std::vector<std::pair<NodeId, NodeId>> links;
  double rate_bps = 0;
  bool coded = false;
};

struct PlanSession {
  SessionId id;
  CollectiveId collective;
  SessionKind kind = SessionKind::kMulticast;
  NodeId root;
  std::vector<NodeId> members;  // root included
  // The bytes of the collective's buffer that this session carries.
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = 0;
  std::optional<SessionId> pair;  // the other half of a share of an all-reduce
  double lp_rate_bps = 0;         // what the linear program allows
  double rate_bps = 0;            // what the streams carry
  std::vector<PlanPath> paths;
  std::vector<PlanStream> streams;
};

struct PlanCollective {
  CollectiveId id;
  std::string tenant;
  CollectiveOp op = CollectiveOp::kBroadcast;
  double weight = 1.0;  // after the tenant's weight and the kind of fairness
  std::uint64_t size_bytes = 0;
  // 8 * bytes / completion, from the rates of the streams.
  double rate_bps = 0;
  // No plan gives this collective more while the others keep their rates; see certificate.
  double bound_bps = 0;
  // Infinite where the rate is zero.
  double completion_seconds = 0;
  std::vector<SessionId> sessions;
};

struct PlanTenant {
  std::string name;
  double weight = 1.0;
  double rate_bps = 0;  // over its collectives
};

struct PlanNode {
  std::string name;
  double egress_bps = kUnlimited;
  double ingress_bps = kUnlimited;
};

struct PlanLink {
  NodeId from;
  NodeId to;
  double capacity_bps = kUnlimited;
  double load_bps = 0;  // over all streams
  Duration latency{0};
};

// Why no plan does better. `cut` is a set of nodes around the source of a collective:
// what its links carry away, less what the other collectives need through it, bounds
// the rate. `level_bound_bps` bounds the smallest rate / weight of any plan at all, from
// the dual of the first linear program with path lengths over the whole graph.
struct PlanCut {
  CollectiveId collective;
  std::vector<NodeId> source_side;
  double bound_bps = 0;
};
struct PlanCertificate {
  std::optional<double> level_bound_bps;
  std::vector<PlanCut> cuts;
};

// Immutable once published: share it as std::shared_ptr<const Plan>.
struct Plan {
  Epoch epoch{1};
  std::string policy;
  double solve_seconds = 0;
  double min_rate_bps = 0;    // over collectives; 0 without any
  double total_rate_bps = 0;  // over collectives
  // Jain's index of rate / weight over collectives: 1 is even. 1 without any.
  double jain = 1.0;
  std::vector<PlanTenant> tenants;
  std::vector<PlanCollective> collectives;
  std::vector<PlanSession> sessions;
  std::vector<PlanNode> nodes;  // by NodeId
  std::vector<PlanLink> links;  // by LinkId
  PlanCertificate certificate;

  [[nodiscard]] const PlanCollective* find_collective(CollectiveId id) const;
  [[nodiscard]] const PlanSession* find_session(SessionId id) const;
  [[nodiscard]] std::optional<NodeId> find_node(std::string_view name) const;
};

inline constexpr std::string_view kPlanFormat = "square.plan/1";
inline constexpr std::size_t kMaxPlanBytes = std::size_t{1} << 28U;

// JSON as docs/plan.md describes it. Rates in Mbit/s, null for infinite.
std::string to_json(const Plan& plan);
// Errors: INVALID_ARGUMENT naming the key that is missing or of another type, an
// unknown node or session, another format; RESOURCE_EXHAUSTED past kMaxPlanBytes.
// Does not validate: see validator.h.
Result<Plan> plan_from_json(std::string_view json);

// Jain's index of the values, 1 for none.
double jain_index(const std::vector<double>& values);

}  // namespace square
