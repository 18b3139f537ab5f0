#include "transport/pacing/pacer.h"

#include <algorithm>

namespace square {

void Pacer::charge(double bits, TimePoint now) {
  if (rate_bps_ == kUnlimited) return;
  ready_at_ = std::max(ready_at_, now - kPacerCatchUp) + from_seconds(bits / rate_bps_);
}

}  // namespace square
