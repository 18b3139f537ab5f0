// The tail of a link: what this node sends to one neighbour, in which order and when.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "node/context.h"
#include "node/links/flush.h"
#include "node/links/outgoing_stream.h"
#include "transport/pacing/link_scheduler.h"
#include "transport/pacing/pacer.h"

namespace square {

// What goes ahead and waits for the transport: reports of sums, which come again, and twice as many aborts;
// more are dropped. Who misses an abort hears by a timeout.
inline constexpr std::size_t kMaxUrgentFrames = 2'048;

// Not thread-safe: used on the node's strand. Frames go to the transport in send_due() only.
class OutgoingLink final : public Flush::Link {
 public:
  // `egress` is the node's own limit, shared by all its links.
  OutgoingLink(NodeContext& node, std::string peer, Pacer& egress, Flush& flush);
  ~OutgoingLink() override;
  OutgoingLink(const OutgoingLink&) = delete;
  OutgoingLink& operator=(const OutgoingLink&) = delete;

  [[nodiscard]] const std::string& peer() const { return peer_; }
  [[nodiscard]] NodeContext& node() const { return node_; }
  // Nothing is in the transport's hands, or should be there first.
  [[nodiscard]] bool is_idle() const { return in_transport_.empty() && (!is_up() || urgent_.empty()); }
  [[nodiscard]] bool is_up() const { return handle_.has_value(); }
  // It is silent: sources use it no more until it speaks.
  [[nodiscard]] bool is_suspected() const { return is_suspected_; }
  void set_suspected(bool is_suspected);
  // The peer left in order, and nothing leads through it: what is put in line is dropped.
  [[nodiscard]] bool has_departed() const { return has_departed_; }
  void set_departed(bool has_departed);
  [[nodiscard]] bool has_streams() const { return !streams_.empty(); }
  [[nodiscard]] std::optional<LinkHandle> handle() const { return handle_; }
  void set_pace(double rate_bps);
  [[nodiscard]] double pace_bps() const { return pacer_.rate_bps(); }

  // Precondition: the neighbour is one of the stream's children.
  std::shared_ptr<OutgoingStream> add_stream(const std::shared_ptr<const InstalledCollective>& plan,
                                             const LocalStream& stream);
  void remove_stream(const StreamKey& key);
  // Nothing for a stream that was not added, or was removed.
  [[nodiscard]] std::shared_ptr<OutgoingStream> find(const StreamKey& key) const;

  // The same as on the stream itself, for who does not keep it.
  void enqueue(const StreamKey& key, Frame frame, std::shared_ptr<void> guard);

  // Goes ahead of everything, unpaced but counted. Dropped if the link is down.
  void send_ahead(Frame frame);
  void drop_operation(SessionId session, OperationId operation);

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
  void on_credit(OutgoingStream& stream, std::uint64_t limit);
  // Answers to the peer's data use this link's capacity too.
  void charge_answer(std::size_t payload_bytes);
  // So do the kernel's and HTTP/2's own answers to a frame from the peer.
  void charge_receipt(std::size_t payload_bytes);

  void send_due() override;

  // For its streams: the first frame in line, or whether it may go, has changed; and the peer is
  // to be asked for credit.
  void on_change(const OutgoingStream& stream);
  void ask_for_credit(OutgoingStream& stream);

 private:
  // The transport may be given one more frame.
  [[nodiscard]] bool may_hand_over() const;
  // A frame ahead of the streams', if there is one.
  bool send_urgent();
  void transmit(OutgoingStream& stream, TimePoint now);
  void hand_over(Frame frame, std::shared_ptr<void> guard);
  void update_head(const OutgoingStream& stream, TimePoint now);
  void drop_queues();
  void set_backlogged(bool backlogged, TimePoint now);
  void charge_other(double bits);
  void wait_until(TimePoint when);

  NodeContext& node_;
  std::string peer_;
  Pacer& egress_;
  Flush& flush_;
  // Nothing is counted before a stream needs the link.
  std::shared_ptr<LinkTally> tally_ = std::make_shared<LinkTally>();
  Pacer pacer_{kUnlimited};
  LinkScheduler scheduler_;
  std::map<StreamKey, std::shared_ptr<OutgoingStream>> streams_;
  std::map<FlowId, OutgoingStream*> by_flow_;
  std::optional<LinkHandle> handle_;
  std::deque<Frame> urgent_;
  std::deque<StreamKey> asking_;  // for credit
  struct HandedOver {
    std::shared_ptr<void> guard;
    std::size_t bytes = 0;
  };
  std::deque<HandedOver> in_transport_;
  std::size_t bytes_in_transport_ = 0;
  std::size_t channels_ = 1;
  bool is_suspected_ = false;
  bool has_departed_ = false;
  bool is_backlogged_ = false;  // as the pacers were told
  Executor::TimerId pace_timer_ = 0;
  Lifetime life_;
};

}  // namespace square
