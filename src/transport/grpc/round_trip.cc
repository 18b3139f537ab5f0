#include "transport/grpc/round_trip.h"

#include <algorithm>

namespace square::rpc {

void RoundTripMeter::tick() {
  if (under_way_ || !in_use_) return;
  in_use_ = false;
  due_ = true;
}

std::uint64_t RoundTripMeter::ping(Time now) {
  due_ = false;
  under_way_ = true;
  left_at_ = now;
  return ++number_;
}

std::optional<Duration> RoundTripMeter::pong(std::uint64_t number, Time now) {
  if (!under_way_ || number != number_) return std::nullopt;
  under_way_ = false;
  samples_[taken_ % kSamples] = now - left_at_;
  ++taken_;
  return *std::min_element(samples_.begin(), samples_.begin() + std::min(taken_, kSamples));
}

}  // namespace square::rpc
