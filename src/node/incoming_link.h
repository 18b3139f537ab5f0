// The head of a link: the credit that this node gives to one neighbour.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "node/context.h"

namespace square {

// The receiving side of one hop of a stream. Credit is a promise of memory: of
// `window_blocks` reserved blocks, those not taken may be filled. Kept alive by the
// slots that are taken, so that a slot may outlive the link. Used on the strand.
class IncomingStream : public std::enable_shared_from_this<IncomingStream> {
 public:
  // `send` carries a frame to the link's tail; it is used while the link is up.
  IncomingStream(std::shared_ptr<NodeContext> node, StreamKey key, std::size_t window_blocks,
                 std::function<void(Frame)> send);

  // A new connection: the sender counts its blocks from 0 again.
  void on_up();
  void on_down() { is_up_ = false; }

  // Takes a slot for the block with this hop sequence. The slot is free again when the
  // last reference to the result is gone. Nothing if it is beyond what was granted, or not newer
  // than the last.
  std::shared_ptr<void> take(std::uint64_t hop_sequence, std::size_t bytes);
  // The sender has sent so many blocks; those that did not come are lost.
  void on_credit_request(std::uint64_t sent);

 private:
  void release(std::size_t bytes);
  void grant(bool always);

  std::shared_ptr<NodeContext> node_;
  StreamKey key_;
  std::size_t window_blocks_;
  std::function<void(Frame)> send_;
  bool is_up_ = false;
  std::uint64_t received_ = 0;  // highest hop sequence that came or was lost
  std::size_t taken_ = 0;
  std::uint64_t granted_ = 0;
};

struct IncomingLink {
  std::optional<LinkHandle> handle;
  std::map<StreamKey, std::shared_ptr<IncomingStream>> streams;
};

}  // namespace square
