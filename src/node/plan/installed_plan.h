// A plan as one node sees it: its place in every stream. The node's part of it says the same as the whole.
#pragma once

#include <algorithm>
#include <compare>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "node/plan/block_sizes.h"
#include "square/frame.h"
#include "square/plan.h"
#include "transport/pacing/link_scheduler.h"

namespace square {

struct StreamKey {
  Epoch epoch;
  SessionId session;
  StreamIndex stream;
  OriginTag origin{};  // of the plan
  friend auto operator<=>(const StreamKey&, const StreamKey&) = default;
};
// The stream that a frame belongs to, and a frame that belongs to the stream.
StreamKey key_of(const FrameHeader& header);
void set_stream(FrameHeader& header, const StreamKey& key);

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
  const PlanSession* session = nullptr;  // in the plan
  bool is_member = false;                // this node has members of the session: its root, too
  bool is_root = false;
  bool is_destination = false;    // a member and not the root
  std::size_t depth = 0;          // hops to the farthest node, from the root
  Duration latency{0};            // at its root: of the slowest of its links, if the plan tells
  std::size_t window_blocks = 0;  // of each hop from a parent
  std::size_t credit_blocks = 1;  // so many free ones of them are worth a word to the parent

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
  InstalledPlan(const InstalledPlan&) = delete;
  InstalledPlan& operator=(const InstalledPlan&) = delete;

  [[nodiscard]] const Plan& plan() const { return *plan_; }
  [[nodiscard]] Epoch epoch() const { return plan_->epoch; }
  // This node's number; nothing if the plan does not know it.
  [[nodiscard]] std::optional<NodeId> self() const { return self_; }

  [[nodiscard]] const std::map<StreamKey, LocalStream>& streams() const { return streams_; }
  [[nodiscard]] const LocalStream* find(const StreamKey& key) const;
  // The streams of a session that go through this node, by index.
  [[nodiscard]] const std::vector<const LocalStream*>& streams_of(SessionId session) const;
  [[nodiscard]] const std::vector<const PlanSession*>& sessions_of(CollectiveId collective) const;
  // None for a session that the plan does not have.
  [[nodiscard]] const PlanSession* session(SessionId session) const;
  // The block size of an operation with so many bytes of the session.
  [[nodiscard]] std::size_t block_bytes(SessionId session, std::uint64_t total_bytes) const {
    return block_sizes_.block_bytes(session, total_bytes);
  }
  // That of the longest operations.
  [[nodiscard]] std::size_t largest_block_bytes(SessionId session) const {
    return block_sizes_.of(session).coarse;
  }
  // What this node may send to `peer`, bits per second: the capacity, and where this node
  // or the peer has a limit no more than leaves the other links their planned load. Nothing for a link that
  // the plan does not know: it is down, or its peer is.
  [[nodiscard]] std::optional<double> pace_bps(const std::string& peer) const;
  // What `peer` may send to this node, by the same rule.
  [[nodiscard]] std::optional<double> pace_from_bps(const std::string& peer) const;
  [[nodiscard]] double egress_bps() const;
  // The most that one of the links which this node uses may carry; 0 if it uses none.
  [[nodiscard]] double fastest_link_bps() const { return fastest_link_bps_; }

 private:
  void note_links();
  [[nodiscard]] std::optional<double> pace_between(std::optional<NodeId> tail,
                                                   std::optional<NodeId> head) const;
  void add_stream(const PlanSession& session, std::size_t index, const TenantWeights& weights,
                  const LinkLatencies& latencies);

  std::shared_ptr<const Plan> plan_;
  std::optional<NodeId> self_;
  BlockSizes block_sizes_;
  double fastest_link_bps_ = 0;
  // Of the links that this node is an end of.
  std::map<std::pair<NodeId, NodeId>, double> paces_;
  std::map<StreamKey, LocalStream> streams_;
  std::map<SessionId, const PlanSession*> sessions_;
  std::map<SessionId, std::vector<const LocalStream*>> streams_of_;
  std::map<CollectiveId, std::vector<const PlanSession*>> sessions_of_;
};

// The bytes of an operation on `operation_bytes` that a session carries: its part of
// the planned buffer, in proportion.
struct ByteRange {
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = 0;
};
ByteRange session_range(const Plan& plan, const PlanSession& session, std::uint64_t operation_bytes);

}  // namespace square
