// What an operation does on this node, whatever it is: sends, receives and adds for its members.
#pragma once

#include <memory>
#include <string>

#include "node/arrival.h"
#include "node/messages/answers.h"
#include "square/collective_op.h"
#include "square/data_plane.h"

namespace square {

class Operation;

// Owned by its operation, which tells it no more once it has an outcome. Frames may come before any
// member has posted. Not thread-safe: used on the node's strand.
class OperationWork {
 public:
  virtual ~OperationWork() = default;

  // Does this call go with those of the other members here? Errors: INVALID_ARGUMENT.
  [[nodiscard]] virtual Status check_neighbours(const MemberOperation& call) const = 0;
  // A member has posted; `plan` is the active one.
  virtual void on_post(const MemberOperation& call,
                       const std::shared_ptr<const InstalledCollective>& plan) = 0;
  // The number of members became known: perhaps all have posted.
  virtual void open() = 0;
  // A frame of a stream that this work is about; what does not belong here is left.
  virtual void on_arrival(Arrival arrival) = 0;
  virtual void on_acknowledgement(const FrameHeader& header, const Acknowledgement& ack) = 0;
  // Somebody called under a newer plan, which cuts the buffer.
  virtual void on_layout(const InstalledCollective& plan, const FrameHeader& header) = 0;

  // As in Operation.
  virtual bool fill(const StreamKey& key) = 0;
  virtual void shed(SessionId session) = 0;
  virtual void hurry() = 0;
  [[nodiscard]] virtual bool runs_before(Epoch epoch) const = 0;
  virtual void migrate(const std::shared_ptr<const InstalledCollective>& plan, bool may_stay) = 0;
  virtual void follow(const std::shared_ptr<const InstalledCollective>& plan) = 0;
  virtual void let_go(Epoch closed) = 0;

  // All that the members here wait for is done, but for what they give each other. Costs nothing: it
  // is asked with every block.
  [[nodiscard]] virtual bool is_done() const = 0;
  // Nobody writes to or reads from the members' buffers any more, after release().
  [[nodiscard]] virtual bool is_quiet() const = 0;
  // In words, once all members here have posted.
  [[nodiscard]] virtual std::string describe_missing() const = 0;

  // There is an outcome: lets go of the buffers, as soon as what is under way allows.
  virtual void release(bool has_failed) = 0;
  // The node goes away.
  virtual void abandon() = 0;
};

// Multicasts for a broadcast, sums for what adds.
std::unique_ptr<OperationWork> make_work(CollectiveOp op, Operation& operation);

}  // namespace square
