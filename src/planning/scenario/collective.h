// One [[collective]] of a scenario.
#pragma once

#include "square/scenario.h"
#include "topology/toml_reader.h"

namespace square {

// The collective that `table` describes, without an id; its nodes are those of `topology`, and
// the policy says what it needs and may have. Errors: INVALID_ARGUMENT with file, line and key.
Result<CollectiveSpec> read_collective(const TomlTable& table, const Topology& topology,
                                       const PolicySpec& policy);

// Whether the collective has a required rate and bounds on latency where the policy wants or
// allows them, and whether those make sense. Errors: INVALID_ARGUMENT.
Status check_demands(const CollectiveSpec& collective, const PolicySpec& policy);

}  // namespace square
