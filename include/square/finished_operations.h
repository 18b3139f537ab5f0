// How far a node has come in each collective.
#pragma once

#include <cstdint>
#include <map>

#include "square/ids.h"

namespace square {

// The number of operations of each collective that a node has finished, from the first one on.
using FinishedOperations = std::map<CollectiveId, std::uint64_t>;

}  // namespace square
