// What a session may use: links and nodes to avoid, bounds on latency.
#include <functional>
#include <map>
#include <queue>

#include "base/spending.h"
#include "square/units.h"
#include "validator/checks.h"

namespace square::validation {
namespace {

// Nanoseconds; sums of them are exact up to 104 days.
using Times = std::vector<double>;

double time_of(Duration duration) { return static_cast<double>(duration.count()); }

// A link as seen from the root: in a reduce its data comes towards it.
struct Ends {
  NodeId near;
  NodeId far;
};

Ends ends_of(const PlanSession& session, NodeId from, NodeId to) {
  return session.kind == SessionKind::kReduce ? Ends{to, from} : Ends{from, to};
}

// Shortest times over usable links, from the starts away from the root or, backwards,
// towards it. Infinite where there is no way.
Times shortest(const Plan& plan, const PlanSession& session, const std::vector<bool>& usable,
               const std::vector<std::pair<NodeId, double>>& starts, bool backwards) {
  std::vector<std::vector<std::pair<std::size_t, double>>> next(plan.nodes.size());
  for (std::size_t e = 0; e < plan.links.size(); ++e) {
    if (!usable[e]) continue;
    const Ends ends = ends_of(session, plan.links[e].from, plan.links[e].to);
    const NodeId from = backwards ? ends.far : ends.near;
    const NodeId to = backwards ? ends.near : ends.far;
    next[from.index()].emplace_back(to.index(), time_of(plan.links[e].latency));
  }
  Times times(plan.nodes.size(), kUnlimited);
  using Entry = std::pair<double, std::size_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
  for (const auto& [node, time] : starts) open.emplace(time, node.index());
  while (!open.empty()) {
    const auto [time, node] = open.top();
    open.pop();
    if (time >= times[node]) continue;
    times[node] = time;
    for (const auto& [to, latency] : next[node]) open.emplace(time + latency, to);
  }
  return times;
}

// Without the links that are on no way within any member's bound.
void drop_late_links(const Plan& plan, const PlanSession& session, std::vector<bool>& usable) {
  double longest = 1.0;
  for (const PlanLink& link : plan.links) longest += time_of(link.latency);
  // Time that is left at a node, with the sign turned round.
  std::vector<std::pair<NodeId, double>> ends;
  for (std::size_t m = 0; m < session.members.size(); ++m) {
    if (session.members[m] == session.root) continue;
    const Duration bound = session.max_latency[m];
    ends.emplace_back(session.members[m], -(bound == Duration::max() ? longest : time_of(bound)));
  }
  const Times from_root = shortest(plan, session, usable, {{session.root, 0.0}}, false);
  const Times to_members = shortest(plan, session, usable, ends, true);
  for (std::size_t e = 0; e < usable.size(); ++e) {
    const Ends way = ends_of(session, plan.links[e].from, plan.links[e].to);
    const double late =
        from_root[way.near.index()] + time_of(plan.links[e].latency) + to_members[way.far.index()];
    if (!(late <= 0.0)) usable[e] = false;
  }
}

bool has_bounds(const PlanSession& session) {
  return !session.max_latency.empty() && session.max_latency.size() == session.members.size();
}

}  // namespace

bool is_restricted(const Plan& plan) {
  for (const PlanNode& node : plan.nodes) {
    if (!node.relays) return true;
  }
  for (const PlanLink& link : plan.links) {
    if (link.avoided) return true;
  }
  for (const PlanSession& session : plan.sessions) {
    if (!session.max_latency.empty()) return true;
  }
  return false;
}

std::vector<bool> usable_links(const Plan& plan, const PlanSession& session) {
  std::vector<bool> usable;
  for (const PlanLink& link : plan.links) {
    const NodeId near = ends_of(session, link.from, link.to).near;
    usable.push_back(!link.avoided && (near == session.root || plan.nodes[near.index()].relays));
  }
  if (has_bounds(session)) drop_late_links(plan, session, usable);
  return usable;
}

void check_restrictions(const Plan& plan, Findings& findings) {
  if (!is_restricted(plan)) return;
  const LinkTable links(plan);
  for (const PlanSession& session : plan.sessions) {
    if (!session.max_latency.empty() && session.max_latency.size() != session.members.size()) {
      findings.add("session {} has {} bounds on latency for {} members", session.id.value(),
                   session.max_latency.size(), session.members.size());
    }
    look_at_budget();
    if (has_bounds(session) && !session.codes.empty()) {
      findings.add("session {} is coded, and how long that takes is not bounded", session.id.value());
      continue;
    }
    for (std::size_t s = 0; s < session.streams.size(); ++s) {
      const std::string name = fmt::format("session {}, stream {}", session.id.value(), s);
      std::vector<std::pair<NodeId, NodeId>> order = session.streams[s].links;
      if (session.kind == SessionKind::kReduce) order = {order.rbegin(), order.rend()};
      std::map<NodeId, double> time = {{session.root, 0.0}};
      for (const auto& [from, to] : order) {
        const int e = links.find(from, to);
        if (e < 0) continue;  // check_flows says so
        const Ends ends = ends_of(session, from, to);
        if (plan.links[e].avoided) {
          findings.add("{}: it uses {} -> {}, which is to be avoided", name, plan.nodes[from.index()].name,
                       plan.nodes[to.index()].name);
        }
        if (ends.near != session.root && !plan.nodes[ends.near.index()].relays) {
          findings.add("{}: it relays over {}, which relays nothing", name,
                       plan.nodes[ends.near.index()].name);
        }
        time.emplace(ends.far, time[ends.near] + time_of(plan.links[e].latency));
      }
      for (std::size_t m = 0; has_bounds(session) && m < session.members.size(); ++m) {
        const double taken = time[session.members[m]];
        if (taken > time_of(session.max_latency[m])) {
          findings.add("{}: it takes {:g} ms between root and {}, at most {:g} ms are allowed", name,
                       taken / 1e6, plan.nodes[session.members[m].index()].name,
                       time_of(session.max_latency[m]) / 1e6);
        }
      }
    }
  }
}

}  // namespace square::validation
