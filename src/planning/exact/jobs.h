// Collectives that follow one another.
#pragma once

#include "planning/exact/solution.h"

namespace square::planning {

// Whether some job has several turns.
bool has_sequences(const Problem& problem);

// As solve_fair() for one turn at a time of each job. What a job may use is all there is, where there is no
// other; else what its collectives would load if all ran at once, and a part of the rest by its weight; jobs
// of the same nodes share theirs by weight. In that every turn is planned alone, so that it carries the most
// that the job's part allows. Jobs of one turn keep what they have beside all
// others, if none of the same nodes has several. `problem` is the
// instance's. Levels are proven where there is one job. Errors: as solve_fair().
Result<ExactSolution> solve_jobs(const Problem& problem, const Instance& instance, bool streams,
                                 ExactMemory* memory);

}  // namespace square::planning
