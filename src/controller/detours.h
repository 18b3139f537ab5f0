// Which links a plan can do without.
#pragma once

#include <set>
#include <string>
#include <utility>

#include "square/scenario.h"
#include "square/topology.h"

namespace square::controller {

// By the names of its ends, as data flows.
using LinkName = std::pair<std::string, std::string>;

// The topology without these links; names that it does not have are ignored. Nodes keep their ids.
Topology without_links(const Topology& topology, const std::set<LinkName>& links);

// Those of the links that all collectives of the scenario can do without: where members could reach one
// another only over some of them, these are left out.
std::set<LinkName> detoured(const Scenario& scenario, const std::set<LinkName>& links);

}  // namespace square::controller
