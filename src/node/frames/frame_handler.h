// What a node does with each type of frame.
#pragma once

#include <memory>
#include <string_view>

#include "node/aborts/failures.h"
#include "node/arrival.h"
#include "node/context.h"
#include "node/groups/agreement.h"
#include "node/groups/groups.h"
#include "node/links/neighbours.h"
#include "node/operations/open_operations.h"
#include "node/sums/relayed_sums.h"

namespace square {

// Finds what a frame is about and gives it to the part that it concerns. Used on the node's strand.
class FrameHandler {
 public:
  struct Parts {
    NodeContext& node;
    Neighbours& neighbours;
    Groups& groups;
    OpenOperations& operations;
    RelayedSums& sums;
    Failures& failures;
    Agreement& agreement;
  };
  explicit FrameHandler(const Parts& parts) : parts_(parts) {}

  // `landing`: what the transport's thread did with the block. A frame of a stream that this link
  // does not have here, of a plan that is gone or of nobody, is refused.
  void take(LinkHandle link, Frame frame, Landing landing);
  // To the parents of the stream.
  void answer(const LocalStream& stream, const Frame& frame);

 private:
  void take_from_parent(LinkHandle link, IncomingLink& from, Arrival arrival);
  void take_from_child(OutgoingLink& from, Arrival arrival);
  void take_block(LinkHandle link, IncomingLink& from, IncomingStream& stream, Arrival arrival);
  void take_probe(const IncomingStream& stream, Arrival arrival);
  void take_acknowledgement(const Arrival& arrival);
  // The open operation that a frame of a multicast belongs to, or none: then one that asks for
  // an answer has got it.
  std::shared_ptr<Operation> operation_for(const Arrival& arrival, Collective& collective);
  // Members here have closed the group and will not call what others have begun: they are told.
  bool refuses(const OperationKey& key);
  // Of what only passes through: UNAVAILABLE if a member of its session is gone. Who sends is told so, as
  // often as it sends; members here know what has ended by then.
  [[nodiscard]] Status check_members(const Arrival& arrival) const;
  static Frame abort_of(const Arrival& arrival, const Status& cause);
  void answer_abort(const Arrival& arrival, const Status& cause);

  // Of reduces (sum_frames.cc)
  void take_part(Arrival arrival, Collective& collective);
  void take_request(const Arrival& arrival);
  void take_report(Arrival arrival);
  // The same as above, without an answer. `from` is whose data it is.
  std::shared_ptr<Operation> sum_for(const Arrival& arrival, std::string_view from);

  const Parts parts_;
};

}  // namespace square
