// The operations of a gateway's processes: room, input, the node, output.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "gateway/call.h"
#include "gateway/copier.h"
#include "gateway/group_table.h"
#include "gateway/staging.h"
#include "square/gateway.h"

namespace square::gateway {

// An operation that has room and whose input does not come ends after this long.
inline constexpr Duration kMaxInputPause = std::chrono::seconds(30);

// What operations need of their gateway; all of it outlives them.
struct OperationsHost {
  MemberHost& node;
  const GatewayOptions& options;
  GroupTable& groups;
  std::function<Attachment*(AttachmentId)> find;  // null for one that is gone
  std::function<void()> on_ended;                 // whenever one has ended
};

// On the loop's thread.
class GatewayOperations final : public std::enable_shared_from_this<GatewayOperations> {
 public:
  using Key = std::pair<CollectiveId, OperationId>;

  GatewayOperations(OperationsHost host, std::shared_ptr<EventLoop> loop);

  // What AttachmentHost says of them.
  Status post(Attachment& from, std::uint64_t number, const v1::GatewayPost& message);
  Status staged(Attachment& from, std::uint64_t number, StagedMemory where);
  Result<ChunkTarget> place_chunk(Attachment& from, const Header& header);
  void took_chunk(Attachment& from, const Header& header);
  void cancel(Attachment& from, std::uint64_t number);
  void streamed(Attachment& from, std::uint64_t number);

  // On every member.
  void end(const Key& key, const Status& cause);
  void end_late();
  // Those of calls that `picks` picks.
  [[nodiscard]] std::set<Key> matching(const std::function<bool(const Call&)>& picks) const;
  // Forgets what an attachment has that nobody looks at any more. Before it is gone.
  void drop(const Attachment& leaver);
  // Once it is gone: its room is for others.
  void forget(AttachmentId attachment);
  // Nothing is taken any more.
  void close() { is_closed_ = true; }

  [[nodiscard]] std::size_t count() const { return calls_.size(); }
  [[nodiscard]] std::uint64_t staging_bytes() const { return budget_.used_bytes(); }

 private:
  struct Poster {
    std::uint64_t last_number = 0;
    std::size_t calls = 0;
  };

  Status check_post(const Attachment& from, Call& call);
  Status check_call(const Attachment& from, const GroupCollective& collective, const Call& call) const;
  // What the call's operation takes, all ranks of this node together.
  void set_room(Call& call, const Group& group, const GroupCollective& collective) const;
  void give_back_room(const Call& call);
  void admit_waiting();
  void admit_all(const Key& key, const Call& first);
  // Precondition: its operation has its room.
  void admit(Call& call);
  [[nodiscard]] Status no_memory(const Call& call) const;
  void run(Call& call);
  void done(CallId id, Status outcome);
  void finish(CallId id, Status outcome);
  void erase(CallId id);
  [[nodiscard]] std::vector<CallId> calls_of(const Key& key) const;
  std::function<void(Status)> done_callback(const Call& call);

  const OperationsHost host_;
  const std::shared_ptr<EventLoop> loop_;
  std::map<AttachmentId, Poster> posters_;
  StagingBudget budget_;
  SegmentCache segments_;
  std::map<CallId, Call> calls_;
  std::map<Key, std::set<CallId>> by_operation_;
  // An operation's room is taken by the first of its calls that is admitted, for all ranks: otherwise one
  // rank could fill all room with operations that wait for another rank, which finds none.
  struct Room {
    std::string tenant;
    std::uint64_t bytes = 0;
    std::size_t segments = 0;
    std::size_t calls = 0;
  };
  std::map<Key, Room> rooms_;
  struct Waiting {
    std::uint64_t arrival = 0;
    CallId id;
  };
  std::map<std::string, std::deque<Waiting>> waiting_;  // for room, by tenant; some have ended meanwhile
  std::uint64_t last_arrival_ = 0;
  Copier copier_;
  bool is_closed_ = false;
};

}  // namespace square::gateway
