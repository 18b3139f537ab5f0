#include "planning/square/streams.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"
#include "planning/packing/tree_packing.h"

namespace square::planning {
namespace {

// A link that carries less than this part of the session's rate is not used.
constexpr double kNoSupport = 1e-7;

// The part of the overlay that a session uses, as a graph of its own.
class Support {
 public:
  // `room_bps`: what the session may put on each link.
  Support(const Problem& problem, std::size_t session, const Allocation& allocation,
          std::map<LinkId, double> room_bps)
      : session_(problem.sessions[session]),
        paths_(problem.paths[session]),
        allocation_(allocation),
        room_bps_(std::move(room_bps)) {
    number_.assign(problem.topology().node_count(), -1);
    for (const auto& [link, rate] : room_bps_) {
      if (rate > kNoSupport * allocation.rate_bps) links_.push_back(link);
    }
    keep_useful(problem.topology());
  }

  [[nodiscard]] PackingRequest request(const Topology& topology) const {
    PackingRequest request{Digraph(static_cast<int>(nodes_.size())), number(session_.root), {}, {}, {}, {}};
    for (const NodeId destination : session_.destinations) request.terminals.push_back(number(destination));
    for (const LinkId link : links_) {
      request.graph.add_arc(number(topology.link(link).from), number(topology.link(link).to));
      request.capacity.push_back(std::min(1.0, room_bps_.at(link) / allocation_.rate_bps));
    }
    add_seeds(request);
    return request;
  }

  // The limits of nodes in `room` that could bind.
  void add_limits(const Network& room, PackingRequest& request) const {
    const auto limit = [&](const std::vector<int>& arcs, double limit_bps) {
      double all = 0.0;
      for (const int arc : arcs) all += request.capacity[arc];
      const double capacity = limit_bps / allocation_.rate_bps;
      if (capacity < all) request.limits.push_back({arcs, capacity});
    };
    for (std::size_t v = 0; v < nodes_.size(); ++v) {
      limit(request.graph.out[v], room.egress_bps[nodes_[v].index()]);
      limit(request.graph.in[v], room.ingress_bps[nodes_[v].index()]);
    }
  }

  [[nodiscard]] LinkId link(int arc) const { return links_[arc]; }
  [[nodiscard]] bool is_complete() const {
    return std::all_of(session_.destinations.begin(), session_.destinations.end(),
                       [&](NodeId destination) { return number(destination) >= 0; });
  }

 private:
  [[nodiscard]] int number(NodeId node) const { return number_[node.index()]; }

  // Keeps the links between nodes that the root reaches and that lead to a destination.
  void keep_useful(const Topology& topology) {
    const std::size_t nodes = topology.node_count();
    Digraph forward(static_cast<int>(nodes));
    Digraph backward(static_cast<int>(nodes));
    for (const LinkId link : links_) {
      const int from = static_cast<int>(topology.link(link).from.value());
      const int to = static_cast<int>(topology.link(link).to.value());
      forward.add_arc(from, to);
      backward.add_arc(to, from);
    }
    std::vector<int> destinations;
    for (const NodeId destination : session_.destinations) {
      destinations.push_back(static_cast<int>(destination.value()));
    }
    const std::vector<double> zero(links_.size(), 0.0);
    const Distances reached = shortest_from(forward, {static_cast<int>(session_.root.value())}, zero);
    const Distances leads = shortest_from(backward, destinations, zero);
    for (std::size_t v = 0; v < nodes; ++v) {
      if (reached.distance[v] == kUnreachable || leads.distance[v] == kUnreachable) continue;
      number_[v] = static_cast<int>(nodes_.size());
      nodes_.push_back(NodeId(static_cast<std::uint32_t>(v)));
    }
    std::erase_if(links_, [&](LinkId link) {
      return number(topology.link(link).from) < 0 || number(topology.link(link).to) < 0 ||
             topology.link(link).to == session_.root;
    });
  }

  [[nodiscard]] std::vector<int> arcs_of(const Path& path) const {
    std::vector<int> arcs;
    for (const LinkId link : path.links) {
      const auto position = std::lower_bound(links_.begin(), links_.end(), link);
      if (position == links_.end() || *position != link) return {};
      arcs.push_back(static_cast<int>(position - links_.begin()));
    }
    return arcs;
  }

  // A unicast's flows are streams already. A multicast tries the widest flow to each
  // destination, merged: with one path a destination that is the answer.
  void add_seeds(PackingRequest& request) const {
    std::vector<int> merged;
    bool whole = true;
    for (std::size_t j = 0; j < paths_.size(); ++j) {
      const std::vector<double>& flows = allocation_.path_bps[j];
      for (std::size_t p = 0; p < flows.size(); ++p) {
        if (paths_.size() > 1 || flows[p] <= 0.0) continue;
        const std::vector<int> arcs = arcs_of(paths_[j][p]);
        if (!arcs.empty()) request.seeds.push_back(arcs);
      }
      if (paths_.size() == 1) return;
      const auto widest = std::max_element(flows.begin(), flows.end());
      const std::vector<int> arcs = arcs_of(paths_[j][static_cast<std::size_t>(widest - flows.begin())]);
      whole = whole && !arcs.empty();
      merged.insert(merged.end(), arcs.begin(), arcs.end());
    }
    if (!whole) return;
    std::sort(merged.begin(), merged.end());
    merged.erase(std::unique(merged.begin(), merged.end()), merged.end());
    request.seeds.push_back(merged);
  }

  const Session& session_;
  const std::vector<std::vector<Path>>& paths_;
  const Allocation& allocation_;
  std::map<LinkId, double> room_bps_;
  std::vector<LinkId> links_;  // by arc, ascending
  std::vector<NodeId> nodes_;
  std::vector<int> number_;  // by NodeId, -1 outside
};

Result<std::vector<PlanStream>> pack(const Problem& problem, const Support& support,
                                     const PackingRequest& request, double rate_bps) {
  SQUARE_ASSIGN_OR_RETURN(const std::vector<PackedTree> packed, pack_trees(request));
  std::vector<PlanStream> streams;
  for (const PackedTree& tree : packed) {
    PlanStream& stream = streams.emplace_back();
    stream.rate_bps = tree.rate * rate_bps;
    for (const int arc : tree.arcs) {
      const TopologyLink& link = problem.topology().link(support.link(arc));
      stream.links.emplace_back(link.from, link.to);
    }
  }
  return streams;
}

}  // namespace

Result<std::vector<PlanStream>> realise(const Problem& problem, std::size_t session,
                                        const Allocation& allocation) {
  if (allocation.rate_bps <= 0.0) return std::vector<PlanStream>();
  const Support support(problem, session, allocation, allocation.link_bps);
  if (!support.is_complete()) return std::vector<PlanStream>();
  return pack(problem, support, support.request(problem.topology()), allocation.rate_bps);
}

Result<std::vector<PlanStream>> realise_within(const Problem& problem, std::size_t session,
                                               const Allocation& allocation, const Network& room) {
  if (allocation.rate_bps <= 0.0) return std::vector<PlanStream>();
  std::map<LinkId, double> room_bps;
  for (const std::vector<Path>& paths : problem.paths[session]) {
    for (const Path& path : paths) {
      for (const LinkId link : path.links) room_bps[link] = room.capacity_bps[link.index()];
    }
  }
  const Support support(problem, session, allocation, std::move(room_bps));
  if (!support.is_complete()) return std::vector<PlanStream>();
  PackingRequest request = support.request(problem.topology());
  support.add_limits(room, request);
  return pack(problem, support, request, allocation.rate_bps);
}

}  // namespace square::planning
