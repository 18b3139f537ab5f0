// The result of planning: who sends what over which trees at what rate.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "square/collective_op.h"
#include "square/field_kind.h"
#include "square/ids.h"
#include "square/quota.h"
#include "square/status.h"
#include "square/units.h"

namespace square {

enum class SessionKind { kMulticast, kReduce, kUnicast };
std::string_view to_string(SessionKind kind);

// A conceptual path: part of the flow from a session's root to one destination.
struct PlanPath {
  NodeId member;
  std::vector<NodeId> nodes;
  double rate_bps = 0;
};

// What a coded stream carries of each generation of its code: a block, or where flows meet a sum of some.
struct PlanCodePart {
  std::uint32_t code = 0;  // position in PlanSession::codes
  NodeId origin;           // where the stream begins: the session's root, or a node that adds
  // What is added there: streams of the session that come to the origin, with their factors. None at the
  // root.
  std::vector<std::pair<StreamIndex, double>> terms;
  std::vector<double> row;  // which sum of the generation's blocks it is
  // Of a code of floats: the factors and the row of the same sum over bytes, in GF(2^8), for blocks that sums
  // of floats would spoil.
  std::vector<double> byte_factors = {};
  std::vector<double> byte_row = {};
};
// The block that the root sends on it as it is; nothing for a sum.
std::optional<std::uint32_t> plain_block(const PlanCodePart& part);

// A tree from the session's root over its members, relays allowed. The links run in the
// direction of data and a link never comes before the one that feeds it. A coded one begins at its origin and
// reaches whoever adds or decodes what it carries.
struct PlanStream {
  std::vector<std::pair<NodeId, NodeId>> links;
  double rate_bps = 0;
  std::optional<PlanCodePart> coded = std::nullopt;
  // Of its slowest link; only in a node's part, where not all links are.
  std::optional<Duration> latency = std::nullopt;
  // A tree for what a code has lost (base/plan/lifeline.h); only in what nodes install.
  bool is_spare = false;
};

// A linear code for a part of a multicast that trees cannot carry: its bytes are cut into generations of K
// blocks, and each of its streams carries one block of every generation, so at rate_bps / K. Or, with
// redundancy r, a code that outlives losses: K + r streams come to each member, over ways that share neither
// a link nor a node between root and member, and any K of them decode.
struct PlanCode {
  // A member that solves for the blocks: with the streams that come to it, in this order, and the inverse of
  // the rows of the first K.
  struct Sink {
    NodeId member;
    std::vector<StreamIndex> streams;
    std::vector<std::vector<double>> inverse;
    // Of a code of floats: that of its rows over bytes. Not in a node's part.
    std::vector<std::vector<double>> byte_inverse = {};
  };
  FieldKind field = FieldKind::kGf256;
  std::uint32_t blocks = 1;      // K
  double rate_bps = 0;           // of the session's bytes
  std::vector<Sink> sinks;       // one for each member but the root
  std::uint32_t redundancy = 0;  // r
};

struct PlanSession {
  SessionId id;
  CollectiveId collective;
  SessionKind kind = SessionKind::kMulticast;
  NodeId root;
  std::vector<NodeId> members;  // root included
  // By member: how long the way between the root and it may take in any stream. Empty: no
  // bounds; Duration::max(): none for this one.
  std::vector<Duration> max_latency;
  // The bytes of the collective's buffer that this session carries.
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = 0;
  std::optional<SessionId> pair;  // the other half of a share of an all-reduce
  double lp_rate_bps = 0;         // what the linear program allows
  double rate_bps = 0;            // what the streams carry
  // The conceptual flows behind lp_rate_bps. Empty where the streams carry all of it, or nearly all and it
  // reaches all nodes: then each stream is a path to each member.
  std::vector<PlanPath> paths;
  std::vector<PlanStream> streams;
  std::vector<PlanCode> codes;  // that coded streams belong to; mostly none
  // What fits into the memory of all its nodes; only in a node's part.
  double block_limit_bytes = 0;
};

// What the streams of a session carry of its bytes: trees all of their rate, codes theirs.
double carried_bps(const PlanSession& session);

struct PlanCollective {
  CollectiveId id;
  std::string tenant;
  std::string group;  // of processes that call it; empty where a scenario asks for it
  CollectiveOp op = CollectiveOp::kBroadcast;
  double weight = 1.0;  // after the tenant's weight and the kind of fairness
  std::uint64_t size_bytes = 0;
  // What the linear program allows: 8 * bytes / completion if streams carried it all.
  double lp_rate_bps = 0;
  // 8 * bytes / completion, from the rates of the streams.
  double rate_bps = 0;
  // No plan gives this collective more while the others keep their rates; see certificate.
  double bound_bps = 0;
  // Infinite where the rate is zero.
  double completion_seconds = 0;
  double cost_usd_per_hour = 0;  // of its streams, by the prices of the links
  std::vector<SessionId> sessions;
  // The first plan of the same origin in which it is as it is, its sessions too; only in a node's part.
  // Nothing: this one.
  std::optional<Epoch> since = std::nullopt;
};

struct PlanTenant {
  std::string name;
  double weight = 1.0;
  double rate_bps = 0;  // over its collectives
  Quota open{};
};

struct PlanNode {
  std::string name;
  double egress_bps = kUnlimited;
  double ingress_bps = kUnlimited;
  bool relays = true;  // no: it is only ever the root of a session, or a leaf
};

struct PlanLink {
  NodeId from;
  NodeId to;
  double capacity_bps = kUnlimited;
  double load_bps = 0;  // over all streams
  Duration latency{0};
  double price_usd_per_gb = 0;
  bool avoided = false;  // carries nothing
  double most_bps = 0;   // may be sent where the capacity was measured; 0: the capacity
  double pace_bps = 0;   // what it may carry beside the other links of its ends; only in a node's part
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

// A packing of cuts for one session: sets of nodes without its root and with one of its
// other members at least, each with a length. Data of a multicast enters a set over the
// links into it, data of a reduce leaves it; every bit of the session crosses each set.
struct PlanPacking {
  struct Cut {
    std::vector<NodeId> far_side;
    double length = 0;
  };
  SessionId session;
  std::vector<Cut> cuts;
};

// One freezing level of lexicographic max-min, and the proof that it is no higher. Let
// l(e), a(v), b(v) >= 0 be `links`, `egress`, `ingress`, and let no session's cuts that a
// link e = (u, v) crosses be longer together than l(e) + a(u) + b(v), unless the session
// may not use the link: it is avoided, leads on from a node that relays nothing, or is on
// no way within the bounds on latency. With y_i the length of all cuts of session i, and
// D_c the sum of fraction_i y_i over the sessions of collective c (of a planned all-reduce:
// the least y_i + y_pair over its shares), every plan keeps
//   sum_c D_c g_c <= sum_e C(e) l(e) + sum_v (egress_v a(v) + ingress_v b(v)),
// by weak duality: facts of the arc program, with coding or without. Collectives of this
// level and of later ones have g_c >= w_c t, those of earlier ones what they have. Where
// there is a budget, cuts may be longer by `budget` * p(e), and the right-hand side has
// `budget` * budget_usd_per_hour more; p(e) is what link e costs for a bit per second, in
// US dollars an hour: price_usd_per_gb * 3600 / 8e9.
struct PlanLevel {
  double bound_bps = 0;                   // t is at most this
  std::vector<CollectiveId> collectives;  // those that stop here
  std::vector<std::pair<LinkId, double>> links;
  std::vector<std::pair<NodeId, double>> egress;
  std::vector<std::pair<NodeId, double>> ingress;
  std::vector<PlanPacking> packings;  // sessions without one have y_i = 0
  double budget = 0;                  // dual of the budget
};

struct PlanCertificate {
  std::optional<double> level_bound_bps;
  std::vector<PlanCut> cuts;
  std::vector<PlanLevel> levels;  // policy "exact": lowest first
  // Objective::kCost: no plan with the required rates costs less. From the prices and one
  // PlanLevel of duals (`levels` has it, with bound_bps 0), in US dollars an hour for a bit
  // per second, as p(e) is:
  //   cost >= sum_c D_c required_c - sum_e C(e) l(e) - sum_v (egress_v a(v) + ingress_v b(v))
  // where a session's cuts over e are at most p(e) + l(e) + a(u) + b(v) long.
  std::optional<double> cost_bound_usd_per_hour;
};

// What planning for less than the mean capacities costs: the rates of the same scenario
// with headroom 0.
struct PlanHeadroom {
  double deviations = 0;
  double nominal_min_rate_bps = 0;
  double nominal_total_rate_bps = 0;
};

// How a collective differs from the plan before, of the same Planner.
struct PlanChange {
  enum class Kind { kJoined, kLeft, kFaster, kSlower, kRerouted };
  CollectiveId collective;
  Kind kind = Kind::kJoined;
  double rate_before_bps = 0;
  double rate_after_bps = 0;
};
std::string_view to_string(PlanChange::Kind kind);

// Whose plan it is. A controller's store has an identity that is drawn at random, and a term that every
// controller raises which starts with it; 0 and 0 where no controller made the plan.
struct PlanOrigin {
  std::uint64_t store = 0;
  std::uint64_t term = 0;
  friend bool operator==(const PlanOrigin&, const PlanOrigin&) = default;
};
// What frames carry of it.
OriginTag tag_of(const PlanOrigin& origin);

// What makes a plan the part of one node: the links that it is an end of, the collectives that it is a member
// of or relays for, whole, and figures that others have a say in. The rest is left out.
struct PlanPart {
  std::string node;
  // Above all numbers of the whole plan.
  CollectiveId::value_type next_collective = 0;
  SessionId::value_type next_session = 0;
};

// Immutable once published: share it as std::shared_ptr<const Plan>.
struct Plan {
  Epoch epoch{1};
  PlanOrigin origin;
  std::string policy;
  double solve_seconds = 0;
  double min_rate_bps = 0;    // over collectives; 0 without any
  double total_rate_bps = 0;  // over collectives
  double cost_usd_per_hour = 0;
  std::optional<double> budget_usd_per_hour;  // what it may cost
  // Are there streams? Without, only lp rates and their certificate are there, and nothing
  // can run by this plan.
  bool realised = true;
  // Made in a hurry: it fits and is about fair, nothing is proven, and a better one may follow.
  bool provisional = false;
  // Jain's index of rate / weight over collectives: 1 is even. 1 without any.
  double jain = 1.0;
  std::vector<PlanTenant> tenants;
  std::vector<PlanCollective> collectives;
  std::vector<PlanSession> sessions;
  std::vector<PlanNode> nodes;  // by NodeId
  std::vector<PlanLink> links;  // by LinkId
  PlanCertificate certificate;
  std::optional<PlanHeadroom> headroom;
  // Collectives that are not listed have the same rate over the same streams as before.
  std::optional<std::vector<PlanChange>> changes;
  // Not said in JSON: parts are for nodes.
  std::optional<PlanPart> part;

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
