// One node's part in one reduce session of an operation. docs/data-plane.md, "Sums".
#pragma once

#include <memory>
#include <string>

#include "node/arrival.h"
#include "node/context.h"
#include "node/sums/sum_shape.h"
#include "node/sums/sum_zone.h"
#include "square/group_call.h"

namespace square {

// A block begins again (a higher retry) when the root knows that a part of it was lost, and
// all blocks that are not done begin again (a higher generation) when the root goes on under
// another plan. Parts of different attempts never meet. Not thread-safe: used on the node's
// strand, held by a shared_ptr; sums are payload work.
class SumSession {
 public:
  virtual ~SumSession() = default;

  // What the local members give, all as long as the sum, added in this order; `pin` keeps them. At
  // the root also where the sums go. Once, when all of them have called the operation.
  virtual void open(SumBuffers buffers, std::shared_ptr<const void> pin) = 0;

  // A part that has landed is added already. Errors: DATA_LOSS or INVALID_ARGUMENT for a block that
  // does not fit; without the name of who sent it.
  virtual Status on_block(Arrival arrival) = 0;
  // From the child: followed and passed on to the parents. Errors: DATA_LOSS for one that lies.
  virtual Status on_request(const Arrival& arrival) = 0;
  // From a parent: passed on, at the root heard. Errors: DATA_LOSS for one that lies.
  virtual Status on_report(Arrival arrival) = 0;
  // A stream that starts here may take blocks. False while this operation has more for it:
  // the next one comes behind, at every contributor alike, or their windows would fill with
  // parts that wait for one another.
  virtual bool fill(const StreamKey& key) = 0;
  // An earlier operation of the session is stuck: drops what waits here, so that windows and
  // links are free for it. The root will ask for it again.
  virtual void shed() = 0;
  // A newer plan is active: the root begins again with what is not done, a contributor that
  // sent under an older plan tells the root where it is.
  virtual void migrate(const std::shared_ptr<const InstalledCollective>& plan) = 0;
  // A link came back: what was asked, or said, may have been lost on it. Asks again soon.
  virtual void hurry() = 0;
  // Nothing more is sent, taken or added.
  virtual void cancel() = 0;

  // The root has every sum; elsewhere: it said so.
  [[nodiscard]] virtual bool is_done() const = 0;
  // No sum is being made: inputs and outputs are not touched any more.
  [[nodiscard]] virtual bool is_drained() const = 0;
  // At the root: a sum was made.
  [[nodiscard]] virtual bool has_results() const = 0;
  [[nodiscard]] virtual Epoch epoch() const = 0;
  // What is not there yet, in words; empty when all is.
  [[nodiscard]] virtual std::string describe_missing() const = 0;

  [[nodiscard]] const SumShape& shape() const { return label_.shape; }
  // Said with every frame. Before open().
  void set_call(GroupCall call) { label_.call = to_bits(call); }
  [[nodiscard]] GroupCall call() const { return group_call_from_bits(label_.call); }

 protected:
  explicit SumSession(const SumLabel& label) : label_(label) {}
  SumSession(const SumSession&) = default;
  SumSession& operator=(const SumSession&) = default;

  SumLabel label_;
};

// From the root to all: "every sum is done"; for who asks when the operation is over, too.
Frame done_answer(const FrameHeader& question, std::uint32_t incarnation);

}  // namespace square
