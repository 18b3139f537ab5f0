// How the topology of a running controller changes. Nodes keep their ids.
#pragma once

#include <set>
#include <string>

#include "square/status.h"
#include "square/topology.h"

namespace square::controller {

// `next` with the nodes of `now` first and in their order. Errors: INVALID_ARGUMENT naming a node
// of `now` that `next` lacks.
Result<Topology> replace_topology(const Topology& now, const Topology& next);

// For an overlay without a topology of its own: nodes that are `gone` lose their links; nodes that
// `arrived` are added and, unless they have links, get unlimited ones to and from every node that is
// not gone. Errors: RESOURCE_EXHAUSTED.
Result<Topology> remesh(const Topology& now, const std::set<std::string>& arrived,
                        const std::set<std::string>& gone);

}  // namespace square::controller
