#include "node/links/neighbours.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/log.h"
#include "node/plan/stream_windows.h"
#include "square/metrics.h"

namespace square {

Neighbours::Neighbours(std::shared_ptr<NodeContext> node, Host& host)
    : shared_node_(std::move(node)),
      node_(*shared_node_),
      host_(host),
      flush_(node_.executor, [this](const StreamKey& key) { host_.fill_sources(key); }),
      lost_(node_.options.name) {}

const Neighbours::Connection* Neighbours::find(LinkHandle link) const {
  const auto found = connections_.find(link);
  return found == connections_.end() ? nullptr : &found->second;
}

OutgoingLink& Neighbours::outgoing_to(const std::string& peer) {
  auto& link = outgoing_[peer];
  if (!link) {
    link = std::make_unique<OutgoingLink>(node_, peer, egress_, flush_);
    const auto same = incoming_.find(peer);
    if (same != incoming_.end()) same->second->set_way_back(link.get());
  }
  return *link;
}

IncomingLink& Neighbours::incoming_from(const std::string& peer) {
  auto& link = incoming_[peer];
  if (!link) {
    link = std::make_unique<IncomingLink>(shared_node_, peer, flush_);
    const auto same = outgoing_.find(peer);
    if (same != outgoing_.end()) link->set_way_back(same->second.get());
  }
  return *link;
}

void Neighbours::open_plan(const std::shared_ptr<const InstalledPlan>& plan) {
  for (const auto& [key, stream] : plan->streams()) open_stream(plan, stream);
  set_paces(*plan);
}

void Neighbours::open_stream(const std::shared_ptr<const InstalledPlan>& plan, const LocalStream& stream) {
  std::vector<std::shared_ptr<OutgoingStream>> children;
  for (const std::string& child : stream.children) {
    children.push_back(outgoing_to(child).add_stream(plan, stream));
    dial(child);
  }
  for (const std::string& parent : stream.parents) {
    incoming_from(parent).add_stream(plan, stream).set_children(children);
  }
}

void Neighbours::set_paces(const InstalledPlan& plan) {
  const bool is_paced = node_.options.paced;
  egress_.set_rate(is_paced ? plan.egress_bps() : kUnlimited);
  for (const auto& [peer, link] : outgoing_) link->set_pace(is_paced ? plan.pace_bps(peer) : kUnlimited);
  for (const auto& [peer, link] : incoming_) link->set_pace(is_paced ? plan.pace_from_bps(peer) : kUnlimited);
  for (auto& [link, connection] : connections_) choose_channels(link, connection);
}

void Neighbours::close_plan(const InstalledPlan& plan) {
  for (const auto& [key, stream] : plan.streams()) {
    for (const std::string& child : stream.children) outgoing_to(child).remove_stream(key);
    for (const std::string& parent : stream.parents) incoming_from(parent).remove_stream(key);
  }
}

void Neighbours::set_address(const std::string& peer, const std::string& address) {
  addresses_[peer] = address;
  if (outgoing_.contains(peer)) dial(peer);
}

void Neighbours::dial(const std::string& peer) {
  Dial& dial = dials_[peer];
  const auto address = addresses_.find(peer);
  if (dial.is_open || node_.is_stopping || address == addresses_.end()) return;
  dial.is_open = true;
  connections_[node_.transport.open_link(peer, address->second)] = {.outgoing = &outgoing_to(peer)};
}

void Neighbours::redial_later(const std::string& peer) {
  Dial& closed = dials_[peer];
  closed.is_open = false;
  const TimePoint when = node_.clock.now() + closed.wait;
  node_.executor.post_at(when, life_.bind([this, peer] { dial(peer); }));
  closed.wait = std::min(2 * closed.wait, kMaxRedialWait);
}

void Neighbours::choose_channels(LinkHandle link, Connection& connection) {
  if (connection.outgoing == nullptr || !connection.round_trip) return;
  OutgoingLink& outgoing = *connection.outgoing;
  const double round_trip = to_seconds(*connection.round_trip);
  // An unlimited link is as fast as credit allows, and a plan has a quarter of the head's window.
  double bytes = outgoing.pace_bps() * round_trip / kBitsPerByte;
  if (outgoing.pace_bps() == kUnlimited) {
    bytes = std::min(kUnlimitedWindowBps * round_trip / kBitsPerByte,
                     static_cast<double>(node_.options.window_bytes) / 4);
  }
  const double wanted = std::ceil(bytes / static_cast<double>(kBytesPerRoundTrip));
  const auto channels = static_cast<std::size_t>(std::clamp(wanted, 1.0, static_cast<double>(kMaxChannels)));
  if (channels == connection.channels) return;
  connection.channels = channels;
  outgoing.set_channels(channels);
  node_.transport.set_channels(link, channels);
}

void Neighbours::on_link_up(LinkHandle link, LinkEnd end, const std::string& peer) {
  lost_.forget(end, peer);
  if (end == LinkEnd::kTail) {
    OutgoingLink& outgoing = outgoing_to(peer);
    connections_[link] = {.outgoing = &outgoing};
    dials_[peer].wait = kMinRedialWait;
    outgoing.set_channels(1);
    outgoing.on_up(link);
  } else {
    IncomingLink& incoming = incoming_from(peer);
    connections_[link] = {.incoming = &incoming};
    node_.landing.connect(link, peer);
    // A peer that comes back before its old connection was seen to die.
    const auto old = incoming.on_up(link);
    if (old) node_.transport.close_link(*old);
  }
  host_.on_neighbour_up(peer);
}

void Neighbours::on_link_down(LinkHandle link, const Status& reason) {
  const auto found = connections_.find(link);
  if (found == connections_.end()) return;
  const Connection connection = found->second;
  connections_.erase(found);
  if (connection.outgoing != nullptr) return tail_down(*connection.outgoing, reason);
  node_.landing.disconnect(link);
  IncomingLink& incoming = *connection.incoming;
  if (incoming.handle() != link) return;  // replaced by a newer one
  incoming.on_down();
  if (node_.is_stopping) return;
  lost_.note(LinkEnd::kHead, incoming.peer(), reason.message());
  host_.on_neighbour_lost(LinkEnd::kHead, incoming.peer(), reason);
}

void Neighbours::tail_down(OutgoingLink& link, const Status& reason) {
  const bool was_up = link.is_up();
  log(was_up ? LogLevel::kWarning : LogLevel::kDebug,
      {.component = "node", .node = node_.options.name, .peer = link.peer()},
      "{}: link to \"{}\" is down: {}", node_.options.name, link.peer(), reason.to_string());
  redial_later(link.peer());
  if (!was_up) return;
  link.on_down();
  lost_.note(LinkEnd::kTail, link.peer(), reason.message());
  host_.on_neighbour_lost(LinkEnd::kTail, link.peer(), reason);
}

void Neighbours::on_sent(LinkHandle link) {
  const Connection* connection = find(link);
  if (connection == nullptr) return;
  if (connection->outgoing != nullptr) return connection->outgoing->on_sent();
  if (connection->incoming->handle() == link) connection->incoming->on_sent();
}

void Neighbours::on_round_trip(LinkHandle link, Duration round_trip) {
  const auto found = connections_.find(link);
  if (found == connections_.end()) return;
  found->second.round_trip = round_trip;
  choose_channels(link, found->second);
}

void Neighbours::answer(const std::string& peer, Frame frame) {
  const auto found = incoming_.find(peer);
  if (found != incoming_.end()) found->second->answer(std::move(frame));
}

void Neighbours::send_ahead(const std::string& peer, Frame frame) {
  const auto found = outgoing_.find(peer);
  if (found != outgoing_.end()) found->second->send_ahead(std::move(frame));
}

void Neighbours::drop_operation(SessionId session, OperationId operation) {
  for (const auto& [peer, link] : outgoing_) link->drop_operation(session, operation);
}

bool Neighbours::is_idle() const {
  const auto is_idle = [](const auto& entry) { return entry.second->is_idle(); };
  return std::ranges::all_of(outgoing_, is_idle) && std::ranges::all_of(incoming_, is_idle);
}

void Neighbours::describe(NodeMetrics& metrics) const {
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
    const Connection* connection = handle ? find(*handle) : nullptr;
    if (connection == nullptr) continue;
    link.round_trip = connection->round_trip;
    link.channels = static_cast<std::uint32_t>(connection->channels);
  }
}

}  // namespace square
