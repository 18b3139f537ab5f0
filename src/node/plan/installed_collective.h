// One collective of a plan as one node sees it: its place in every stream.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/plan/figures.h"
#include "node/plan/block_sizes.h"
#include "square/frame.h"
#include "square/plan.h"
#include "square/reduction.h"
#include "transport/pacing/link_scheduler.h"

namespace square {

struct StreamKey {
  Epoch epoch;  // since which the collective is as it is
  SessionId session;
  StreamIndex stream;
  OriginTag origin{};  // of the plan
  friend auto operator<=>(const StreamKey&, const StreamKey&) = default;
};
// The stream that a frame belongs to, and a frame that belongs to the stream.
StreamKey key_of(const FrameHeader& header);
void set_stream(FrameHeader& header, const StreamKey& key);

// Whether what a frame of a multicast carries is coded as floats. Said by the source, of each generation.
inline bool has_floats(const FrameHeader& header) {
  return header.element_type == static_cast<std::uint8_t>(ElementType::kFloat32);
}

// What a coded stream carries, and its code: over one field.
struct CodedAs {
  const PlanCodePart* part = nullptr;
  const PlanCode* code = nullptr;
};

// Of each hop from a parent. The plan that was installed last says how large it is.
struct StreamWindow {
  std::size_t blocks = 0;
  std::size_t credit_blocks = 1;  // so many free ones of them are worth a word to the parent
};

// A stream that goes through this node. Data of a multicast comes from one parent and goes
// to any children; data of a reduce comes from any parents, in the order of additions, and
// goes to one child.
struct LocalStream {
  StreamKey key;
  CollectiveId collective;
  std::string tenant;
  std::string job{};  // of the tenant: what follows one another; empty: it runs beside all others
  JobTurn turn = 0;   // of the job
  double tenant_weight = 1;
  SessionKind kind = SessionKind::kMulticast;
  double rate_bps = 0;
  double weight = 1;  // of its collective, in the ratio of its rate to the session's
  std::vector<std::string> parents;
  std::vector<std::string> children;
  const PlanSession* session = nullptr;  // of its collective
  bool is_member = false;                // this node has members of the session: its root, too
  bool is_root = false;
  bool is_destination = false;  // a member and not the root
  std::size_t depth = 0;        // hops to the farthest node, from the root; of a code to its farthest sink
  Duration latency{0};          // at its root: of the slowest of its links, if the plan tells
  std::shared_ptr<StreamWindow> window = std::make_shared<StreamWindow>();
  bool is_spare = false;
  // Of a coded stream; both are its session's.
  const PlanCodePart* coded = nullptr;
  const PlanCode* code = nullptr;
  CodedAs over_bytes{};                     // of a code of floats: for what they would spoil
  std::optional<std::uint32_t> block{};     // of each generation, if it carries one as it is
  std::vector<const LocalStream*> terms;    // what is added here, where it begins as a sum
  std::vector<const LocalStream*> adds_to;  // sums that begin here with it

  // Its part of a link. Where a plan has no rates the weight is no number, which the first of max() outlives.
  [[nodiscard]] FlowShare share() const {
    return {tenant, tenant_weight, rate_bps, std::max(1e-9, weight), job, turn};
  }
  // Whether this node puts blocks of its own on the stream.
  [[nodiscard]] bool starts_here() const { return parents.empty() && terms.empty(); }
  // Where the generation begins whose block or sum a frame of it carries: position in the session's bytes.
  [[nodiscard]] std::uint64_t generation_offset(const FrameHeader& header) const {
    return header.offset_bytes - std::uint64_t{block.value_or(0)} * header.block_bytes;
  }
  // Of a coded stream: how a generation is added.
  [[nodiscard]] CodedAs coded_as(bool are_floats) const {
    return over_bytes.part == nullptr || are_floats ? CodedAs{coded, code} : over_bytes;
  }
  [[nodiscard]] bool comes_from(const std::string& peer) const {
    return std::ranges::find(parents, peer) != parents.end();
  }
};

// How many links it is between a stream's root and the node farthest from it.
std::size_t depth_of(const PlanStream& stream, SessionKind kind);
// The same of a code, over the streams that are added on the way.
std::size_t depth_of_code(const PlanSession& session, std::uint32_t code);

// By NodeId; shared by what has the same.
using NodeNames = std::shared_ptr<const std::vector<std::string>>;

// What a plan says of all its collectives.
struct PlanFrame {
  explicit PlanFrame(const Plan& of, NodeNames node_names, std::optional<NodeId> node);

