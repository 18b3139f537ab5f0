// How long a link's round trip takes.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>

#include "square/units.h"

namespace square::rpc {

// A ping that is answered late waited behind data, so the estimate is the least of the last
// kSamples. Not thread-safe.
class RoundTripMeter {
 public:
  static constexpr std::size_t kSamples = 60;
  using Time = std::chrono::steady_clock::time_point;

  // Frames were sent: the next tick measures again.
  void note_use() { in_use_ = true; }
  // Asks for a ping unless nothing was sent since the last or one is still under way.
  void tick();
  [[nodiscard]] bool ping_is_due() const { return due_; }
  // A ping leaves now; its number.
  std::uint64_t ping(Time now);
  // The new estimate; nothing for a number that was not asked for.
  std::optional<Duration> pong(std::uint64_t number, Time now);

 private:
  std::array<Duration, kSamples> samples_{};
  std::size_t taken_ = 0;
  std::uint64_t number_ = 0;
  Time left_at_{};
  bool due_ = false;
  bool under_way_ = false;
  bool in_use_ = true;  // the first measurement needs no use
};

}  // namespace square::rpc
