// Paths and streams: are they what they claim, and does the overlay carry them?
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "planning/validator.h"

namespace square::validation {
namespace {

class Flows {
 public:
  Flows(const Plan& plan, Findings& findings) : plan_(plan), findings_(findings), links_(plan) {
    stream_load_.assign(plan.links.size(), 0.0);
    conceptual_load_.assign(plan.links.size(), 0.0);
  }

  void check() {
    for (const PlanSession& session : plan_.sessions) {
      name_ = fmt::format("session {}", session.id.value());
      check_streams(session);
      check_paths(session);
    }
    if (!findings_.empty()) return;  // loads over links that are not there mean nothing
    for (std::size_t e = 0; e < plan_.links.size(); ++e) {
      if (!about_equal(plan_.links[e].load_bps, stream_load_[e])) {
        findings_.add("link {}: its load is given as {} bit/s, its streams sum to {}", link_name(e),
                      plan_.links[e].load_bps, stream_load_[e]);
      }
    }
    check_limits(stream_load_, "streams");
    check_limits(conceptual_load_, "conceptual flows");
  }

 private:
  [[nodiscard]] const std::string& node_name(NodeId node) const { return plan_.nodes[node.index()].name; }
  [[nodiscard]] std::string link_name(std::size_t e) const {
    return node_name(plan_.links[e].from) + " -> " + node_name(plan_.links[e].to);
  }

  void check_streams(const PlanSession& session) {
    double sum = 0.0;
    for (std::size_t s = 0; s < session.streams.size(); ++s) {
      const PlanStream& stream = session.streams[s];
      if (!(stream.rate_bps > 0.0) || !std::isfinite(stream.rate_bps)) {
        findings_.add("{}, stream {}: its rate {} is not positive and finite", name_, s, stream.rate_bps);
      }
      if (stream.coded) findings_.add("{}, stream {}: coded streams cannot be planned yet", name_, s);
      sum += stream.rate_bps;
      check_tree(session, stream, s);
    }
    if (!about_equal(session.rate_bps, sum)) {
      findings_.add("{}: its rate is given as {} bit/s, its streams sum to {}", name_, session.rate_bps, sum);
    }
    if (!at_most(session.rate_bps, session.lp_rate_bps)) {
      findings_.add("{}: its rate {} bit/s is over its lp_rate {}", name_, session.rate_bps,
                    session.lp_rate_bps);
    }
  }

  void check_tree(const PlanSession& session, const PlanStream& stream, std::size_t s) {
    std::set<NodeId> reached = {session.root};
    for (const auto& [from, to] : stream.links) {
      const int link = links_.find(from, to);
      if (link < 0) {
        findings_.add("{}, stream {}: there is no link {} -> {}", name_, s, node_name(from), node_name(to));
        continue;
      }
      if (!reached.contains(from)) {
        findings_.add("{}, stream {}: {} -> {} comes before the link that feeds it", name_, s,
                      node_name(from), node_name(to));
      }
      if (!reached.insert(to).second) {
        findings_.add("{}, stream {}: {} is reached twice, so it is not a tree", name_, s, node_name(to));
      }
      stream_load_[link] += stream.rate_bps;
    }
    for (const NodeId member : session.members) {
      if (!reached.contains(member)) {
        findings_.add("{}, stream {}: it does not reach member {}", name_, s, node_name(member));
      }
    }
  }

  void check_paths(const PlanSession& session) {
    std::map<NodeId, double> carried;
    std::map<NodeId, std::map<int, double>> towards;  // by destination, by link
    for (const PlanPath& path : session.paths) {
      if (!(path.rate_bps > 0.0) || !std::isfinite(path.rate_bps)) {
        findings_.add("{}: the rate {} of a path is not positive and finite", name_, path.rate_bps);
      }
      if (!is_path(session, path)) {
        findings_.add("{}: a path to {} does not lead there from the root over links that exist", name_,
                      node_name(path.member));
        continue;
      }
      carried[path.member] += path.rate_bps;
      for (std::size_t v = 0; v + 1 < path.nodes.size(); ++v) {
        towards[path.member][links_.find(path.nodes[v], path.nodes[v + 1])] += path.rate_bps;
      }
    }
    for (const NodeId member : session.members) {
      if (member != session.root && !at_most(session.lp_rate_bps, carried[member])) {
        findings_.add("{}: its lp_rate is {} bit/s, its paths carry {} to {}", name_, session.lp_rate_bps,
                      carried[member], node_name(member));
      }
    }
    std::map<int, double> effective;
    for (const auto& [member, rates] : towards) {
      for (const auto& [link, rate] : rates) effective[link] = std::max(effective[link], rate);
    }
    for (const auto& [link, rate] : effective) conceptual_load_[link] += rate;
  }

  [[nodiscard]] bool is_path(const PlanSession& session, const PlanPath& path) const {
    const auto& members = session.members;
    if (path.member == session.root ||
        std::find(members.begin(), members.end(), path.member) == members.end()) {
      return false;
    }
    if (path.nodes.empty() || path.nodes.front() != session.root || path.nodes.back() != path.member) {
      return false;
    }
    if (std::set<NodeId>(path.nodes.begin(), path.nodes.end()).size() != path.nodes.size()) return false;
    for (std::size_t v = 0; v + 1 < path.nodes.size(); ++v) {
      if (links_.find(path.nodes[v], path.nodes[v + 1]) < 0) return false;
    }
    return true;
  }

  void check_limits(const std::vector<double>& load, std::string_view whose) {
    std::vector<double> leaving(plan_.nodes.size(), 0.0);
    std::vector<double> entering(plan_.nodes.size(), 0.0);
    for (std::size_t e = 0; e < load.size(); ++e) {
      leaving[plan_.links[e].from.index()] += load[e];
      entering[plan_.links[e].to.index()] += load[e];
      if (!at_most(load[e], plan_.links[e].capacity_bps)) {
        findings_.add("link {}: {} put {} bit/s on a capacity of {}", link_name(e), whose, load[e],
                      plan_.links[e].capacity_bps);
      }
    }
    for (std::size_t v = 0; v < plan_.nodes.size(); ++v) {
      const PlanNode& node = plan_.nodes[v];
      if (!at_most(leaving[v], node.egress_bps)) {
        findings_.add("node {}: {} send {} bit/s, its egress limit is {}", node.name, whose, leaving[v],
                      node.egress_bps);
      }
      if (!at_most(entering[v], node.ingress_bps)) {
        findings_.add("node {}: {} receive {} bit/s, its ingress limit is {}", node.name, whose, entering[v],
                      node.ingress_bps);
      }
    }
  }

  const Plan& plan_;
  Findings& findings_;
  LinkTable links_;
  std::string name_;
  std::vector<double> stream_load_;
  std::vector<double> conceptual_load_;
};

}  // namespace

void check_flows(const Plan& plan, Findings& findings) { Flows(plan, findings).check(); }

}  // namespace square::validation
