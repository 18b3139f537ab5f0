// What a node has measured of its links, and what is wrong with them.
#pragma once

#include <string>
#include <vector>

#include "square/clock.h"

namespace square {

struct LinkReport {
  std::string peer;
  Duration round_trip{0};   // 0: not known
  double capacity_bps = 0;  // as a kernel's shaper counts; 0: not known
  bool is_probed = false;   // the capacity, and not seen of a transfer
  TimePoint when{};         // the capacity was measured
};

// A neighbour whose host refuses connections to the neighbour's address.
struct RefusedPeer {
  std::string peer;
  TimePoint since{};
  bool is_heard = false;  // over a link that the neighbour has opened
  friend bool operator==(const RefusedPeer&, const RefusedPeer&) = default;
};

// A relay that loses blocks which it is to pass on, as a source or the root of a sum sees it.
struct LossyRelay {
  std::string relay;
  // Several relays follow one another there: the one that loses blocks may be behind this one.
  bool is_way = false;
  std::string seen{};  // for people
};

// What is wrong with the links of a node, in the place of what it said before.
struct LinkTroubles {
  std::vector<std::string> broken;  // links from the node to these: plans avoid them
  std::vector<RefusedPeer> refused;
  std::vector<LossyRelay> lossy;

  [[nodiscard]] bool is_empty() const { return broken.empty() && refused.empty() && lossy.empty(); }
};

}  // namespace square
