// Which server keeps which elements.
#pragma once

#include <string>
#include <vector>

#include "square/v1/parameter_server.pb.h"

namespace square::ps {

struct ServerShare {
  std::string name;
  // Its part of the elements is in proportion; all 0: all as much.
  double capacity = 0;
};

// All elements of the model, one range a server, in the order given. A cut moves to where a tensor ends if
// that changes a share by less than a twentieth of the usual one. A server may get nothing.
v1::PsLayout make_layout(const v1::PsModel& model, const std::vector<ServerShare>& servers);

}  // namespace square::ps
