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

bool is_connected(const Members& members, const std::string& name) {
  const Member* const member = members.find(name);
  return member != nullptr && member->line != nullptr;
}

// By the topology's links.
std::vector<std::string> neighbours(const Members& members, const Topology& topology, NodeId node) {
  std::vector<std::string> peers;
  for (const LinkId link : topology.out_links(node)) {
    const std::string& peer = topology.node(topology.link(link).to).name;
    if (is_connected(members, peer)) peers.push_back(peer);
  }
  return peers;
}

}  // namespace

std::vector<Attendant> take_attendance(const Members& members, const Topology& topology, bool is_open,
                                       const std::function<bool(const std::string&)>& is_gone) {
  const std::vector<NodeInformation> nodes = members.list(topology, is_gone);
  const auto is_arriving = [&](const std::string& name) {
    return is_open && (!topology.find_node(name) || is_gone(name));
  };
  std::vector<Attendant> all;
  for (const NodeInformation& node : nodes) {
    const Member* const member = members.find(node.name);
    Attendant& added = all.emplace_back();
    added.name = node.name;
    added.address = node.address;
    if (member != nullptr) added.line = member->line;
    if (added.line == nullptr) continue;
    std::vector<std::string> peers;
    if (const auto id = topology.find_node(node.name)) peers = neighbours(members, topology, *id);
    for (const NodeInformation& other : nodes) {
      if (other.name == node.name || !is_connected(members, other.name)) continue;
      if (is_arriving(node.name) || is_arriving(other.name)) peers.push_back(other.name);
    }
    added.peers = some_of(std::move(peers), all.size());
  }
  return all;
}

}  // namespace square::controller
