// What is to be planned: an overlay, a policy, tenants and their collectives. A
// scenario file is TOML; README.md shows one, docs/scenario.md lists every key.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "square/collective_op.h"
#include "square/quota.h"
#include "square/topology.h"

namespace square {

enum class PathKind { kShortest, kWidest, kAll };

// Which simple paths a policy may use between a source and a destination.
struct PathChoice {
  PathKind kind = PathKind::kShortest;
  // Ignored for kAll. 0: the default, from kMinDefaultPaths to kMaxDefaultPaths, the more
  // the fewer pairs of source and destination the scenario has (kDefaultPathBudget paths
  // in all). The paper's n - 1 shortest paths have two hops at most on a full mesh, which
  // holds one broadcast 2 to 6% under the min-cut; with three hops it reaches it.
  std::size_t k = 0;

  friend bool operator==(const PathChoice&, const PathChoice&) = default;
};
inline constexpr std::size_t kMinDefaultPaths = 8;
inline constexpr std::size_t kMaxDefaultPaths = 64;
inline constexpr std::size_t kDefaultPathBudget = 3'840;
inline constexpr std::size_t kMaxPaths = 1'000;  // per source and destination

// "shortest:7", "widest:2", "all"; also "shortest" and "widest" with the default k.
Result<PathChoice> parse_path_choice(std::string_view text);
std::string to_string(const PathChoice& choice);

// Whose rates are compared: those of each collective, or a tenant's together, so that nobody gains
// by asking for more collectives.
enum class Fairness { kCollective, kTenant };

// "collective", "tenant".
Result<Fairness> parse_fairness(std::string_view text);
std::string_view to_string(Fairness fairness);

// What a plan is made for. kFair: lexicographic max-min of rate / weight. kCost: every
// collective has its required rate, and the bytes that flow cost as little as they can.
enum class Objective { kFair, kCost };

// "fair", "cost".
Result<Objective> parse_objective(std::string_view text);
std::string_view to_string(Objective objective);

// Whether sessions may code where trees fall short of what links carry. kExact: bytes, whatever they mean,
// come back as they were. kFloat32: float32 tensors, rounded.
enum class Coding { kOff, kExact, kFloat32 };

// "off", "exact", "float32".
Result<Coding> parse_coding(std::string_view text);
std::string_view to_string(Coding coding);

inline constexpr int kMaxShots = 1'000;
inline constexpr double kDefaultGap = 1e-6;
inline constexpr std::size_t kMaxSessionStreams = 10'000;

struct PolicySpec {
  std::string name = "exact";  // see planner.h for the names
  int shots = 3;               // k of section "k shots"; at least 1
  PathChoice paths;
  Fairness fairness = Fairness::kTenant;

  // What follows is for the policy "exact"; the others refuse it.
  Objective objective = Objective::kFair;
  // How far from its proven bound a rate may stay, relative; from 0 to below 1. A larger
  // gap is found sooner. The plan says what was reached.
  double gap = kDefaultGap;
  // After so long the best plan so far comes back, with its gap. None: no limit.
  std::optional<double> deadline_seconds;
  // Trees a session at most, at the price of rate; 0: as many as the optimum takes.
  std::size_t max_streams = 0;
  Coding coding = Coding::kExact;
  // What all traffic together may cost.
  std::optional<double> budget_usd_per_hour;
  // Plans for each capacity less so many of its standard deviations.
  double headroom = 0.0;
  // Nodes that relay nothing: they appear in a session as its root or as a leaf.
  std::vector<NodeId> avoid_nodes;
  // Links that carry nothing.
  std::vector<LinkId> avoid_links;

  friend bool operator==(const PolicySpec&, const PolicySpec&) = default;
};

struct TenantSpec {
  std::string name;
  double weight = 1.0;
  Quota open{};  // as granted: no scenario's file says it
};

enum class AllReduceAlgorithm { kPlanned, kRing };

Result<CollectiveOp> parse_collective_op(std::string_view text);

inline constexpr std::uint32_t kMaxRedundancy = 4;

// One collective of a tenant's group: the unit of fairness.
struct CollectiveSpec {
  CollectiveId id;
  std::string tenant;
  double weight = 1.0;  // among the tenant's own
  CollectiveOp op = CollectiveOp::kBroadcast;
  AllReduceAlgorithm algorithm = AllReduceAlgorithm::kPlanned;
  NodeId root;                   // only for operations that have one
  std::vector<NodeId> members;   // in rank order, root included, no duplicates
  std::uint64_t size_bytes = 0;  // the buffer of one member
  // With Objective::kCost: the rate that it must have.
  std::optional<double> required_bps;
  // By member, as long as `members`: no stream takes longer from the root to it (in a
  // reduce: from it to the root). Empty: no bounds; Duration::max(): none for this one.
  // Policy "exact" only.
  std::vector<Duration> max_latency;
  // Of a broadcast: whichever so many relays and links are lost, nothing need be sent again and no rate is
  // lost, as so many more ways carry sums (PlanCode). Fewer where the overlay has no more ways. At most
  // kMaxRedundancy. Policy "exact" only.
  std::uint32_t redundancy = 0;
  // The group of processes that calls it: those of one tenant's group follow one another. Empty: it is of no
  // group, and runs beside all others.
  std::string group = {};
};

// An all-reduce whose members add, each for the next.
inline bool is_ring(const CollectiveSpec& collective) {
  return collective.op == CollectiveOp::kAllReduce && collective.algorithm == AllReduceAlgorithm::kRing;
}

struct Scenario {
  std::string name;
  Topology topology;
  PolicySpec policy;
  std::vector<TenantSpec> tenants;  // every tenant that a collective names
  std::vector<CollectiveSpec> collectives;
};

// Reads a scenario; a topology file in it is looked up beside the scenario, and read with `options`, or else
// with the unit of the key overlay.units. Errors:
// NOT_FOUND for a missing file, INVALID_ARGUMENT naming file, line and key otherwise.
// Blocks on the files.
Result<Scenario> read_scenario(const std::filesystem::path& file, const TopologyReadOptions& options = {});
Result<Scenario> parse_scenario(std::string_view text, std::string_view source_name,
                                const std::filesystem::path& directory,
                                const TopologyReadOptions& options = {});

// What read_scenario also checks, for scenarios made in code: known tenants once each,
// positive finite weights, members that exist once each, a root among them, no empty
// membership, ids that are unique. INVALID_ARGUMENT names the collective.
Status check_scenario(const Scenario& scenario);

}  // namespace square
