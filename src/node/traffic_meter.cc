#include "node/traffic_meter.h"

#include <algorithm>
#include <utility>

#include "transport/pacing/wire_cost.h"

namespace square {

std::string_view to_string(LinkDirection direction) {
  return direction == LinkDirection::kOut ? "out" : "in";
}

namespace {

template <typename Key>
void make_ordered(std::vector<Key>& keys) {
  std::ranges::sort(keys);
  keys.erase(std::ranges::unique(keys).begin(), keys.end());
}

}  // namespace

void TrafficMeter::Present::order() {
  make_ordered(links);
  make_ordered(sessions);
}

void TrafficMeter::add(const std::string& self, const Plan& plan) {
  const auto node = plan.find_node(self);
  if (!node) return;
  Present present;
  note_links(plan, *node, false, present);
  note_sessions(plan, *node, false, present);
  present.order();
  links_.add(present.links);
  sessions_.add(present.sessions);
  tenants_.add({present.tenants.begin(), present.tenants.end()});
}

void TrafficMeter::follow(const std::string& self, const std::vector<const Plan*>& live, const Plan* active) {
  forget_rates();
  epoch_ = active == nullptr ? std::nullopt : std::optional(active->epoch);
  Present present;
  for (const Plan* plan : live) {
    const auto node = plan->find_node(self);
    if (!node) continue;
    note_links(*plan, *node, plan == active, present);
    note_sessions(*plan, *node, plan == active, present);
  }
  present.order();
  links_.keep(std::move(present.links));
  sessions_.keep(std::move(present.sessions));
  tenants_.keep({present.tenants.begin(), present.tenants.end()});
}

void TrafficMeter::forget_rates() {
  for (const LinkKey& key : links_.here()) {
    LinkMetrics& link = links_[key]->counters;
    link.capacity_bps = 0;
    link.planned_bps = 0;
  }
  for (const SessionId id : sessions_.here()) {
    SessionMetrics& session = sessions_[id]->counters;
    session.planned_bps = 0;
    session.planned_sent_bps = 0;
    session.planned_received_bps = 0;
  }
  for (const std::string& name : tenants_.here()) {
    TenantMetrics& tenant = tenants_[name]->counters;
    tenant.planned_bps = 0;
    tenant.planned_sent_bps = 0;
    tenant.planned_received_bps = 0;
  }
}

void TrafficMeter::note_links(const Plan& plan, NodeId self, bool is_active, Present& present) {
  for (const PlanLink& planned : plan.links) {
    if (planned.from != self && planned.to != self) continue;
    const bool is_out = planned.from == self;
    const std::string& peer = plan.nodes[(is_out ? planned.to : planned.from).index()].name;
    const LinkKey key{peer, is_out ? LinkDirection::kOut : LinkDirection::kIn};
    LinkMetrics& link = links_[key]->counters;
    link.peer = peer;
    link.direction = key.second;
    present.links.push_back(key);
    if (!is_active) continue;
    link.capacity_bps = planned.capacity_bps;
    link.planned_bps = planned.load_bps;
  }
}

void TrafficMeter::note_sessions(const Plan& plan, NodeId self, bool is_active, Present& present) {
  for (const PlanSession& planned : plan.sessions) {
    double sent = 0;
    double received = 0;
    for (const PlanStream& stream : planned.streams) {
      for (const auto& [from, to] : stream.links) {
        if (from == self) sent += stream.rate_bps;
        if (to == self) received += stream.rate_bps;
      }
    }
    const bool is_member = std::ranges::find(planned.members, self) != planned.members.end();
    if (sent == 0 && received == 0 && !is_member) continue;
    const PlanCollective* collective = plan.find_collective(planned.collective);
    const auto tally = sessions_[planned.id];
    SessionMetrics& session = tally->counters;
    session.id = planned.id;
    session.collective = planned.collective;
    session.kind = planned.kind;
    session.tenant = collective == nullptr ? std::string() : collective->tenant;
    tally->tenant = tenants_[session.tenant];
    TenantMetrics& tenant = tally->tenant->counters;
    tenant.name = session.tenant;
    present.sessions.push_back(planned.id);
    present.tenants.insert(collective == nullptr ? std::string_view() : collective->tenant);
    if (!is_active) continue;
    session.planned_bps = planned.rate_bps;
    session.planned_sent_bps = sent;
    session.planned_received_bps = received;
    tenant.planned_sent_bps += sent;
    tenant.planned_received_bps += received;
  }
  if (!is_active) return;
  for (const PlanTenant& planned : plan.tenants) {
    if (present.tenants.contains(planned.name))
      tenants_[planned.name]->counters.planned_bps = planned.rate_bps;
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
  metrics.epoch = epoch_;
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
  return metrics;
}

}  // namespace square
