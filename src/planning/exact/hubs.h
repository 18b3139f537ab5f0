// Straight to one member of each session, and from there to all others: where the copies can be shared so
// that all nodes are full, by arithmetic.
#pragma once

#include <optional>

#include "planning/exact/hub_levels.h"
#include "planning/exact/hub_memory.h"
#include "planning/exact/streams.h"

namespace square::planning {

struct HubsAnswer {
  HubLevels levels;
  Carried carried;
};

// A bit of a session is copied for each member that it reaches, whatever the trees. What nodes must send
// themselves bounds levels, and so does all that they may send together (hub_levels()): what one must send is
// little of all; who makes the other copies is free, and a tree in which the root sends to one member, and
// that one to all others, has them made there. balance() finds who makes them for which session so that no
// node sends more than it may: then nothing betters the levels. So it is where many groups share the limits
// of nodes, and links have more than those leave to them. The same for what they may receive.
//
// Nothing where there are no such parts, where a link or the limit of the other direction does not carry
// them, or where there is a budget, a bound on latency or redundancy. Begins where `memory`, if there is one,
// left off, and writes down where it ends. Thread-safe, but for the memory.
std::optional<HubsAnswer> carry_by_hubs(const Instance& instance, HubMemory* memory);

}  // namespace square::planning
