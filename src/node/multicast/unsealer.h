// A destination's part in blocks that are sealed: what opens, and what is said of the rest.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "node/arrival.h"
#include "node/context.h"
#include "node/multicast/sealing.h"

namespace square {

// Of one operation in one session. Not thread-safe, but for opener(): used on the node's strand.
class Unsealer {
 public:
  struct Place {
    std::uint32_t incarnation = 0;  // of the source
    SessionId session;
    OperationId operation;
  };
  // `shape`: as the first frame has said.
  Unsealer(std::shared_ptr<NodeContext> node, Place place, BlockShape shape)
      : node_(std::move(node)), place_(place), shape_(shape) {}

  // Known at the latest when the members post; the first that has a key stays.
  void set_sealing(Sealing sealing);
  // Null where blocks are not sealed, or nobody knows the key yet.
  [[nodiscard]] const std::shared_ptr<const trust::BlockOpener>& opener() const { return opener_; }
  [[nodiscard]] bool is_proven() const { return !shape_.is_sealed || (opener_ && opener_->has_opened()); }
  // It can be said what is in a block.
  [[nodiscard]] bool is_ready() const { return !shape_.is_sealed || opener_ != nullptr; }

  // Whether a sum of blocks of the code may have so many bytes. Nobody codes sealed blocks as floats: what
  // was solved so would be taken for rounded.
  [[nodiscard]] bool may_be_sum(const FrameHeader& header, std::size_t size, const PlanCode& code) const;
  // The payload as the source had it before it was sealed. False where it is not what the source has sent.
  bool open(std::size_t block, Arrival& arrival);
  // A frame that does not fit: where blocks are sealed somebody on the way has changed it. Errors: DATA_LOSS
  // with `why` where they are not.
  Status refuse(const Arrival& arrival, const std::string& why);
  // What was solved for is not what the source has sent.
  void note_wrong();
  // Of late something was not what the source has sent.
  [[nodiscard]] bool is_alarmed() const { return node_->clock.now() < alarmed_until_; }

 private:
  void refuse_forged(std::string_view from, const std::string& what);

  const std::shared_ptr<NodeContext> node_;
  const Place place_;
  const BlockShape shape_;
  std::string source_;
  std::shared_ptr<const trust::BlockOpener> opener_;
  TimePoint alarmed_until_{};
};

}  // namespace square
