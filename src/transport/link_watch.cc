#include "transport/link_watch.h"

#include <algorithm>
#include <utility>

namespace square {

bool LinkWatch::note_heard() {
  has_spoken_ = true;
  silence_ = Duration(0);
  const bool was_suspected = std::exchange(is_suspected_, false);
  // What waited says nothing: the round trip is measured anew.
  if (was_suspected && !under_way_) due_ = true;
  owes_ = due_ || under_way_;
  return was_suspected;
}

bool LinkWatch::look(TimePoint now, bool takes) {
  const Duration step = now - looked_at_;
  looked_at_ = now;
  if (!owes_ || takes) silence_ = Duration(0);
  const bool owed_all_along = owed_ && owes_ && !has_spoken_;
  const bool is_late = step > kLateLook;
  if (owed_all_along && !takes && !is_late) silence_ += step;
  const bool was_suspected = is_suspected_;
  is_suspected_ = is_suspected_ || silence_ >= patience();
  has_waited_ = has_waited_ || (under_way_ && (is_suspected_ || is_late));
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
  return std::max({kMinSuspicionTime, 4 * std::max(least(), doubtful_), smoothed_ + 4 * deviation_});
}

std::uint64_t LinkWatch::ping(TimePoint now) {
  due_ = false;
  under_way_ = owes_ = true;
  has_waited_ = is_suspected_;
  left_at_ = now;
  return ++number_;
}

std::optional<Duration> LinkWatch::pong(std::uint64_t number, TimePoint now) {
  if (!under_way_ || number != number_) return std::nullopt;
  under_way_ = false;
  const Duration sample = now - left_at_;
  // The looks are overdue: the watcher was away while it waited.
  const bool has_waited = std::exchange(has_waited_, false) || now - looked_at_ > kLateLook;
  due_ = has_waited;
  owes_ = due_;
  if (has_waited) {
    doubt(sample);
    return std::nullopt;
  }
  learn(sample);
  return least();
}

// Pauses of a peer differ; a route that has become longer does not.
void LinkWatch::doubt(Duration sample) {
  const Duration off = waited_ < sample ? sample - waited_ : waited_ - sample;
  alike_ = off <= sample / 8 ? alike_ + 1 : 1;
  waited_ = sample;
  if (taken_ == 0 || alike_ >= kAlikeWaits) doubtful_ = sample;
}

// As TCP does it (RFC 6298), but for outliers.
void LinkWatch::learn(Duration sample) {
  alike_ = 0;
  if (sample < doubtful_ / 2) doubtful_ = Duration(0);
  samples_[taken_ % kSamples] = sample;
  if (taken_++ == 0) {
    smoothed_ = sample;
    deviation_ = std::min(sample / 2, kLeastDeviation);
    return;
  }
  const Duration usual = std::max(deviation_, kLeastDeviation);
  // A round trip that is shorter than before is no reason for more patience, but for less.
  const Duration off = smoothed_ < sample ? std::min(sample - smoothed_, kMostDeviations * usual)
                                          : std::min(smoothed_ - sample, usual / kMostDeviations);
  deviation_ = (3 * deviation_ + off) / 4;
  smoothed_ = (7 * smoothed_ + sample) / 8;
}

Duration LinkWatch::least() const {
  if (taken_ == 0) return Duration(0);
  return *std::min_element(samples_.begin(), samples_.begin() + std::min(taken_, kSamples));
}

}  // namespace square
