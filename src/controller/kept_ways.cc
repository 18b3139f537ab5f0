#include "controller/kept_ways.h"

#include <algorithm>
#include <map>
#include <utility>

#include "controller/plan_parts.h"

namespace square::controller {

namespace {

using Links = std::map<std::pair<NodeId, NodeId>, PlanLink*>;

Links links_of(Plan& plan) {
  Links links;
  for (PlanLink& link : plan.links) links.try_emplace({link.from, link.to}, &link);
  return links;
}

// What its streams carry over links counts as their load, or does not any more.
void add_loads(const PlanSession& session, double sign, const Links& links) {
  for (const PlanStream& stream : session.streams) {
    if (stream.is_spare) continue;
    for (const auto& ends : stream.links) {
      const auto link = links.find(ends);
      if (link == links.end()) continue;
      double& load_bps = link->second->load_bps;
      load_bps = std::max(0.0, load_bps + sign * stream.rate_bps);
    }
  }
}

}  // namespace

bool can_keep(const Plan& before, const Plan& next) {
  const auto is_same = [](const PlanNode& a, const PlanNode& b) { return a.name == b.name; };
  return before.origin == next.origin && before.nodes.size() <= next.nodes.size() &&
         std::equal(before.nodes.begin(), before.nodes.end(), next.nodes.begin(), is_same);
}

std::shared_ptr<const Plan> with_kept(const std::shared_ptr<const Plan>& plan, const KeptWays& kept) {
  if (kept.parts == nullptr || kept.collectives.empty()) return plan;
  const Plan& before = kept.parts->whole();
  std::set<CollectiveId> changed;
  Plan mixed = *plan;
  for (PlanCollective& collective : mixed.collectives) {
    if (!kept.collectives.contains(collective.id)) continue;
    const auto old = std::ranges::find(before.collectives, collective.id, &PlanCollective::id);
    if (old == before.collectives.end()) continue;
    collective = *old;
    changed.insert(collective.id);
  }
  const auto is_changed = [&](const PlanSession& session) { return changed.contains(session.collective); };
  // Nodes pace links by their loads.
  const Links links = links_of(mixed);
  for (const PlanSession& session : plan->sessions) {
    if (is_changed(session)) add_loads(session, -1, links);
  }
  for (const PlanSession& session : before.sessions) {
    if (is_changed(session)) add_loads(session, 1, links);
  }
  std::erase_if(mixed.sessions, is_changed);
  std::ranges::copy_if(before.sessions, std::back_inserter(mixed.sessions), is_changed);
  std::ranges::sort(mixed.sessions, {}, &PlanSession::id);
  return std::make_shared<const Plan>(std::move(mixed));
}

}  // namespace square::controller
