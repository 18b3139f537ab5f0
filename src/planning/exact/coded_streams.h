// From coded subgraphs of the linear program to codes that streams can carry.
#pragma once

#include <optional>
#include <vector>

#include "planning/exact/fairness.h"
#include "square/plan.h"

namespace square::planning {

// For each coded subgraph that carries something in `rates`, which are a program's over the columns of
// `coded`, one with a code: in whole parts, and so that each terminal can decode. Where ways would feed one
// another in a circle the subgraph is looked for again under the duals of its group's level, without a link
// of the circle. A subgraph for which there is no code, or that may not have one (of a reduce, of a share of
// an all-reduce), is left out. Errors: as Generation::run().
Result<std::vector<Column>> coded_columns(const Generation& coded, const FairRates& rates, FieldKind field);

// The cheapest code of a demand with redundancy that was found under these costs of links; nothing where
// there is none.
std::optional<Column> redundant_column(const Instance& instance, std::size_t demand,
                                       const std::vector<double>& link_cost);

// Appends the streams of a code of this rate, and the code.
void write_code(const DemandGraph& graph, const CodeDesign& design, double rate_bps, PlanSession& session);

}  // namespace square::planning
