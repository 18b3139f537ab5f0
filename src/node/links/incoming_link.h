// The head of a link: the credit and the answers that this node gives to one neighbour.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "node/context.h"
#include "node/lifetime.h"
#include "node/links/flush.h"
#include "node/links/incoming_stream.h"
#include "node/links/ingress_police.h"

namespace square {

class OutgoingLink;

// Answers on one link that are in the transport's hands: many go into one message, and all
// together stay far below what the transport lets wait on a link.
inline constexpr std::size_t kMaxAnswersInTransport = 256;
// Answers that wait for the transport. Of acknowledgements and requests more are dropped, for who needs
// one asks again; of aborts twice as many are kept. Credit waits in its streams, the newest of each.
inline constexpr std::size_t kMaxQueuedAnswers = 4'096;
inline constexpr std::size_t kMaxQueuedAnswerBytes = std::size_t{4} << 20U;

// Not thread-safe: used on the node's strand. Frames go to the transport in send_due() only.
class IncomingLink final : public Flush::Link {
 public:
  IncomingLink(std::shared_ptr<NodeContext> node, std::string peer, Flush& flush);

  ~IncomingLink() override;
  IncomingLink(const IncomingLink&) = delete;
  IncomingLink& operator=(const IncomingLink&) = delete;

  [[nodiscard]] const std::string& peer() const { return peer_; }
  [[nodiscard]] bool is_up() const { return handle_.has_value(); }
  [[nodiscard]] bool has_streams() const { return !streams_.empty(); }
  [[nodiscard]] std::optional<LinkHandle> handle() const { return handle_; }
  // No answer is in the transport's hands, or waits to be.
  [[nodiscard]] bool is_idle() const { return in_transport_ == 0 && answers_.empty(); }

  // The link to the same neighbour, whose capacity answers use too; none if there is no such.
  void set_way_back(OutgoingLink* link) { way_back_ = link; }
  [[nodiscard]] OutgoingLink* way_back() const { return way_back_; }
  // What the neighbour may send.
  void set_pace(double rate_bps) { police_.set_rate(rate_bps); }

  // Precondition: the neighbour is one of the stream's parents.
  IncomingStream& add_stream(const std::shared_ptr<const InstalledCollective>& plan,
                             const LocalStream& stream);
  void remove_stream(const StreamKey& key);
  // What waits to be added here.
  void drop_operation(SessionId session, OperationId operation);
  // Nothing for a stream that was not added, or was removed.
  [[nodiscard]] IncomingStream* find(const StreamKey& key) const;

  // Queues an answer; dropped while the link is down. An acknowledgement that nobody waits for goes as
  // credit that may wait.
  void answer(Frame frame);

  // A new connection; gives the one that it replaces, if that was not seen to die.
  std::optional<LinkHandle> on_up(LinkHandle handle);
  void on_down();
  void on_sent();

  void send_due() override;

  // For its streams.
  [[nodiscard]] IngressPolice& police() { return police_; }
  void add_credit(IncomingStream& stream);
  // What waits goes now; or, if it may wait and something went within the last tick, with the next answer,
  // at the latest at the next tick.
  void speak(bool may_wait);
  // A block came on one of them.
  void count_block(SessionTally& session, std::size_t bytes);

 private:
  [[nodiscard]] std::optional<Frame> next_answer();
  [[nodiscard]] std::optional<Frame> next_credit();
  void send(Frame frame);

  std::shared_ptr<NodeContext> node_;
  std::string peer_;
  Flush& flush_;
  // Nothing is counted before a stream needs the link.
  std::shared_ptr<LinkTally> tally_ = std::make_shared<LinkTally>();
  OutgoingLink* way_back_ = nullptr;
  IngressPolice police_;
  std::optional<LinkHandle> handle_;
  std::map<StreamKey, std::shared_ptr<IncomingStream>> streams_;
  std::deque<Frame> answers_;
  std::size_t answer_bytes_ = 0;
  std::deque<std::shared_ptr<IncomingStream>> credits_;
  std::size_t in_transport_ = 0;
  bool is_credit_next_ = false;
  TimePoint spoke_at_{};
  Executor::TimerId tick_timer_ = 0;
  Lifetime life_;
};

}  // namespace square
