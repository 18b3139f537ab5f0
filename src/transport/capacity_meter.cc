#include "transport/capacity_meter.h"

#include <algorithm>
#include <utility>

namespace square {

std::optional<double> CapacityMeter::add(const Sample& sample) {
  const std::optional<Sample> before = std::exchange(last_, sample);
  if (!before) return std::nullopt;
  const Duration step = sample.when - before->when;
  if (!sample.is_limited || step > kMaxCapacityStep || step <= Duration(0)) {
    open_ = {};
    count_ = 0;
    return std::nullopt;
  }
  open_.bits += sample.delivered_bits - before->delivered_bits;
  open_.seconds += to_seconds(step);
  const double least = std::max(to_seconds(least_window_), round_trips_ * to_seconds(sample.round_trip));
  if (open_.seconds < least) return std::nullopt;
  windows_[count_ % kCapacityWindows] = std::exchange(open_, {});
  ++count_;
  return estimate();
}

std::optional<double> CapacityMeter::estimate() const {
  if (count_ < kCapacityWindows) return std::nullopt;
  Window all;
  for (const Window& window : windows_) {
    all.bits += window.bits;
    all.seconds += window.seconds;
  }
  const auto [least, most] = std::ranges::minmax(windows_, {}, &Window::rate);
  if (!(least.bits > 0) || most.rate() > kMaxCapacitySpread * least.rate()) return std::nullopt;
  return all.rate();
}

}  // namespace square