  const Plan& plan;
  NodeNames names;
  std::optional<NodeId> self;
  TenantWeights weights;
  LinkLatencies latencies;
};

// The same in all plans in which the collective is as it is, and then shared by them: what runs holds it,
// and goes on where a new plan leaves the collective alone. Immutable, but for its streams' windows.
class InstalledCollective {
 public:
  struct Session {
    const PlanSession* planned;
    double block_limit_bytes;
  };
  InstalledCollective(const PlanFrame& frame, const PlanCollective& collective,
                      const std::vector<Session>& sessions);
  InstalledCollective(const InstalledCollective&) = delete;
  InstalledCollective& operator=(const InstalledCollective&) = delete;

  [[nodiscard]] CollectiveId id() const { return planned_.id; }
  [[nodiscard]] const PlanCollective& planned() const { return planned_; }
  // That of the first plan in which it is as it is.
  [[nodiscard]] Epoch epoch() const { return epoch_; }
  [[nodiscard]] OriginTag origin() const { return origin_; }
  [[nodiscard]] const std::string& policy() const { return policy_; }
  // This node's number; nothing if the plan does not know it.
  [[nodiscard]] std::optional<NodeId> self() const { return self_; }
  [[nodiscard]] const std::string& name_of(NodeId node) const { return (*names_)[node.index()]; }

  [[nodiscard]] const std::vector<LocalStream>& streams() const { return streams_; }
  [[nodiscard]] const LocalStream* find(const StreamKey& key) const;
  // The streams of a session that go through this node, by index.
  [[nodiscard]] const std::vector<const LocalStream*>& streams_of(SessionId session) const;
  // In the plan's order.
  [[nodiscard]] const std::vector<PlanSession>& sessions() const { return sessions_; }
  // None for a session that the collective does not have.
  [[nodiscard]] const PlanSession* session(SessionId session) const;
  [[nodiscard]] const BlockSizes& block_sizes() const { return block_sizes_; }
  // The block size of an operation with so many bytes of the session.
  [[nodiscard]] std::size_t block_bytes(SessionId session, std::uint64_t total_bytes) const {
    return block_sizes_.block_bytes(session, total_bytes);
  }
  // That of the longest operations.
  [[nodiscard]] std::size_t largest_block_bytes(SessionId session) const {
    return block_sizes_.of(session).coarse;
  }

 private:
  void add_stream(const PlanFrame& frame, const PlanSession& session, std::size_t index);
  void add_code(const PlanFrame& frame, const PlanCodePart& part, LocalStream& local) const;
  void join_sums();

  PlanCollective planned_;
  Epoch epoch_;
  OriginTag origin_;
  std::string policy_;
  NodeNames names_;
  std::optional<NodeId> self_;
  BlockSizes block_sizes_;
  std::vector<PlanSession> sessions_;
  std::vector<LocalStream> streams_;
  struct Entry {
    const PlanSession* session = nullptr;
    std::vector<const LocalStream*> streams{};
    std::optional<PlanSession> over_bytes{};  // if it has a code of floats
  };
  std::map<SessionId, Entry> by_session_;
};

// The bytes of an operation on `operation_bytes` that a session of the collective carries: its part of
// the planned buffer, in proportion.
struct ByteRange {
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = 0;
};
ByteRange session_range(const PlanCollective& collective, const PlanSession& session,
                        std::uint64_t operation_bytes);

}  // namespace square
