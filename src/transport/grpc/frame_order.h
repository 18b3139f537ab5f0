// Frames that took several channels, in order again, and how far they may run apart.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "square/frame.h"
#include "square/transport.h"

namespace square::rpc {

// What a frame counts in a window: its payload, and what keeping a frame costs at the least.
inline constexpr std::uint64_t kFrameWindowCost = 1024;
constexpr std::uint64_t window_cost(std::size_t payload_bytes) { return payload_bytes + kFrameWindowCost; }

// Numbered frames under way on a link, for each of its channels: twice what a channel carries
// in a round trip, because the news of their arrival takes part of another.
inline constexpr std::uint64_t kWindowPerChannel = 2 * kBytesPerRoundTrip;
// The head reports each time it has put so much in order.
inline constexpr std::uint64_t kDeliveredStep = kBytesPerRoundTrip;

// Tail: the cost of what was numbered and not reported as delivered. Not thread-safe.
class SendWindow {
 public:
  [[nodiscard]] bool has_room(std::size_t channels) const {
    return sent_ - delivered_ < kWindowPerChannel * channels;
  }
  void add(std::size_t payload_bytes) { sent_ += window_cost(payload_bytes); }
  // In all, as the head reports it. False if that is more than was sent or less than before.
  [[nodiscard]] bool set_delivered(std::uint64_t delivered);

 private:
  std::uint64_t sent_ = 0;
  std::uint64_t delivered_ = 0;
};

// Head: holds frames whose forerunners have not come. Not thread-safe.
class FrameOrder {
 public:
  // Errors: DATA_LOSS for a number that came before, and for more held than `channels`
  // channels allow.
  Status put(Frame frame, std::size_t channels);
  // The next frame in order, its link_sequence cleared.
  std::optional<Frame> take();
  // Number 1 was taken: it came behind all that had no number, on the same channel. Later
  // numbers may be here before, on other channels.
  [[nodiscard]] bool has_begun() const { return next_ > 1; }

 private:
  std::map<std::uint64_t, Frame> held_;
  std::uint64_t held_cost_ = 0;
  std::uint64_t next_ = 1;
};

}  // namespace square::rpc
