#include "node/traffic_meter.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "transport/pacing/wire_cost.h"

namespace square {

std::string_view to_string(LinkDirection direction) {
  return direction == LinkDirection::kOut ? "out" : "in";
}

std::vector<TrafficMeter::LinkKey> TrafficMeter::links_of(const Plan& plan) const {
  std::vector<LinkKey> keys;
  const auto self = plan.find_node(self_);
  for (const PlanLink& link : plan.links) {
    if (link.from == self) keys.emplace_back(plan.nodes[link.to.index()].name, LinkDirection::kOut);
    if (link.to == self) keys.emplace_back(plan.nodes[link.from.index()].name, LinkDirection::kIn);
  }
  return keys;
}

void TrafficMeter::add_links(const Plan& plan) {
  for (const LinkKey& key : links_of(plan)) {
    LinkMetrics& link = links_.come(key)->counters;
    link.peer = key.first;
    link.direction = key.second;
  }
}

void TrafficMeter::remove_links(const Plan& plan) {
  for (const LinkKey& key : links_of(plan)) links_.leave(key);
}

// Leads through this node, or has members here.
bool TrafficMeter::concerns(const InstalledCollective& collective, const PlanSession& session) {
  return std::ranges::find(session.members, collective.self()) != session.members.end() ||
         !collective.streams_of(session.id).empty();
}

void TrafficMeter::add(const InstalledCollective& collective) {
  for (const PlanSession& planned : collective.sessions()) {
    if (!concerns(collective, planned)) continue;
    const auto tally = sessions_.come(planned.id);
    SessionMetrics& session = tally->counters;
    session.id = planned.id;
    session.collective = planned.collective;
    session.kind = planned.kind;
    session.tenant = collective.planned().tenant;
    tally->tenant = tenants_.come(session.tenant);
    tally->tenant->counters.name = session.tenant;
  }
}

void TrafficMeter::remove(const InstalledCollective& collective) {
  for (const PlanSession& planned : collective.sessions()) {
    if (!concerns(collective, planned)) continue;
    sessions_.leave(planned.id);
    tenants_.leave(collective.planned().tenant);
  }
}

std::shared_ptr<LinkTally> TrafficMeter::link(const std::string& peer, LinkDirection direction) const {
  auto found = links_.find({peer, direction});
  return found ? found : std::make_shared<LinkTally>();
}

std::shared_ptr<SessionTally> TrafficMeter::session(SessionId session) const {
  auto found = sessions_.find(session);
  return found ? found : std::make_shared<SessionTally>();
}

void TrafficMeter::on_resent(const std::vector<std::string>& peers, SessionId session) {
  for (const std::string& peer : peers) ++link(peer, LinkDirection::kOut)->counters.blocks_resent;
  this->session(session)->on_resent();
}

void LinkTally::on_block(std::size_t bytes) {
  ++counters.blocks;
  counters.bytes += bytes;
  wire_bits += square::wire_bits(bytes);
}

void SessionTally::on_sent(std::size_t bytes) {
  ++counters.blocks_sent;
  counters.bytes_sent += bytes;
  tenant->counters.bytes_sent += bytes;
}

void SessionTally::on_received(std::size_t bytes) {
  ++counters.blocks_received;
  counters.bytes_received += bytes;
  tenant->counters.bytes_received += bytes;
}

void SessionTally::on_resent() {
  ++counters.blocks_resent;
  ++tenant->counters.blocks_resent;
}

void SessionTally::on_delivered(std::size_t bytes) {
  counters.bytes_delivered += bytes;
  tenant->counters.bytes_delivered += bytes;
}

void SessionTally::on_taken(std::size_t bytes) {
  bytes_in_transit += bytes;
  tenant->counters.bytes_in_transit += bytes;
}

void SessionTally::on_released(std::size_t bytes) {
  bytes_in_transit -= bytes;
  tenant->counters.bytes_in_transit -= bytes;
}

void SessionTally::on_held(std::size_t bytes) {
  bytes_held += bytes;
  tenant->counters.bytes_held += bytes;
}

void SessionTally::on_let_go(std::size_t bytes) {
  bytes_held -= bytes;
  tenant->counters.bytes_held -= bytes;
}

NodeMetrics TrafficMeter::snapshot() const {
  NodeMetrics metrics;
  for (const auto& [key, entry] : links_.entries()) {
    if (entry.left) continue;
    LinkMetrics link = entry.tally->counters;
    link.wire_bytes = static_cast<std::uint64_t>(entry.tally->wire_bits / kBitsPerByte);
    metrics.links.push_back(std::move(link));
  }
  for (const auto& [id, entry] : sessions_.entries()) {
    if (!entry.left) metrics.sessions.push_back(entry.tally->counters);
  }
  // Past ones too: what they were sent is worth knowing after their last group left.
  for (const auto& [name, entry] : tenants_.entries()) metrics.tenants.push_back(entry.tally->counters);
  if (active_) add_planned(metrics);
  return metrics;
}

namespace {

// In what is ordered by the key.
template <typename Metrics, typename Key, typename KeyOf>
Metrics* find_by(std::vector<Metrics>& all, const Key& key, const KeyOf& key_of) {
  const auto found = std::ranges::lower_bound(all, key, {}, key_of);
  return found == all.end() || std::invoke(key_of, *found) != key ? nullptr : &*found;
}

}  // namespace

void TrafficMeter::add_planned(NodeMetrics& metrics) const {
  const Plan& plan = *active_;
  metrics.epoch = plan.epoch;
  const auto self = plan.find_node(self_);
  if (!self) return;
  for (const PlanLink& planned : plan.links) {
    const bool is_out = planned.from == self;
    if (!is_out && planned.to != self) continue;
    const LinkKey key{plan.nodes[(is_out ? planned.to : planned.from).index()].name,
                      is_out ? LinkDirection::kOut : LinkDirection::kIn};
    LinkMetrics* const link = find_by(metrics.links, key, [](const LinkMetrics& one) {
      return LinkKey{one.peer, one.direction};
    });
    if (link == nullptr) continue;
    link->capacity_bps = planned.capacity_bps;
    link->planned_bps = planned.load_bps;
  }
  std::set<const TenantMetrics*> served;
  for (const PlanSession& planned : plan.sessions) {
    SessionMetrics* const session = find_by(metrics.sessions, planned.id, &SessionMetrics::id);
    if (session == nullptr) continue;
    for (const PlanStream& stream : planned.streams) {
      for (const auto& [from, to] : stream.links) {
        if (from == self) session->planned_sent_bps += stream.rate_bps;
        if (to == self) session->planned_received_bps += stream.rate_bps;
      }
    }
    session->planned_bps = planned.rate_bps;
    TenantMetrics* const tenant = find_by(metrics.tenants, session->tenant, &TenantMetrics::name);
    tenant->planned_sent_bps += session->planned_sent_bps;
    tenant->planned_received_bps += session->planned_received_bps;
    served.insert(tenant);
  }
  for (const PlanTenant& planned : plan.tenants) {
    TenantMetrics* const tenant = find_by(metrics.tenants, planned.name, &TenantMetrics::name);
    if (served.contains(tenant)) tenant->planned_bps = planned.rate_bps;
  }
}

}  // namespace square
