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

// Does the policy know objectives, bounds on latency and all that is in PolicySpec?
bool meets_demands(const PolicySpec& policy);
// What to say to somebody who gives another policy such a part.
Status meets_no_demands(const PolicySpec& policy, std::string_view part);
// The same where nobody names a policy, and `key` is for others than the default.
Status needs_named_policy(const PolicySpec& policy, std::string_view key);

}  // namespace square
