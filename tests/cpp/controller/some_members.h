// Collectives among some members of a group.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "square/group.h"

namespace square::test {

inline GroupCollective message(std::uint32_t from, std::uint32_t to, std::uint32_t channel = 0) {
  GroupCollective collective;
  collective.root = Rank(from);
  collective.members = {Rank(std::min(from, to)), Rank(std::max(from, to))};
  collective.channel = channel;
  return collective;
}

inline GroupCollective among(CollectiveOp op, std::uint32_t root, const std::vector<std::uint32_t>& members) {
  GroupCollective collective;
  collective.op = op;
  collective.root = Rank(root);
  for (const std::uint32_t rank : members) collective.members.emplace_back(rank);
  return collective;
}

inline GroupSpec group_of(const std::vector<GroupCollective>& collectives,
                          const std::vector<std::string>& nodes = {"a", "b", "c"}) {
  return {"g", "alice", nodes, collectives};
}

}  // namespace square::test
