// Which paths the sessions of a problem may use.
#pragma once

#include <vector>

#include "planning/problem/sessions.h"
#include "square/paths.h"
#include "square/scenario.h"

namespace square::planning {

// "all" refuses more simple paths than this between two nodes.
inline constexpr std::size_t kMaxSimplePaths = 20'000;
// Paths of all sessions and destinations together: columns of the linear program.
inline constexpr std::size_t kMaxPathColumns = 1'000'000;

// P_ij: [session][destination].
using SessionPaths = std::vector<std::vector<std::vector<Path>>>;

// By the scenario's PathChoice. Errors: FAILED_PRECONDITION naming collective, source and
// destination where there is no path; RESOURCE_EXHAUSTED past the bounds above.
Result<SessionPaths> chosen_paths(const Scenario& scenario, const std::vector<Session>& sessions);

// The path to each destination in the session's shortest-path tree; errors as above.
Result<SessionPaths> tree_paths(const Scenario& scenario, const std::vector<Session>& sessions);

// The shortest-path tree of `root`, as the path to each node by NodeId (empty where there
// is none). A node's parent is, among the neighbours one hop nearer to the root, the one
// with the widest path to the node, the smallest sequence of names among equals. So every
// path is widest among the shortest. It may differ from k_shortest_paths() with k = 1 where
// widths tie: those paths are best by name one by one, and may not form a tree.
std::vector<Path> shortest_path_tree(const Topology& topology, NodeId root);

}  // namespace square::planning
