// The operations of a process at its gateway, as the process sees them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "gateway/copier.h"
#include "gateway/message_socket.h"
#include "gateway/segment_pool.h"
#include "square/data_plane.h"
#include "square/group.h"

namespace square::gateway {

struct AttachedCall {
  MemberOperation operation;
  std::span<const std::byte> input;  // what goes to the gateway
  std::span<std::byte> output;       // what comes back
  // Nothing of it goes to another node: its input lies in `reusable`, and its output then takes
  // that place. Otherwise what goes out is sealed.
  bool stays_on_node = false;
  Segment sealed;
  Segment reusable;
  std::size_t received_bytes = 0;
  bool is_in_use = false;  // a copy or a write looks at the spans
  std::optional<Status> outcome;
};

// Operations that a process has at its gateway at once: each takes descriptors of both, of which a process
// has 1,024 by default. The first of each collective may be there besides, so that every collective makes
// progress.
inline constexpr std::size_t kMaxSentOperations = 256;

// On the loop's thread unless said otherwise.
class AttachedOperations {
 public:
  // `next_number` numbers a message; `on_ended` runs whenever an operation has ended.
  AttachedOperations(std::shared_ptr<EventLoop> loop, std::function<std::uint64_t()> next_number,
                     std::function<void()> on_ended)
      : copier_(std::move(loop)), next_number_(std::move(next_number)), on_ended_(std::move(on_ended)) {}

  // Any thread. What the group of a collective makes of it; then which parts of its buffers an operation
  // uses.
  void learn(CollectiveId collective, const GroupCollective& meaning, bool stays_on_node);
  void forget(CollectiveId collective);
  [[nodiscard]] AttachedCall prepare(MemberOperation operation) const;

  // Any thread. Arithmetic of a member: here if it is little, or on a copying thread; then the other on the
  // loop.
  void work(std::size_t bytes, std::function<void()> task, std::function<void()> then) {
    copier_.run(bytes, std::move(task), std::move(then));
  }

  // Once the gateway has said who it is: what its node is called, and whether it shares memory. The
  // connection stays until down().
  struct Welcome {
    std::string node;
    bool is_shared = false;
    std::size_t max_operations = 0;  // that the gateway lets the process have
  };
  void open(MessageSocket& connection, const Welcome& welcome);
  // Sends it, or keeps it until there is room at the gateway.
  void post(AttachedCall call);
  // To be called now and then: ends what has waited for room for its whole timeout.
  void end_late();
  void cancel(CollectiveId collective, OperationId operation);
  // What the gateway says.
  void admitted(std::uint64_t number);
  Result<ChunkTarget> place_chunk(const Header& header);
  void took_chunk(const Header& header);
  void ended(std::uint64_t number, Status outcome);
  void streamed(std::uint64_t number);
  // The connection is gone: nothing is read into a member's buffer any more, or out of one.
  void down(const Status& reason);

  [[nodiscard]] bool is_empty() const { return calls_.empty() && waiting_.empty(); }
  // Waits for copies. Not from the loop's thread, nor before it is empty.
  void stop() { copier_.stop(); }

 private:
  // By a copying thread.
  struct MadeSegment {
    Status made;
    Segment segment;
  };
  struct KnownCollective {
    CollectiveOp op = CollectiveOp::kBroadcast;
    bool stays_on_node = false;
  };

  struct Waiting {
    AttachedCall call;
    TimePoint deadline;
  };
  void send(AttachedCall call);
  // What there is room for.
  void send_waiting();
  [[nodiscard]] bool has_room(CollectiveId collective) const;
  // Ends what waits of the collective; the first of them on every member.
  void refuse_waiting(CollectiveId collective, const Status& cause);
  void stage(std::uint64_t number, AttachedCall& call);
  // Gives the input, with the reusable segment that the call needs.
  void fill(std::uint64_t number, AttachedCall& call);
  void staged(std::uint64_t number, const Status& made);
  void finish(std::uint64_t number);
  void finish_unless_in_use(std::uint64_t number);

  Copier copier_;
  const std::function<std::uint64_t()> next_number_;
  const std::function<void()> on_ended_;
  MessageSocket* connection_ = nullptr;  // none: down
  std::string node_;
  bool is_shared_ = false;
  std::size_t max_operations_ = 0;
  std::map<std::uint64_t, AttachedCall> calls_;  // at the gateway
  std::map<CollectiveId, std::size_t> sent_;     // how many of those each has
  std::map<CollectiveId, std::deque<Waiting>> waiting_;
  CollectiveId last_sent_;  // of those that waited
  SegmentPool pool_;

  mutable std::mutex mutex_;  // of what follows
  std::map<CollectiveId, KnownCollective> collectives_;
};

}  // namespace square::gateway
