// The multicasts of one operation on one node: what is sent, and what is received, by session.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "node/multicast/receiver.h"
#include "node/multicast/sender.h"
#include "node/operations/operation.h"

namespace square {

// Part of an operation's work, for whoever has something to multicast. Not thread-safe: used on the
// node's strand.
class Multicasts {
 public:
  // Where a member's bytes of a session are in its buffer.
  using RangeOf = std::function<ByteRange(const MemberOperation& call)>;

  // `on_done` hears when a session's sender or receiver is through, or has drained.
  Multicasts(Operation& operation, std::function<void(SessionId)> on_done)
      : operation_(operation), on_done_(std::move(on_done)) {}

  // Starts a session whose root is here. `data` shows its bytes. Call fill() next.
  void send(const std::shared_ptr<const InstalledCollective>& plan, const PlanSession& session, Buffer data,
            GroupCall call, ElementType elements, std::optional<Sender::Sums> sums = std::nullopt);
  [[nodiscard]] Sender* sender(SessionId session) const;
  void fill(SessionId session);
  void fill_all();

  [[nodiscard]] Receiver* receiver(SessionId session) const;
  // Whom the frame is for, if he is there. One whose first frame somebody on the way may have made up goes,
  // if the frame is a block that its source has sealed otherwise.
  [[nodiscard]] Receiver* receiver_of(const Arrival& arrival);
  [[nodiscard]] const auto& receivers() const { return receivers_; }
  // For the first frame of a session: nothing where it is refused, or the operation fails because nobody
  // could fill its shape.
  Receiver* add_receiver(const Arrival& first);
  // All members have posted: the bytes go into their buffers. Fails the operation if a buffer has
  // another size than what comes from `root`; a receiver goes where nobody knows yet whether `root` has said
  // so.
  void open(SessionId session, const std::string& root, const RangeOf& range_of);
  // A block or a probe. Fails the operation if it does not fit.
  void take(Receiver& receiver, Arrival arrival);

  void on_acknowledgement(const FrameHeader& header, const Acknowledgement& ack);
  [[nodiscard]] bool runs_before(Epoch epoch) const;
  void hurry() const;
  void migrate(const std::shared_ptr<const InstalledCollective>& plan, bool may_stay);
  void follow(const std::shared_ptr<const InstalledCollective>& plan) const;
  void let_go(Epoch closed) const;

  [[nodiscard]] bool is_done(SessionId session) const;
  [[nodiscard]] bool has_delivered() const;
  // Nothing is sent, and nothing is written any more.
  [[nodiscard]] bool is_quiet() const;
  // Sends nothing more, and with `receivers_too` takes nothing.
  void release(bool receivers_too);
  // Begins anew: what is under way is of another cut.
  void drop();
  void abandon();
  // Who has not confirmed, in words, one for each session; and what has not come.
  [[nodiscard]] std::vector<std::string> unconfirmed() const;
  [[nodiscard]] std::vector<std::string> unfinished(bool with_done_ones) const;

 private:
  // What the receiver has was not the source's, or may not be.
  void give_up(SessionId session);
  // Calls on_done_, if the operation is still there.
  std::function<void()> done_of(SessionId session);

  Operation& operation_;
  std::function<void(SessionId)> on_done_;
  std::map<SessionId, std::unique_ptr<Sender>> senders_;
  std::map<SessionId, std::shared_ptr<Receiver>> receivers_;
  std::vector<std::shared_ptr<Receiver>> former_receivers_;  // of another cut, perhaps not drained
};

}  // namespace square
