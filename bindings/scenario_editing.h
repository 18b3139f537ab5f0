// Changes of a scenario in place: a planner goes on from its last plan.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "collective.h"
#include "square/scenario.h"
#include "whole_number.h"

namespace square::python {

// Adds it with the largest id plus one, and its tenant with weight 1 where there is none.
// Raises what check_scenario() says; the scenario stays as it was then.
std::uint32_t add_collective(Scenario& scenario, const CollectiveText& text);
// Raises NotFoundError. The others keep their ids.
void remove_collective(Scenario& scenario, Count<"id"> id);
// Both raise NotFoundError for a collective that is not there.
void set_size(Scenario& scenario, Count<"id"> id, Size<"size_bytes"> size_bytes);
void set_required_rate(Scenario& scenario, Count<"id"> id, std::optional<double> required_bps);
// Takes the node out of the topology with its links, out of every collective and out of the
// policy. A collective that had it for root, or that has fewer than 2 members then, goes too.
// Raises NotFoundError.
void remove_node(Scenario& scenario, const std::string& name);

}  // namespace square::python
