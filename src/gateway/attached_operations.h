// The operations of a process at its gateway, as the process sees them.
#pragma once

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

// On the loop's thread unless said otherwise.
class AttachedOperations {
 public:
  // `on_ended` runs whenever an operation has ended.
  AttachedOperations(std::shared_ptr<EventLoop> loop, std::function<void()> on_ended)
      : copier_(std::move(loop)), on_ended_(std::move(on_ended)) {}

  // Any thread. What the group of a collective makes of it; then which parts of its buffers an operation
  // uses.
  void learn(CollectiveId collective, const GroupCollective& meaning, bool stays_on_node);
  void forget(CollectiveId collective);
  [[nodiscard]] AttachedCall prepare(MemberOperation operation) const;

  // Once the gateway has said who it is: what its node is called, and whether it shares memory. The
  // connection stays until down().
  void open(MessageSocket& connection, std::string node, bool is_shared);
  void post(std::uint64_t number, AttachedCall call);
  void cancel(CollectiveId collective, OperationId operation);
  // What the gateway says.
  void admitted(std::uint64_t number);
  Result<ChunkTarget> place_chunk(const Header& header);
  void took_chunk(const Header& header);
  void ended(std::uint64_t number, Status outcome);
  void streamed(std::uint64_t number);
  // The connection is gone: nothing is read into a member's buffer any more, or out of one.
  void down(const Status& reason);

  [[nodiscard]] bool is_empty() const { return calls_.empty(); }
  // Waits for copies. Not from the loop's thread, nor before it is empty.
  void stop() { copier_.stop(); }

 private:
  struct SealedInput {
    Status made;
    Segment segment;
  };
  struct KnownCollective {
    CollectiveOp op = CollectiveOp::kBroadcast;
    bool stays_on_node = false;
  };

  void stage(std::uint64_t number, AttachedCall& call);
  void staged(std::uint64_t number, const Status& made);
  void finish(std::uint64_t number);
  void finish_unless_in_use(std::uint64_t number);

  Copier copier_;
  const std::function<void()> on_ended_;
  MessageSocket* connection_ = nullptr;  // none: down
  std::string node_;
  bool is_shared_ = false;
  std::map<std::uint64_t, AttachedCall> calls_;
  SegmentPool pool_;

  mutable std::mutex mutex_;  // of what follows
  std::map<CollectiveId, KnownCollective> collectives_;
};

}  // namespace square::gateway
