// Levels that nodes alone decide, whatever the trees: by what each must send and receive itself, and by all
// copies together.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "planning/exact/proof.h"

namespace square::planning {

// What a group takes of the limits of nodes at level one, whoever makes its copies.
struct HubNeed {
  // The root of a multicast sends once, who receives it receives once; of a sum likewise, turned round; a
  // member of an all-reduce does both once.
  std::vector<std::pair<int, double>> sends;
  std::vector<std::pair<int, double>> receives;
  double copies = 0.0;  // one for each member that is reached
};

// By group. Nothing where an all-reduce is not of a sum to and a multicast from each of its members.
std::optional<std::vector<HubNeed>> hub_needs(const Instance& instance);

struct HubLevels {
  std::vector<double> rate;  // by group
  std::vector<ProvenLevel> levels;
};

// Progressive filling (Bertsekas and Gallager 1992, section 6.5): who must load the first node that is full
// stops, then the next, and the rest when all that nodes may send (or receive) together is used up. Each
// level is a bound; whether it can be had, trees must show. Nothing where some group meets no limit.
std::optional<HubLevels> hub_levels(const Instance& instance, const std::vector<HubNeed>& needs,
                                    bool sending);

}  // namespace square::planning
