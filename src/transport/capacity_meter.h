// What a link carries, from what its tail sees of transfers that the network alone slows down.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "square/clock.h"
#include "square/units.h"

namespace square {

// Times of measurement: a look of the link's watch each, or a round trip where that is longer; an estimate is
// over the last so many, at least a second, none of which differs much from the others: what is still
// growing, stalls or comes in bursts says nothing yet.
inline constexpr std::size_t kCapacityWindows = 4;
inline constexpr Duration kMinCapacityWindow = std::chrono::milliseconds(240);
inline constexpr double kMaxCapacitySpread = 1.25;
// Who looks so late did not have the processor, nor perhaps had TCP.
inline constexpr Duration kMaxCapacityStep = std::chrono::milliseconds(320);

// Not thread-safe.
class CapacityMeter {
 public:
  // Windows of at least so long, and of so many round trips.
  explicit CapacityMeter(Duration least_window = kMinCapacityWindow, double round_trips = 1)
      : least_window_(least_window), round_trips_(round_trips) {}

  struct Sample {
    TimePoint when{};
    // Bits that the peer's side has taken in all, as the wire carries them.
    double delivered_bits = 0;
    Duration round_trip{0};
    // Since the sample before the network alone kept more from leaving: there was always more.
    bool is_limited = false;
  };
  // What the link carries, bits per second, once that is known: with every time of measurement anew.
  std::optional<double> add(const Sample& sample);

 private:
  struct Window {
    double bits = 0;
    double seconds = 0;
    [[nodiscard]] double rate() const { return bits / seconds; }
  };
  [[nodiscard]] std::optional<double> estimate() const;

  Duration least_window_;
  double round_trips_;
  std::optional<Sample> last_;
  Window open_;
  std::array<Window, kCapacityWindows> windows_{};
  std::size_t count_ = 0;  // in a row
};

}  // namespace square
