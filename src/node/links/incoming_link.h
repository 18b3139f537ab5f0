// The head of a link: the credit that this node gives to one neighbour.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "node/context.h"
#include "node/links/ingress_police.h"

namespace square {

// The receiving side of one hop of a stream. Credit is a promise of memory: of
// `window_blocks` reserved blocks, those not taken may be filled. Kept alive by the
// slots that are taken, so that a slot may outlive the link. Used on the strand.
class IncomingStream : public std::enable_shared_from_this<IncomingStream> {
 public:
  // `send` carries a frame to the link's tail; it is used while the link is up.
  IncomingStream(std::shared_ptr<NodeContext> node, std::shared_ptr<IngressPolice> police,
                 const LocalStream& stream, std::function<void(Frame)> send);
  ~IncomingStream();
  IncomingStream(const IncomingStream&) = delete;
  IncomingStream& operator=(const IncomingStream&) = delete;

  // A new connection: the sender counts its blocks from 0 again.
  void on_up();
  void on_down();

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
  std::shared_ptr<IngressPolice> police_;
  FlowShare share_;
  std::optional<FlowId> flow_;  // while up
  StreamKey key_;
  std::size_t window_blocks_;
  std::function<void(Frame)> send_;
  bool is_up_ = false;
  std::uint64_t received_ = 0;  // highest hop sequence that came or was lost
  std::size_t taken_ = 0;
  std::uint64_t waiting_ = 0;  // slots that are free and wait for their turn
  std::uint64_t granted_ = 0;
};

struct IncomingLink {
  std::optional<LinkHandle> handle;
  std::shared_ptr<IngressPolice> police;  // there once a stream was added
  std::map<StreamKey, std::shared_ptr<IncomingStream>> streams;

  void add_stream(const std::shared_ptr<NodeContext>& node, const LocalStream& stream,
                  std::function<void(Frame)> send);
};

}  // namespace square
