// What a node's plan gives its links.
#pragma once

#include "collective/examination/json.h"
#include "square/metrics.h"

namespace square::examination {

// The links that leave the node, by peer: capacity, planned rate, round trip.
Json describe_links(const NodeMetrics& metrics);

}  // namespace square::examination
