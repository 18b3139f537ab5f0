// A plan as one node sees it: its place in every stream.
#pragma once

#include <algorithm>
#include <compare>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "square/plan.h"
#include "transport/pacing/link_scheduler.h"

namespace square {

// A block carries about this much time of the session's typical stream (the mean, weighted by
// rate); in a long operation more, because every block costs its nodes the same and filling the
// pipeline matters less: this part of the operation's planned time, up to the coarse time. Less
// where a node carries many streams of a tenant, so that two blocks of each fit into the
// tenant's part of kPlanWindowBytes, and where an operation is so small that it would not use
// every stream. All nodes see the same plan, so they agree.
inline constexpr double kBlockSeconds = 0.010;
inline constexpr double kCoarseBlockSeconds = 0.040;
inline constexpr double kBlockPartOfOperation = 0.0075;
inline constexpr std::size_t kBlocksPerStream = 8;
inline constexpr std::size_t kMinBlockBytes = std::size_t{8} << 10U;
inline constexpr std::size_t kMaxBlockBytes = std::size_t{1} << 20U;
// Blocks end where elements of every type do, and where cache lines do.
inline constexpr std::size_t kBlockGranuleBytes = 64;
inline constexpr std::size_t kPlanWindowBytes = std::size_t{16} << 20U;

// Credit of a hop: what is under way during a round trip plus this much, and some blocks
// beyond that. A link whose latency the plan does not know may have this round trip, and one
// without a capacity carries up to this rate. Where memory is short, tenants share it by
// weight, and a stream has less, but never under two blocks.
inline constexpr double kWindowSlackSeconds = 0.060;
inline constexpr double kAssumedRoundTripSeconds = 0.050;
inline constexpr double kUnlimitedWindowBps = 10e9;
inline constexpr std::size_t kSpareWindowBlocks = 4;
inline constexpr std::size_t kMinWindowBlocks = 2;
inline constexpr std::size_t kMaxWindowBlocks = 256;

struct StreamKey {
  Epoch epoch;
  SessionId session;
  StreamIndex stream;
  friend auto operator<=>(const StreamKey&, const StreamKey&) = default;
};

// A stream that goes through this node. Data of a multicast comes from one parent and goes
// to any children; data of a reduce comes from any parents, in the order of additions, and
// goes to one child.
struct LocalStream {
  StreamKey key;
  CollectiveId collective;
  std::string tenant;
  double tenant_weight = 1;
  SessionKind kind = SessionKind::kMulticast;
  double rate_bps = 0;
  double weight = 1;  // of its collective, in the ratio of its rate to the session's
  std::vector<std::string> parents;
  std::vector<std::string> children;
  bool is_destination = false;
  std::size_t depth = 0;          // hops to the farthest node, from the root
  std::size_t window_blocks = 0;  // of each hop from a parent

  // Its part of a link.
  [[nodiscard]] FlowShare share() const { return {tenant, tenant_weight, rate_bps, std::max(weight, 1e-9)}; }
  // Whether this node puts blocks of its own on the stream.
  [[nodiscard]] bool starts_here() const { return parents.empty(); }
  [[nodiscard]] bool comes_from(const std::string& peer) const {
    return std::ranges::find(parents, peer) != parents.end();
  }
};

// How many links it is between a stream's root and the node farthest from it.
std::size_t depth_of(const PlanStream& stream, SessionKind kind);

class InstalledPlan {
 public:
  // `window_bytes` is what all hops into this node may reserve together; two blocks a
  // stream are reserved even where that is more.
  InstalledPlan(std::shared_ptr<const Plan> plan, const std::string& self, std::size_t window_bytes);

  [[nodiscard]] const Plan& plan() const { return *plan_; }
  [[nodiscard]] Epoch epoch() const { return plan_->epoch; }
  // This node's number; nothing if the plan does not know it.
  [[nodiscard]] std::optional<NodeId> self() const { return self_; }

  [[nodiscard]] const std::map<StreamKey, LocalStream>& streams() const { return streams_; }
  [[nodiscard]] const LocalStream* find(const StreamKey& key) const;
  // The streams of a session that go through this node, by index.
  [[nodiscard]] std::vector<const LocalStream*> streams_of(SessionId session) const;
  [[nodiscard]] std::vector<const PlanSession*> sessions_of(CollectiveId collective) const;
  // The block size of an operation with so many bytes of the session.
  [[nodiscard]] std::size_t block_bytes(SessionId session, std::uint64_t total_bytes) const;
  // That of the longest operations.
  [[nodiscard]] std::size_t largest_block_bytes(SessionId session) const;
  // What this node may send to `peer`, bits per second: the capacity, and where this node
  // or the peer has a limit no more than leaves the other links their planned load.
  [[nodiscard]] double pace_bps(const std::string& peer) const;
  // What `peer` may send to this node, by the same rule.
  [[nodiscard]] double pace_from_bps(const std::string& peer) const;
  [[nodiscard]] double egress_bps() const;

 private:
  // By node and tenant: streams into the node.
  using StreamCounts = std::map<NodeId, std::map<std::string_view, std::size_t>>;

  [[nodiscard]] StreamCounts count_streams() const;
  [[nodiscard]] double tenant_weight(std::string_view tenant) const;
  // The largest block of which two a stream fit into the tenant's part everywhere.
  [[nodiscard]] double fitting_block(const PlanSession& session, const StreamCounts& counts) const;
  [[nodiscard]] std::string_view tenant_of(const PlanSession& session) const;
  [[nodiscard]] double pace_between(std::optional<NodeId> tail, std::optional<NodeId> head) const;
  [[nodiscard]] double round_trip_seconds(const LocalStream& stream) const;
  [[nodiscard]] bool has_unlimited_hop(const LocalStream& stream) const;
  void add_session(const PlanSession& session, const StreamCounts& counts);
  void add_stream(const PlanSession& session, std::size_t index);
  void fit_windows(std::size_t window_bytes);

  std::shared_ptr<const Plan> plan_;
  std::optional<NodeId> self_;
  std::map<StreamKey, LocalStream> streams_;
  // For operations that are over soon, and for long ones; and what the typical stream carries
  // of the session's blocks.
  struct BlockSizes {
    std::size_t fine = kMinBlockBytes;
    std::size_t coarse = kMinBlockBytes;
    double typical_part = 1;
    std::size_t streams = 1;
  };
  std::map<SessionId, BlockSizes> block_sizes_;
  std::map<std::string_view, double> tenant_weights_;
  std::map<std::string, const PlanLink*> links_in_;  // by the tail's name
};

// Shares `total` by weight: nobody gets more than it wants, and what one leaves goes to the
// others.
struct Claim {
  double wanted = 0;
  double weight = 1;
};
std::vector<double> share_out(double total, const std::vector<Claim>& claims);

// The bytes of an operation on `operation_bytes` that a session carries: its part of
// the planned buffer, in proportion.
struct ByteRange {
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = 0;
};
ByteRange session_range(const Plan& plan, const PlanSession& session, std::uint64_t operation_bytes);

}  // namespace square
