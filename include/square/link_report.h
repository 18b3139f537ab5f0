// What a node has measured of a link that it sends on.
#pragma once

#include <string>

#include "square/clock.h"

namespace square {

struct LinkReport {
  std::string peer;
  Duration round_trip{0};   // 0: not known
  double capacity_bps = 0;  // as a kernel's shaper counts; 0: not known
  bool is_probed = false;   // the capacity, and not seen of a transfer
  TimePoint when{};         // the capacity was measured
};

}  // namespace square
