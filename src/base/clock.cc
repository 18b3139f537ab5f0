#include "square/clock.h"

namespace square {
namespace {

class SteadyClock final : public Clock {
 public:
  TimePoint now() const override { return TimePoint(std::chrono::steady_clock::now().time_since_epoch()); }
};

}  // namespace

const Clock& steady_clock() {
  static const SteadyClock clock;
  return clock;
}

}  // namespace square
