// A frame that came over a link, with what the node knows of it.
#pragma once

#include <memory>
#include <string_view>

#include "node/landing/landing.h"
#include "node/plan/installed_collective.h"
#include "square/frame.h"

namespace square {

struct Arrival {
  // The frame's epoch, and its stream there.
  std::shared_ptr<const InstalledCollective> plan{};
  const LocalStream* stream = nullptr;
  // The neighbour that sent it: a name that the plan holds, and its place among the stream's
  // parents, or its children if it is one of those.
  std::string_view from{};
  std::size_t place = 0;
  Frame frame;
  // The credit that a block took: given back when the last copy is gone.
  std::shared_ptr<void> guard{};
  // Once it is given back, the neighbour is told of credit: an answer to it would not go alone.
  bool frees_credit = false;
  // A block whose bytes are in the members' buffers already.
  Landing landing{};

  [[nodiscard]] const FrameHeader& header() const { return frame.header; }
  [[nodiscard]] const StreamKey& key() const { return stream->key; }
  [[nodiscard]] std::size_t payload_bytes() const {
    return landing ? landing->size_bytes() : frame.payload.size_bytes();
  }
  // The stream, kept by its plan.
  [[nodiscard]] std::shared_ptr<const LocalStream> shared_stream() const { return {plan, stream}; }
};

}  // namespace square
