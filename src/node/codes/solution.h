// What a destination solves for, into its members' buffers.
#pragma once

#include <cstddef>
#include <vector>

#include "node/codes/generations.h"
#include "node/landing/landing.h"

namespace square {

// Writes the missing blocks of a solution into every destination; the known ones are read from the first.
// Returns those of them that are not what the source says they are, by its checksums or by its seal: somebody
// on the way added wrongly. `opener`: null where blocks are not sealed. Any thread.
std::vector<std::size_t> write_solution(const Generations::Solution& solution, const BlockShape& shape,
                                        const std::vector<std::byte*>& destinations,
                                        const trust::BlockOpener* opener);

}  // namespace square
