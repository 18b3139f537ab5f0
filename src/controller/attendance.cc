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
  std::vector<std::string> connected;
  std::vector<std::string> arriving;  // of those whom the topology has no links of yet
  for (const NodeInformation& node : nodes) {
    if (!node.connected) continue;
    connected.push_back(node.name);
    if (is_open && (!topology.find_node(node.name) || is_gone(node.name))) arriving.push_back(node.name);
  }
  std::vector<Attendant> all;
  for (const NodeInformation& node : nodes) {
    const Member* const member = members.find(node.name);
    Attendant& added = all.emplace_back();
    added.name = node.name;
    added.address = node.address;
    if (member != nullptr) added.line = member->line;
    if (added.line == nullptr) continue;
    const bool is_arriving = std::ranges::find(arriving, node.name) != arriving.end();
    std::vector<std::string> peers = is_arriving ? connected : arriving;
    std::erase(peers, node.name);
    if (const auto id = topology.find_node(node.name); id && !is_arriving) {
      const std::vector<std::string> known = neighbours(members, topology, *id);
      peers.insert(peers.begin(), known.begin(), known.end());
    }
    added.peers = some_of(std::move(peers), all.size());
  }
  return all;
}

}  // namespace square::controller
