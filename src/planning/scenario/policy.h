// The [policy] of a scenario.
#pragma once

#include <string>
#include <string_view>

#include "square/scenario.h"
#include "topology/toml_reader.h"

namespace square {

// The [policy] of `root`; nodes and links in it are those of `topology`. Errors:
// INVALID_ARGUMENT with file, line and key.
Result<PolicySpec> read_policy(const TomlTable& root, const Topology& topology);

// Errors: INVALID_ARGUMENT naming the key, as a file writes it.
Status check_policy(const PolicySpec& policy, const Topology& topology);

// Is it the policy that knows objectives, bounds on latency and all that is in PolicySpec?
bool is_exact(const PolicySpec& policy);
// What to say to somebody who gives another policy such a part.
std::string only_exact(const PolicySpec& policy, std::string_view part);

}  // namespace square
