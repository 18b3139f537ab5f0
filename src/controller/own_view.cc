#include "controller/own_view.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

namespace square::controller {
namespace {

// Its link from -> to; a plan names the links of its streams by their ends.
using Ends = std::pair<NodeId, NodeId>;

Plan view_of(Plan plan, const std::function<bool(const PlanCollective&)>& is_own) {
  std::erase_if(plan.collectives, [&](const PlanCollective& one) { return !is_own(one); });
  std::set<CollectiveId> own;
  std::set<std::string> tenants;
  plan.total_rate_bps = 0;
  plan.min_rate_bps = 0;
  for (const PlanCollective& one : plan.collectives) {
    plan.min_rate_bps = own.empty() ? one.rate_bps : std::min(plan.min_rate_bps, one.rate_bps);
    plan.total_rate_bps += one.rate_bps;
    own.insert(one.id);
    tenants.insert(one.tenant);
  }
  std::erase_if(plan.sessions, [&](const PlanSession& one) { return !own.contains(one.collective); });
  std::erase_if(plan.tenants, [&](const PlanTenant& one) { return !tenants.contains(one.name); });
  std::map<Ends, double> loads;
  for (const PlanSession& session : plan.sessions) {
    for (const PlanStream& stream : session.streams) {
      for (const Ends& ends : stream.links) loads[ends] += stream.rate_bps;
    }
  }
  for (PlanLink& link : plan.links) {
    const auto load = loads.find({link.from, link.to});
    link.load_bps = load == loads.end() ? 0 : load->second;
  }
  plan.cost_usd_per_hour = 0;
  for (const PlanCollective& one : plan.collectives) plan.cost_usd_per_hour += one.cost_usd_per_hour;
  // What says something of all.
  plan.certificate = {};
  plan.headroom.reset();
  plan.budget_usd_per_hour.reset();
  plan.jain = 1.0;
  if (plan.changes)
    std::erase_if(*plan.changes, [&](const PlanChange& one) { return !own.contains(one.collective); });
  return plan;
}

bool touches(const PlanSession& session, NodeId node) {
  const auto uses = [node](const PlanStream& stream) {
    return std::ranges::any_of(
        stream.links, [node](const Ends& ends) { return ends.first == node || ends.second == node; });
  };
  return std::ranges::find(session.members, node) != session.members.end() ||
         std::ranges::any_of(session.streams, uses);
}

}  // namespace

Plan view_of_tenant(const Plan& plan, std::string_view tenant) {
  return view_of(plan, [tenant](const PlanCollective& one) { return one.tenant == tenant; });
}

Plan view_of_node(const Plan& plan, std::string_view node) {
  const auto id = plan.find_node(node);
  std::set<CollectiveId> own;
  for (const PlanSession& session : plan.sessions) {
    if (id && touches(session, *id)) own.insert(session.collective);
  }
  return view_of(plan, [&own](const PlanCollective& one) { return own.contains(one.id); });
}

std::vector<NodeInformation> nodes_of_tenant(std::vector<NodeInformation> nodes, const Plan* plan,
                                             std::string_view tenant) {
  std::set<std::string> own;
  if (plan != nullptr) {
    const Plan view = view_of_tenant(*plan, tenant);
    for (std::size_t v = 0; v < view.nodes.size(); ++v) {
      const NodeId id(static_cast<NodeId::value_type>(v));
      const bool is_own = std::ranges::any_of(
          view.sessions, [id](const PlanSession& session) { return touches(session, id); });
      if (is_own) own.insert(view.nodes[v].name);
    }
  }
  std::erase_if(nodes, [&](const NodeInformation& node) { return !own.contains(node.name); });
  return nodes;
}

}  // namespace square::controller
