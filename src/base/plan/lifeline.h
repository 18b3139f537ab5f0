// Streams for shares of an all-reduce that a plan gives nothing to, and for sessions that only code.
//
// Plans may divide a buffer among other roots than the plan before did. An all-reduce that is
// under way keeps its shares, and needs a way for each of them under every later plan, or the
// plan that it began under could never go. A session that only codes needs a tree for what was lost: a block
// alone is no generation.
#pragma once

#include <memory>

#include "square/plan.h"

namespace square {

// Of the tree's smallest capacity: next to nothing as a guarantee; idle capacity is lent.
inline constexpr double kLifelinePart = 0.001;
// Of an unlimited link.
inline constexpr double kLifelineCapacityBps = 1e9;

// `plan`, where each share without a stream, and each coded session without a tree, has one over shortest
// paths. Equal plans give equal results: all nodes agree. A share whose members cannot be reached stays as it
// is.
std::shared_ptr<const Plan> with_lifelines(std::shared_ptr<const Plan> plan);

}  // namespace square
