#include "square/group.h"

#include <algorithm>

namespace square {

std::string group_label(const std::string& name, std::uint64_t number) {
  return number == 0 ? name : name + "#" + std::to_string(number);
}

CollectiveIdentity identity_of(const GroupCollective& collective) {
  return {collective.op, has_root(collective.op) ? collective.root : Rank(0), collective.members,
          collective.channel};
}

std::vector<Rank> members_on(const GroupSpec& group, const GroupCollective& collective,
                             const std::string& node) {
  std::vector<Rank> found;
  for (std::uint32_t rank = 0; rank < group.nodes.size(); ++rank) {
    const bool takes_part =
        collective.members.empty() || std::ranges::binary_search(collective.members, Rank(rank));
    if (takes_part && group.nodes[rank] == node) found.emplace_back(rank);
  }
  return found;
}

}  // namespace square
