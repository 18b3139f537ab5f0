#include "controller/detours.h"

#include <map>
#include <vector>

#include "base/check.h"

namespace square::controller {
namespace {

using Reached = std::vector<bool>;

NodeId node_at(std::size_t index) { return NodeId(static_cast<NodeId::value_type>(index)); }

// Stops as soon as it knows: most ways around a link are short.
bool reaches(const Topology& topology, NodeId from, NodeId to) {
  Reached seen(topology.node_count(), false);
  std::vector<NodeId> found{from};
  seen[from.index()] = true;
  for (std::size_t next = 0; next < found.size(); ++next) {
    for (const LinkId link : topology.out_links(found[next])) {
      const NodeId node = topology.link(link).to;
      if (node == to) return true;
      if (seen[node.index()]) continue;
      seen[node.index()] = true;
      found.push_back(node);
    }
  }
  return false;
}

// What each node reaches, for those that are asked for.
class Reach {
 public:
  explicit Reach(const Topology& topology) : topology_(topology) {}
  const Reached& of(NodeId node) {
    const auto [entry, is_new] = known_.try_emplace(node);
    if (is_new) entry->second = topology_.reachable_from(node);
    return entry->second;
  }

 private:
  const Topology& topology_;
  std::map<NodeId, Reached> known_;
};

struct Pair {
  NodeId from;
  NodeId to;
};

// Members of one collective of which the first reaches the second in the whole topology only.
std::vector<Pair> parted(const Scenario& scenario, Reach& whole, Reach& reduced) {
  std::set<std::vector<NodeId>> memberships;
  for (const CollectiveSpec& collective : scenario.collectives) memberships.insert(collective.members);
  std::vector<Pair> pairs;
  for (const std::vector<NodeId>& members : memberships) {
    for (const NodeId from : members) {
      for (const NodeId to : members) {
        if (whole.of(from)[to.index()] && !reduced.of(from)[to.index()]) pairs.push_back({from, to});
      }
    }
  }
  return pairs;
}

}  // namespace

Topology without_links(const Topology& topology, const std::set<LinkName>& links) {
  Topology reduced;
  for (std::size_t i = 0; i < topology.node_count(); ++i) {
    SQUARE_CHECK(reduced.add_node(topology.node(node_at(i))).is_ok(), "it was a node before");
  }
  for (std::size_t i = 0; i < topology.link_count(); ++i) {
    const TopologyLink& link = topology.link(LinkId(static_cast<LinkId::value_type>(i)));
    if (links.contains({topology.node(link.from).name, topology.node(link.to).name})) continue;
    SQUARE_CHECK(reduced.add_link(link.from, link.to, link.properties).is_ok(), "it was a link before");
  }
  return reduced;
}

std::set<LinkName> detoured(const Scenario& scenario, const std::set<LinkName>& links) {
  const Topology& topology = scenario.topology;
  std::map<LinkName, Pair> ends;  // of those that there are
  for (const LinkName& name : links) {
    const auto from = topology.find_node(name.first);
    const auto to = topology.find_node(name.second);
    if (from && to && topology.find_link(*from, *to)) ends.emplace(name, Pair{*from, *to});
  }
  std::set<LinkName> avoided;
  for (const auto& [name, pair] : ends) avoided.insert(name);
  const Topology rest = without_links(topology, avoided);
  std::vector<LinkName> cuts;  // without a way around
  for (const auto& [name, pair] : ends) {
    if (!reaches(rest, pair.from, pair.to)) cuts.push_back(name);
  }
  if (cuts.empty()) return avoided;
  Reach whole(topology);
  Reach reduced(rest);
  for (const Pair& pair : parted(scenario, whole, reduced)) {
    for (const LinkName& name : cuts) {
      const auto& [from, to] = ends.at(name);
      const bool is_on_way = whole.of(pair.from)[from.index()] && whole.of(to)[pair.to.index()];
      // Before its tail, or behind its head, nothing is missing.
      const bool helps = !reduced.of(pair.from)[to.index()] && !reduced.of(from)[pair.to.index()];
      if (is_on_way && helps) avoided.erase(name);
    }
  }
  return avoided;
}

}  // namespace square::controller
