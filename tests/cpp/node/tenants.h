// Plans with tenants, and what their nodes did.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "node/overlay.h"

namespace square::test {

// Broadcasts along chains of nodes, each with a tenant of its own or a shared one.
class TenantPlan {
 public:
  explicit TenantPlan(std::size_t node_count, Epoch epoch = Epoch(1)) {
    plan_.epoch = epoch;
    plan_.policy = "by-hand";
    for (std::size_t i = 0; i < node_count; ++i)
      plan_.nodes.push_back({node_name(i), kUnlimited, kUnlimited});
  }

  void add_tenant(std::string name, double weight) { plan_.tenants.push_back({std::move(name), weight, 0}); }
  void add_link(std::uint32_t from, std::uint32_t to, double capacity_bps, Duration latency = {}) {
    plan_.links.push_back({NodeId(from), NodeId(to), capacity_bps, 0, latency});
  }
  void limit_ingress(std::uint32_t node, double bps) { plan_.nodes[node].ingress_bps = bps; }

  // From the first node over the others to the last; only the first and the last take part.
  CollectiveId add_chain(std::string tenant, const std::vector<std::uint32_t>& nodes, double rate_bps) {
    const auto number = static_cast<std::uint32_t>(plan_.sessions.size());
    PlanSession session;
    session.id = SessionId(number);
    session.collective = CollectiveId(number);
    session.root = NodeId(nodes.front());
    session.members = {NodeId(nodes.front()), NodeId(nodes.back())};
    session.rate_bps = rate_bps;
    PlanStream stream;
    stream.rate_bps = rate_bps;
    for (std::size_t i = 1; i < nodes.size(); ++i) {
      stream.links.emplace_back(NodeId(nodes[i - 1]), NodeId(nodes[i]));
      for (PlanLink& link : plan_.links) {
        if (link.from == NodeId(nodes[i - 1]) && link.to == NodeId(nodes[i])) link.load_bps += rate_bps;
      }
    }
    session.streams.push_back(std::move(stream));
    PlanCollective collective;
    collective.id = session.collective;
    collective.tenant = std::move(tenant);
    collective.rate_bps = rate_bps;
    collective.sessions = {session.id};
    plan_.collectives.push_back(collective);
    plan_.sessions.push_back(session);
    return collective.id;
  }

  [[nodiscard]] std::shared_ptr<const Plan> build() const { return std::make_shared<const Plan>(plan_); }

 private:
  Plan plan_;
};

inline double seconds_between(TimePoint start, TimePoint end) { return to_seconds(end - start); }

}  // namespace square::test
