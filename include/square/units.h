// Units. Inside the library rates are bits per second and time is std::chrono;
// files and screens show Mbit/s, milliseconds and seconds.
#pragma once

#include <chrono>
#include <limits>

namespace square {

using Duration = std::chrono::nanoseconds;

// A capacity or limit that is not there: an unmeasured link, a node without a limit.
inline constexpr double kUnlimited = std::numeric_limits<double>::infinity();

inline constexpr double kBitsPerByte = 8.0;

constexpr double mbps_to_bps(double mbps) { return mbps * 1e6; }
constexpr double bps_to_mbps(double bps) { return bps / 1e6; }

constexpr double to_seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }
// Rounds to the nearest nanosecond; values past what a Duration holds become its maximum.
constexpr Duration from_seconds(double seconds) {
  constexpr double kMaxSeconds = 9.2e9;
  if (seconds >= kMaxSeconds) return Duration::max();
  return Duration(static_cast<Duration::rep>(seconds * 1e9 + 0.5));
}

}  // namespace square
