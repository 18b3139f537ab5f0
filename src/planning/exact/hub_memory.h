// What a plan by hubs leaves for the next.
#pragma once

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "square/ids.h"

namespace square::planning {

// Who made whose copies in a plan: where the next one begins. By a collective's session, the nodes and their
// parts; of an all-reduce its roots and their shares, under its first session. Good for one overlay.
struct HubMemory {
  struct Parts {
    std::vector<int> nodes;
    std::vector<double> parts;
  };
  std::map<std::pair<CollectiveId, std::size_t>, Parts> by_session;
};

}  // namespace square::planning
