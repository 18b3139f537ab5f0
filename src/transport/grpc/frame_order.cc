#include "transport/grpc/frame_order.h"

#include <fmt/format.h>

#include <utility>

namespace square::rpc {

bool SendWindow::set_delivered(std::uint64_t delivered) {
  if (delivered > sent_ || delivered < delivered_) return false;
  delivered_ = delivered;
  return true;
}

Status FrameOrder::put(Frame frame, std::size_t channels) {
  const std::uint64_t sequence = frame.header.link_sequence;
  if (sequence < next_) {
    return data_loss(fmt::format("frame {} of the link came again, {} is next", sequence, next_));
  }
  const std::uint64_t cost = window_cost(frame.payload.size_bytes());
  // An honest tail begins a frame while there is room for less than it: one frame over.
  const std::uint64_t limit = kWindowPerChannel * channels + window_cost(kMaxPayloadBytes);
  if (held_cost_ + cost > limit) {
    return data_loss(fmt::format("{} bytes of frames wait for frame {} of the link, the limit is {}",
                                 held_cost_ + cost, next_, limit));
  }
  if (!held_.emplace(sequence, std::move(frame)).second) {
    return data_loss(fmt::format("frame {} of the link came twice", sequence));
  }
  held_cost_ += cost;
  return Status::ok();
}

std::optional<Frame> FrameOrder::take() {
  const auto first = held_.begin();
  if (first == held_.end() || first->first != next_) return std::nullopt;
  Frame frame = std::move(first->second);
  held_.erase(first);
  held_cost_ -= window_cost(frame.payload.size_bytes());
  ++next_;
  frame.header.link_sequence = 0;
  return frame;
}

}  // namespace square::rpc
