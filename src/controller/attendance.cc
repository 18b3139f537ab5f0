#include "controller/attendance.h"

#include <algorithm>
#include <utility>

namespace square::controller {
namespace {

// A part that differs from node to node, so that every node is named by some.
std::vector<std::string> some_of(std::vector<std::string> peers, std::size_t node) {
  if (peers.size() <= kMaxPeers) return peers;
  std::ranges::rotate(peers, peers.begin() + static_cast<std::ptrdiff_t>(node % peers.size()));
  peers.resize(kMaxPeers);
  return peers;
}

}  // namespace

std::vector<Attendant> take_attendance(const Members& members, const Topology& topology,
                                       const std::function<bool(const std::string&)>& is_gone) {
  std::vector<Attendant> all;
  for (const NodeInformation& node : members.list(topology, is_gone)) {
    const Member* const member = members.find(node.name);
    Attendant& added = all.emplace_back();
    added.name = node.name;
    added.address = node.address;
    if (member != nullptr) added.line = member->line;
    const auto id = topology.find_node(node.name);
    if (!id || added.line == nullptr) continue;
    std::vector<std::string> peers;
    for (const LinkId link : topology.out_links(*id)) {
      const std::string& peer = topology.node(topology.link(link).to).name;
      const Member* const there = members.find(peer);
      if (there != nullptr && there->line != nullptr) peers.push_back(peer);
    }
    added.peers = some_of(std::move(peers), all.size());
  }
  return all;
}

}  // namespace square::controller
