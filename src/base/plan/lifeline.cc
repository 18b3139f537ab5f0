#include "base/plan/lifeline.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>

namespace square {
namespace {

bool needs_lifeline(const PlanSession& session) {
  if (!session.codes.empty())
    return std::ranges::all_of(session.streams,
                               [](const PlanStream& stream) { return stream.coded.has_value(); });
  return session.pair && session.streams.empty() && session.members.size() > 1;
}

// The links of a breadth-first tree from the session's root, by the node that each leads to,
// away from the root. Links run the other way in a reduce.
std::map<NodeId, const PlanLink*> shortest_paths(const Plan& plan, const PlanSession& session) {
  const bool is_reduce = session.kind == SessionKind::kReduce;
  std::map<NodeId, const PlanLink*> reached{{session.root, nullptr}};
  std::deque<NodeId> next{session.root};
  while (!next.empty()) {
    const NodeId here = next.front();
    next.pop_front();
    if (here != session.root && !plan.nodes[here.index()].relays) continue;
    for (const PlanLink& link : plan.links) {
      const NodeId near = is_reduce ? link.to : link.from;
      const NodeId far = is_reduce ? link.from : link.to;
      if (near != here || link.avoided || !(link.capacity_bps > 0)) continue;
      if (reached.try_emplace(far, &link).second) next.push_back(far);
    }
  }
  return reached;
}

void add_lifeline(const Plan& plan, PlanSession& session) {
  const auto reached = shortest_paths(plan, session);
  const bool is_reduce = session.kind == SessionKind::kReduce;
  PlanStream stream;
  stream.rate_bps = kLifelineCapacityBps;
  std::set<NodeId> joined{session.root};
  for (const NodeId member : session.members) {
    if (!reached.contains(member)) return;
    std::vector<std::pair<NodeId, NodeId>> branch;  // from the member towards the tree
    for (NodeId here = member; joined.insert(here).second;) {
      const PlanLink& link = *reached.at(here);
      stream.rate_bps = std::min(stream.rate_bps, link.capacity_bps);
      branch.emplace_back(link.from, link.to);
      here = is_reduce ? link.to : link.from;
    }
    // In the order of data: down a multicast's tree behind what is there, up a reduce's before it.
    if (is_reduce) {
      stream.links.insert(stream.links.begin(), branch.begin(), branch.end());
    } else {
      stream.links.insert(stream.links.end(), branch.rbegin(), branch.rend());
    }
  }
  stream.rate_bps *= kLifelinePart;
  session.rate_bps += stream.rate_bps;
  stream.is_spare = !session.codes.empty();
  session.streams.push_back(std::move(stream));
}

}  // namespace

std::shared_ptr<const Plan> with_lifelines(std::shared_ptr<const Plan> plan) {
  if (std::ranges::none_of(plan->sessions, needs_lifeline)) return plan;
  auto changed = std::make_shared<Plan>(*plan);
  for (PlanSession& session : changed->sessions) {
    if (needs_lifeline(session)) add_lifeline(*plan, session);
  }
  return changed;
}

}  // namespace square
