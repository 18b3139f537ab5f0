// K disjoint ways to each terminal, which meet as rarely as they can.
#pragma once

#include <vector>

#include "planning/codes/contents.h"
#include "square/status.h"

namespace square::planning {

// By terminal, found in the given order of terminals (positions, each once). The ways of a terminal share no
// edge; where those of several use one, they mostly bring the same there, so that it copies; only where
// nothing else is left it adds. Terminal after terminal, each by a flow of least cost: an edge that carries
// what comes anyway costs nothing, a new one 1, a sum more than all edges together. No edge feeds itself,
// however long the circle. Errors: NOT_FOUND where a terminal has fewer than K ways, ABORTED where it has
// none without a circle.
Result<std::vector<TerminalWays>> disjoint_ways(const CodeProblem& problem, const EdgeGraph& graph,
                                                const std::vector<std::size_t>& order);

}  // namespace square::planning
