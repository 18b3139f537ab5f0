// What a node's plan gives its links.
#pragma once

#include "collective/examination/json.h"
#include "square/metrics.h"

namespace square::examination {

// The links that leave the node, by peer: capacity, planned rate, round trip.
Json describe_links(const NodeMetrics& metrics);
// What is wrong with them, and which relays lose blocks.
Json describe_troubles(const LinkTroubles& troubles);

}  // namespace square::examination
