// Who is there, and whom each is to reach.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "controller/members.h"

namespace square::controller {

// Of a node with more neighbours that are there, so many are named: others than those of the node before it.
inline constexpr std::size_t kMaxPeers = 64;

struct Attendant {
  std::string name;
  std::string address;
  std::shared_ptr<NodeLine> line;  // null: not connected
  std::vector<std::string> peers;  // connected, in the order of the topology, then others
};

// The nodes as Members::list(), with those that the topology's links lead to. `is_open`: the topology is made
// of who joined, and whom it has not yet is everybody's neighbour.
std::vector<Attendant> take_attendance(const Members& members, const Topology& topology, bool is_open,
                                       const std::function<bool(const std::string&)>& is_gone);

}  // namespace square::controller
