// At most so many streams a session, at the price of rate.
#pragma once

#include "planning/exact/streams.h"

namespace square::planning {

// At most `count` trees a demand, and the rates that they carry together, max-min fair. Of two choices the
// one with the higher least rate: of the trees in `carried` those that are left when the thinnest go, half of
// those too many at a time; and trees of equal parts, each of which was led anew, several times, where the
// others leave most. Errors: as Master::solve().
Result<Carried> carry_by_few(const Instance& instance, const Carried& carried, std::size_t count);

}  // namespace square::planning
