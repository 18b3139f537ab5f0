#include "planning/paths/feasible_paths.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/spending.h"

namespace square::planning {
namespace {

Status no_path(const Scenario& scenario, const Session& session, NodeId destination) {
  return failed_precondition(
      fmt::format("{}: no path leads from {} to {}; add links or leave the node out of the members",
                  describe(scenario.collectives[session.collective]),
                  scenario.topology.node(session.root).name, scenario.topology.node(destination).name));
}

std::size_t default_path_count(const std::vector<Session>& sessions) {
  std::size_t pairs = 0;
  for (const Session& session : sessions) pairs += session.destinations.size();
  return std::clamp(kDefaultPathBudget / std::max<std::size_t>(1, pairs), kMinDefaultPaths, kMaxDefaultPaths);
}

Result<std::vector<Path>> feasible(const Topology& topology, const PathChoice& choice, NodeId source,
                                   NodeId destination) {
  switch (choice.kind) {
    case PathKind::kShortest: return k_shortest_paths(topology, source, destination, choice.k);
    case PathKind::kWidest: return k_widest_paths(topology, source, destination, choice.k);
    case PathKind::kAll: break;
  }
  return all_simple_paths(topology, source, destination, kMaxSimplePaths);
}

bool names_before(const Topology& topology, const Path& a, const Path& b) {
  return std::lexicographical_compare(
      a.nodes.begin(), a.nodes.end(), b.nodes.begin(), b.nodes.end(),
      [&](NodeId x, NodeId y) { return topology.node(x).name < topology.node(y).name; });
}

}  // namespace

Result<SessionPaths> chosen_paths(const Scenario& scenario, const std::vector<Session>& sessions) {
  const Phase phase("looking for paths");
  std::map<std::pair<NodeId, NodeId>, std::vector<Path>> known;
  std::size_t columns = 0;
  PathChoice choice = scenario.policy.paths;
  if (choice.k == 0) choice.k = default_path_count(sessions);
  SessionPaths all;
  for (const Session& session : sessions) {
    auto& paths = all.emplace_back();
    for (const NodeId destination : session.destinations) {
      look_at_budget();
      auto& entry = known[{session.root, destination}];
      if (entry.empty()) {
        SQUARE_ASSIGN_OR_RETURN(entry, feasible(scenario.topology, choice, session.root, destination));
      }
      if (entry.empty()) return no_path(scenario, session, destination);
      columns += entry.size();
      if (columns > kMaxPathColumns) {
        return resource_exhausted(fmt::format(
            "the plan needs more than {} paths with paths = \"{}\"; ask for fewer paths a destination",
            kMaxPathColumns, to_string(scenario.policy.paths)));
      }
      paths.push_back(entry);
    }
  }
  return all;
}

Result<SessionPaths> tree_paths(const Scenario& scenario, const std::vector<Session>& sessions) {
  std::map<NodeId, std::vector<Path>> trees;
  SessionPaths all;
  for (const Session& session : sessions) {
    auto& tree = trees[session.root];
    if (tree.empty()) tree = shortest_path_tree(scenario.topology, session.root);
    auto& paths = all.emplace_back();
    for (const NodeId destination : session.destinations) {
      look_at_budget();
      const Path& path = tree[destination.index()];
      if (path.links.empty()) return no_path(scenario, session, destination);
      paths.push_back({path});
    }
  }
  return all;
}

std::vector<Path> shortest_path_tree(const Topology& topology, NodeId root) {
  std::vector<Path> best(topology.node_count());
  best[root.index()].nodes = {root};
  std::vector<NodeId> layer = {root};
  while (!layer.empty()) {
    std::map<NodeId, Path> next;
    for (const NodeId node : layer) {
      for (const LinkId link : topology.out_links(node)) {
        const TopologyLink& properties = topology.link(link);
        if (!best[properties.to.index()].nodes.empty()) continue;
        Path path = best[node.index()];
        path.nodes.push_back(properties.to);
        path.links.push_back(link);
        path.width_bps = std::min(path.width_bps, properties.properties.capacity_bps);
        const auto [entry, is_new] = next.try_emplace(properties.to, path);
        Path& known = entry->second;
        if (is_new) continue;
        if (path.width_bps > known.width_bps ||
            (path.width_bps == known.width_bps && names_before(topology, path, known))) {
          known = std::move(path);
        }
      }
    }
    layer.clear();
    for (auto& [node, path] : next) {
      best[node.index()] = std::move(path);
      layer.push_back(node);
    }
  }
  return best;
}

}  // namespace square::planning
