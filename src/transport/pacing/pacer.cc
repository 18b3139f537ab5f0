#include "transport/pacing/pacer.h"

#include <algorithm>

#include "base/check.h"

namespace square {
namespace {

// The longest that one charge may hold up what follows, however low the rate.
constexpr Duration kMaxWait = std::chrono::hours(1);

}  // namespace

void Pacer::set_rate(double rate_bps, TimePoint now) {
  if (rate_bps_ != kUnlimited && rate_bps != kUnlimited && ready_at_ > now) {
    const double bits = to_seconds(ready_at_ - now) * rate_bps_;
    ready_at_ = now + std::min(kMaxWait, from_seconds(bits / rate_bps));
  }
  rate_bps_ = rate_bps;
}

void Pacer::begin(TimePoint now) {
  if (senders_++ == 0) ready_at_ = std::max(ready_at_, now - kPacerBurst);
}

void Pacer::end() {
  SQUARE_CHECK(senders_ > 0, "only who has begun can end");
  --senders_;
}

void Pacer::charge(double bits, TimePoint now) {
  if (rate_bps_ == kUnlimited) return;
  ready_at_ = std::max(ready_at_, now - kPacerCatchUp) + std::min(kMaxWait, from_seconds(bits / rate_bps_));
  ready_at_ = std::min(ready_at_, now + kMaxWait);
}

}  // namespace square
