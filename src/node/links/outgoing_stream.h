// One stream on one link, at its tail: what waits there to be sent, and the credit for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "node/lifetime.h"
#include "node/plan/installed_collective.h"
#include "node/traffic_meter.h"
#include "square/executor.h"
#include "square/frame.h"
#include "transport/pacing/link_scheduler.h"

namespace square {

class OutgoingLink;

// Blocks that a source puts in line on one stream of one link. Short, so that a block
// is bound to a stream only when it can be sent soon.
inline constexpr std::size_t kSourceQueueBlocks = 2;
// Probes and reports that wait on one stream; more are dropped: they are sent again.
inline constexpr std::size_t kMaxQueuedMessages = 1'024;
// A stream with blocks and no credit asks for it after the first wait, then less and less.
inline constexpr Duration kMinCreditWait = std::chrono::milliseconds(200);
// One of a new plan on a link that is up asks sooner: its head may have installed the plan first, and what it
// granted then meant nothing here.
inline constexpr Duration kFirstCreditWait = std::chrono::milliseconds(10);
inline constexpr Duration kMaxCreditWait = std::chrono::seconds(2);

// Made by its link, which it must not outlive but closed: a stream that was removed takes nothing.
// Nothing here sends: the link's turn in the node's flush does. Not thread-safe: used on the
// node's strand.
class OutgoingStream {
 public:
  // `child` is the link's neighbour's place among the stream's children. The plan is kept.
  OutgoingStream(OutgoingLink& link, std::shared_ptr<const InstalledCollective> plan,
                 const LocalStream& stream, std::size_t child, FlowId flow);

  [[nodiscard]] const StreamKey& key() const { return local_.key; }
  [[nodiscard]] const std::shared_ptr<const InstalledCollective>& plan() const { return plan_; }
  [[nodiscard]] const LocalStream& local() const { return local_; }
  [[nodiscard]] std::size_t child() const { return child_; }
  [[nodiscard]] FlowId flow() const { return flow_; }
  // Its blocks come from a source on this node.
  [[nodiscard]] bool starts_here() const { return local_.starts_here(); }

  // Queues a block, a probe or a report. `guard` is let go when the frame is out of the
  // transport's hands or dropped. A probe replaces a waiting probe at the end of the queue.
  void enqueue(Frame frame, std::shared_ptr<void> guard);
  // Takes back a block that was not sent yet, or says that it is too late.
  bool retract(OperationId operation, std::uint64_t stream_sequence);
  [[nodiscard]] bool is_queued(OperationId operation, std::uint64_t stream_sequence) const;
  void drop(OperationId operation);

  // Whether a source may queue another block.
  [[nodiscard]] bool has_room() const;
  // A source would queue a block and has no room: ask the peer, should credit be lost.
  void want_room();
  // A block waits for credit, in line or at its source, and all that comes later behind it.
  [[nodiscard]] bool lacks_credit() const;
  // Since when, without any new credit; the end of time where it does not.
  [[nodiscard]] TimePoint lacks_credit_since() const {
    return lacks_credit() ? lacking_since_ : TimePoint::max();
  }
  [[nodiscard]] const std::string& peer() const { return local_.children[child_]; }
  [[nodiscard]] std::size_t queued_blocks() const { return blocks_; }
  [[nodiscard]] std::size_t queued_bytes() const;
  [[nodiscard]] bool is_empty() const { return queue_.empty(); }
  // Blocks that are put on it go on soon, as far as is known here.
  [[nodiscard]] bool is_usable() const;
  // When the last block left, whichever operation's; the beginning of time where none did.
  [[nodiscard]] TimePoint last_block_at() const { return last_block_at_; }
  // What sources here have put on it and do not know to be settled: one had so many bytes and has others now.
  void change_under_way(std::size_t before, std::size_t now) { under_way_bytes_ += now - before; }
  [[nodiscard]] std::size_t under_way_bytes() const { return under_way_bytes_; }
  // How often its link was lost or suspected, with what was under way.
  [[nodiscard]] std::uint64_t losses() const { return losses_; }

  // For its link only.
  struct Item {
    Frame frame;
    std::shared_ptr<void> guard;
  };
  [[nodiscard]] bool can_send() const;
  [[nodiscard]] const Frame& head() const { return queue_.front().frame; }
  // Precondition: can_send(). Numbers a block.
  Item take();
  void on_up();
  void on_down();
  void on_suspected();
  void on_credit(std::uint64_t limit);
  void close();
  // What the peer is told when it is asked for credit; from then on the stream waits for longer.
  // False if there is no need to ask any more.
  bool request_credit(Frame& request);

 private:
  void on_change();
  void ask_later();

  OutgoingLink& link_;
  const std::shared_ptr<const InstalledCollective> plan_;
  const LocalStream& local_;
  const std::size_t child_;
  const std::shared_ptr<SessionTally> tally_;
  const FlowId flow_;
  bool is_closed_ = false;
  std::deque<Item> queue_;
  std::size_t blocks_ = 0;  // of the items in the queue
  std::uint64_t sent_ = 0;  // blocks, since the link is up
  std::uint64_t credit_limit_ = 0;
  std::uint64_t losses_ = 0;
  TimePoint last_block_at_{};
  std::size_t under_way_bytes_ = 0;
  bool is_wanted_ = false;     // a source waits for credit
  bool is_asking_ = false;     // the link is to ask for it
  TimePoint lacking_since_{};  // while it lacks credit
  Duration credit_wait_ = kFirstCreditWait;
  Executor::TimerId credit_timer_ = 0;
  Lifetime life_;
};

}  // namespace square
