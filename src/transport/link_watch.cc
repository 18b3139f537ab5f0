#include "transport/link_watch.h"

#include <algorithm>
#include <utility>

namespace square {

bool LinkWatch::note_heard() {
  has_spoken_ = true;
  owes_ = due_ || under_way_;
  silence_ = Duration(0);
  return std::exchange(is_suspected_, false);
}

bool LinkWatch::look(TimePoint now, bool takes) {
  const Duration step = now - looked_at_;
  looked_at_ = now;
  if (!owes_ || takes) silence_ = Duration(0);
  const bool owed_all_along = owed_ && owes_ && !has_spoken_;
  if (owed_all_along && !takes && step <= 2 * kWatchInterval) silence_ += step;
  const bool was_suspected = is_suspected_;
  is_suspected_ = is_suspected_ || silence_ >= patience();
  const bool is_quiet = !std::exchange(has_spoken_, false);
  const bool is_time = is_quiet || now - left_at_ >= kRoundTripInterval;
  if (in_use_ && is_time && !due_ && !under_way_) {
    in_use_ = false;
    due_ = owes_ = true;
  }
  owed_ = owes_;
  return is_suspected_ && !was_suspected;
}

Duration LinkWatch::patience() const {
  return std::max({kMinSuspicionTime, 4 * least(), smoothed_ + 4 * deviation_});
}

std::uint64_t LinkWatch::ping(TimePoint now) {
  due_ = false;
  under_way_ = owes_ = true;
  left_at_ = now;
  return ++number_;
}

std::optional<Duration> LinkWatch::pong(std::uint64_t number, TimePoint now) {
  if (!under_way_ || number != number_) return std::nullopt;
  under_way_ = false;
  owes_ = false;
  const Duration sample = now - left_at_;
  samples_[taken_ % kSamples] = sample;
  // As TCP does it (RFC 6298).
  const Duration off = smoothed_ < sample ? sample - smoothed_ : smoothed_ - sample;
  deviation_ = taken_ == 0 ? sample / 2 : (3 * deviation_ + off) / 4;
  smoothed_ = taken_ == 0 ? sample : (7 * smoothed_ + sample) / 8;
  ++taken_;
  return least();
}

Duration LinkWatch::least() const {
  if (taken_ == 0) return Duration(0);
  return *std::min_element(samples_.begin(), samples_.begin() + std::min(taken_, kSamples));
}

}  // namespace square
