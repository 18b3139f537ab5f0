// What of a plan concerns one tenant, or one node.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "square/controller.h"
#include "square/plan.h"

namespace square::controller {

// The tenant's collectives and what carries them, over all nodes and links; loads are its own, and nothing
// proves what depends on others.
Plan view_of_tenant(const Plan& plan, std::string_view tenant);
// The same of the collectives that the node has a part in, as a member or a relay.
Plan view_of_node(const Plan& plan, std::string_view node);
// Those that the tenant's sessions touch.
std::vector<NodeInformation> nodes_of_tenant(std::vector<NodeInformation> nodes, const Plan* plan,
                                             std::string_view tenant);

}  // namespace square::controller
