// The tail of a link: what this node sends to one neighbour, in which order and when.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "node/context.h"
#include "transport/pacing/link_scheduler.h"
#include "transport/pacing/pacer.h"

namespace square {

// Blocks that a source puts in line on one stream of one link. Short, so that a block
// is bound to a stream only when it can be sent soon.
inline constexpr std::size_t kSourceQueueBlocks = 2;
// Probes and reports that wait on one stream; more are dropped: they are sent again.
inline constexpr std::size_t kMaxQueuedMessages = 1'024;
// A stream with blocks and no credit asks for it after the first wait, then less and less.
inline constexpr Duration kMinCreditWait = std::chrono::milliseconds(200);
inline constexpr Duration kMaxCreditWait = std::chrono::seconds(2);

// Not thread-safe: used on the node's strand.
class OutgoingLink {
 public:
  // `on_room` is called when a stream may take another block from its source.
  // `egress` is the node's own limit, shared by all its links.
  OutgoingLink(NodeContext& node, std::string peer, Pacer& egress,
               std::function<void(const StreamKey&)> on_room);
  ~OutgoingLink();

  [[nodiscard]] const std::string& peer() const { return peer_; }
  // Nothing is in the transport's hands.
  [[nodiscard]] bool is_idle() const { return in_transport_.empty(); }
  [[nodiscard]] bool is_up() const { return handle_.has_value(); }
  void set_pace(double rate_bps) { pacer_.set_rate(rate_bps); }
  [[nodiscard]] double pace_bps() const { return pacer_.rate_bps(); }

  void add_stream(const LocalStream& stream);
  void remove_stream(const StreamKey& key);

  // Queues a block or a probe of a stream that was added. `guard` is let go when the
  // frame is out of the transport's hands or dropped. A probe replaces a waiting probe
  // at the end of the queue.
  void enqueue(const StreamKey& key, Frame frame, std::shared_ptr<void> guard);
  // Sends a frame ahead of everything, unpaced but counted.
  void send_now(Frame frame);
  // Takes back a block that was not sent yet, or says that it is too late.
  bool retract(const StreamKey& key, OperationId operation, std::uint64_t stream_sequence);
  [[nodiscard]] bool is_queued(const StreamKey& key, OperationId operation,
                               std::uint64_t stream_sequence) const;
  void drop_operation(SessionId session, OperationId operation);

  // A source would queue a block and has no room: ask the peer, should credit be lost.
  void want_room(const StreamKey& key);
  // Whether a source may queue another block.
  [[nodiscard]] bool has_room(const StreamKey& key) const;
  [[nodiscard]] std::size_t queued_blocks(const StreamKey& key) const;

  // What waits to be sent, by session, those with nothing left out; looks at every frame.
  struct QueueDepth {
    std::size_t blocks = 0;
    std::size_t bytes = 0;
  };
  [[nodiscard]] std::map<SessionId, QueueDepth> queues() const;

  // How many channels the transport was told to use: each takes frames of its own.
  void set_channels(std::size_t channels) { channels_ = channels; }

  void on_up(LinkHandle handle);
  void on_down();
  void on_sent();
  void on_credit(const StreamKey& key, std::uint64_t limit);
  // Answers to the peer's data use this link's capacity too.
  void charge_answer(std::size_t payload_bytes);
  // So do the kernel's and HTTP/2's own answers to a frame from the peer.
  void charge_receipt(std::size_t payload_bytes);
  [[nodiscard]] std::optional<LinkHandle> handle() const { return handle_; }

 private:
  struct Item {
    Frame frame;
    std::shared_ptr<void> guard;
  };
  struct Stream {
    FlowId flow;
    std::deque<Item> queue;
    std::size_t blocks = 0;  // of the items in the queue
    std::uint64_t sent = 0;  // blocks, since the link is up
    std::uint64_t credit_limit = 0;
    bool wanted = false;  // a source waits for credit
    Duration credit_wait = kMinCreditWait;
    Executor::TimerId credit_timer = 0;
  };

  [[nodiscard]] bool can_send(const Stream& stream) const;
  [[nodiscard]] bool lacks_credit(const Stream& stream) const;
  void update_head(const StreamKey& key);
  void pump();
  void set_backlogged(bool backlogged, TimePoint now);
  void charge_other(double bits);
  void transmit(const StreamKey& key, TimePoint now);
  void wait_until(TimePoint when);
  void ask_for_credit_later(const StreamKey& key);
  void ask_for_credit(const StreamKey& key);
  void hand_over(Frame frame, std::shared_ptr<void> guard);

  NodeContext& node_;
  std::string peer_;
  Pacer& egress_;
  std::function<void(const StreamKey&)> on_room_;
  Pacer pacer_{kUnlimited};
  LinkScheduler scheduler_;
  std::map<StreamKey, Stream> streams_;
  std::map<FlowId, StreamKey> keys_;
  std::optional<LinkHandle> handle_;
  std::deque<std::shared_ptr<void>> in_transport_;
  std::size_t channels_ = 1;
  bool is_backlogged_ = false;  // as the pacers were told
  Executor::TimerId pump_timer_ = 0;
  // Timers must not touch a link that is gone.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace square
