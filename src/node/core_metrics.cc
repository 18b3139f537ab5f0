// What a node tells those who watch it.
#include <algorithm>
#include <map>

#include "node/core.h"

namespace square {

void DataPlane::Core::follow_plans() {
  std::vector<const Plan*> live;
  for (const auto& [epoch, plan] : plans_) live.push_back(&plan->plan());
  context_.traffic.follow(context_.options.name, live, active_ ? &plans_.at(*active_)->plan() : nullptr);
}

void DataPlane::Core::on_round_trip(LinkHandle link, Duration round_trip) {
  on_strand([link, round_trip](Core& core) {
    const auto found = core.connections_.find(link);
    if (found == core.connections_.end()) return;
    found->second.round_trip = round_trip;
    core.choose_channels(link);
  });
}

NodeMetrics DataPlane::Core::metrics() const {
  NodeMetrics metrics = context_.traffic.snapshot();
  metrics.node = context_.options.name;
  metrics.totals = context_.statistics;
  const auto find_session = [&](SessionId id) {
    const auto found = std::ranges::lower_bound(metrics.sessions, id, {}, &SessionMetrics::id);
    return found != metrics.sessions.end() && found->id == id ? &*found : nullptr;
  };
  for (LinkMetrics& link : metrics.links) {
    std::optional<LinkHandle> handle;
    if (link.direction == LinkDirection::kIn) {
      const auto incoming = incoming_.find(link.peer);
      if (incoming != incoming_.end()) handle = incoming->second->handle();
    } else if (const auto outgoing = outgoing_.find(link.peer); outgoing != outgoing_.end()) {
      handle = outgoing->second->handle();
      link.pace_bps = outgoing->second->pace_bps();
      for (const auto& [id, queued] : outgoing->second->queues()) {
        link.queue_blocks += queued.blocks;
        link.queue_bytes += queued.bytes;
        SessionMetrics* session = find_session(id);
        if (session == nullptr) continue;
        session->queue_blocks += queued.blocks;
        session->queue_bytes += queued.bytes;
      }
    }
    link.is_up = handle.has_value();
    const auto connection = handle ? connections_.find(*handle) : connections_.end();
    if (connection == connections_.end()) continue;
    link.round_trip = connection->second.round_trip;
    link.channels = static_cast<std::uint32_t>(connection->second.channels);
  }
  return metrics;
}

}  // namespace square
