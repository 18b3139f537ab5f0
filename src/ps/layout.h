// Which server keeps which elements.
#pragma once

#include <string>
#include <vector>

#include "square/v1/parameter_server.pb.h"

namespace square::ps {

struct ServerShare {
  std::string name;
  // Its part of the elements is in proportion. 0: unknown, as much as the others have in the mean.
  double capacity = 0;
};

// All elements of the model, one range a server, in the order given. A cut moves to where a tensor ends if
// that changes a share by less than a twentieth of the usual one. A server may get nothing.
v1::PsLayout make_layout(const v1::PsModel& model, const std::vector<ServerShare>& servers);
// The same for servers that have a layout, in its order, and newcomers, each put where the fewest elements
// change hands.
v1::PsLayout grow_layout(const v1::PsModel& model, const v1::PsLayout& before,
                         std::vector<ServerShare> servers, const std::vector<ServerShare>& newcomers);

// Null: it has none.
const v1::PsShard* shard_of(const v1::PsLayout& layout, const std::string& server);
// What both have; begin == end: nothing.
v1::PsShard overlap(const v1::PsShard& one, const v1::PsShard& other);

}  // namespace square::ps
