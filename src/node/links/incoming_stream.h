// One stream on one link, at its head: the credit that this node gives for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "node/context.h"
#include "node/plan/installed_collective.h"
#include "square/frame.h"
#include "transport/pacing/link_scheduler.h"

namespace square {

class CodeAdder;
class IncomingLink;
class OutgoingStream;

// The receiving side of one hop of a stream. Credit is a promise of memory: of
// `window_blocks` reserved blocks, those not taken may be filled. Kept by the slots that are taken,
// too, so that a slot may outlive the link. Used on the strand.
class IncomingStream : public std::enable_shared_from_this<IncomingStream> {
 public:
  // `parent` is the link's neighbour's place among the stream's parents. The plan is kept.
  IncomingStream(std::shared_ptr<NodeContext> node, IncomingLink& link,
                 std::shared_ptr<const InstalledCollective> plan, const LocalStream& stream,
                 std::size_t parent);

  [[nodiscard]] const StreamKey& key() const { return local_.key; }
  [[nodiscard]] const std::shared_ptr<const InstalledCollective>& plan() const { return plan_; }
  [[nodiscard]] const LocalStream& local() const { return local_; }
  [[nodiscard]] std::size_t parent() const { return parent_; }
  [[nodiscard]] SessionTally& tally() const { return *tally_; }
  // Where blocks of a multicast go on; none of a sum, and none once the stream was removed.
  void set_children(std::vector<std::shared_ptr<OutgoingStream>> children) {
    children_ = std::move(children);
  }
  [[nodiscard]] const std::vector<std::shared_ptr<OutgoingStream>>& children() const { return children_; }
  // Where it is a term of sums that begin here.
  void add_adder(std::shared_ptr<CodeAdder> adder) { adders_.push_back(std::move(adder)); }
  [[nodiscard]] const std::vector<std::shared_ptr<CodeAdder>>& adders() const { return adders_; }

  // A new connection: the sender counts its blocks from 0 again.
  void on_up();
  void on_down();
  // The stream is removed; from then on the link is not touched.
  void close();

  // Takes a slot for the block with this hop sequence. The slot is free again when the
  // last reference to the result is gone. Nothing if it is beyond what was granted, or not newer
  // than the last.
  std::shared_ptr<void> take(std::uint64_t hop_sequence, std::size_t bytes);
  // Whether credit is worth a word once the slot of a block that has just been taken is free.
  [[nodiscard]] bool tells_with_next() const;
  // The sender has sent so many blocks; those that did not come are lost.
  void on_credit_request(std::uint64_t sent);

  // For its link, when it sends: all credit that was not announced yet, if some is due.
  std::optional<Frame> take_credit();

 private:
  void release(std::size_t bytes);
  void grant(bool always);
  [[nodiscard]] std::uint64_t limit() const;

  std::shared_ptr<NodeContext> node_;
  IncomingLink& link_;  // used while up
  const std::shared_ptr<const InstalledCollective> plan_;
  const LocalStream& local_;
  const std::size_t parent_;
  const std::shared_ptr<SessionTally> tally_;
  std::vector<std::shared_ptr<OutgoingStream>> children_;
  std::vector<std::shared_ptr<CodeAdder>> adders_;
  std::optional<FlowId> flow_;  // while up
  std::uint64_t received_ = 0;  // highest hop sequence that came or was lost
  std::size_t taken_ = 0;
  std::uint64_t waiting_ = 0;  // slots that are free and wait for their turn
  std::uint64_t granted_ = 0;
  std::uint64_t announced_ = 0;
  std::size_t freed_bytes_ = 0;  // since then
  bool is_due_ = false;          // granted_ is to be announced
};

}  // namespace square
