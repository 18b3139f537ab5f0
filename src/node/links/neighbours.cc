#include "node/links/neighbours.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/log.h"
#include "base/planted.h"
#include "node/codes/code_adder.h"
#include "node/plan/stream_windows.h"
#include "square/metrics.h"

namespace square {
namespace {

SessionMetrics* find_session(NodeMetrics& metrics, SessionId id) {
  const auto found = std::ranges::lower_bound(metrics.sessions, id, {}, &SessionMetrics::id);
  return found != metrics.sessions.end() && found->id == id ? &*found : nullptr;
}

void describe_queues(const OutgoingLink& outgoing, LinkMetrics& link, NodeMetrics& metrics) {
  for (const auto& [id, queued] : outgoing.queues()) {
    link.queue_blocks += queued.blocks;
    link.queue_bytes += queued.bytes;
    SessionMetrics* session = find_session(metrics, id);
    if (session == nullptr) continue;
    session->queue_blocks += queued.blocks;
    session->queue_bytes += queued.bytes;
  }
}

// An unlimited link is as fast as credit allows, and a plan has a quarter of the head's window.
double bytes_under_way(double pace_bps, double round_trip_seconds, std::size_t window_bytes) {
  if (pace_bps != kUnlimited) return pace_bps * round_trip_seconds / kBitsPerByte;
  return std::min(kUnlimitedWindowBps * round_trip_seconds / kBitsPerByte,
                  static_cast<double>(window_bytes) / 4);
}

// Where sums begin here. All streams of the collective are open.
void open_adders(const std::shared_ptr<NodeContext>& node,
                 const std::shared_ptr<const InstalledCollective>& collective,
                 const std::map<std::string, std::unique_ptr<OutgoingLink>>& outgoing,
                 const std::map<std::string, std::unique_ptr<IncomingLink>>& incoming) {
  for (const LocalStream& stream : collective->streams()) {
    if (stream.terms.empty()) continue;
    std::vector<std::shared_ptr<OutgoingStream>> children;
    for (const std::string& child : stream.children) children.push_back(outgoing.at(child)->find(stream.key));
    const auto adder = std::make_shared<CodeAdder>(node, collective, stream, std::move(children));
    for (const LocalStream* const term : stream.terms) {
      for (const std::string& parent : term->parents) incoming.at(parent)->find(term->key)->add_adder(adder);
    }
  }
}

}  // namespace

Neighbours::Neighbours(std::shared_ptr<NodeContext> node, Host& host)
    : shared_node_(std::move(node)),
      node_(*shared_node_),
      host_(host),
      flush_(node_.executor, [this](const StreamKey& key) { host_.fill_sources(key); }),
      departed_(node_, outgoing_, [this](const std::string& peer) { host_.on_neighbour_gone(peer); }),
      lost_(node_.options.name),
      broken_(node_, [this](const std::string& peer) { return may_avoid(peer); }),
      refusals_(node_, broken_,
                {[this](const std::string& peer) { return is_up(peer); },
                 [this](const std::string& peer) { return node_.departures.is_said_to_be_gone(peer); },
                 [this](const std::string& peer, const std::string& reason) { set_gone(peer, reason); }}),
      prober_(node_.clock, node_.executor, node_.options.incarnation, [this](const std::string& peer) {
        const auto found = outgoing_.find(peer);
        if (found != outgoing_.end() && found->second->is_up())
          node_.transport.probe(*found->second->handle());
      }) {}

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

void Neighbours::open(const std::shared_ptr<const InstalledCollective>& collective) {
  for (const LocalStream& stream : collective->streams()) open_stream(collective, stream);
  open_adders(shared_node_, collective, outgoing_, incoming_);
}

void Neighbours::open_stream(const std::shared_ptr<const InstalledCollective>& collective,
                             const LocalStream& stream) {
  std::vector<std::shared_ptr<OutgoingStream>> children;
  for (const std::string& child : stream.children) {
    children.push_back(outgoing_to(child).add_stream(collective, stream));
    dial(child);
  }
  for (const std::string& parent : stream.parents) {
    incoming_from(parent).add_stream(collective, stream).set_children(children);
  }
}

void Neighbours::install(const InstalledPlan& plan) {
  const bool is_paced = node_.options.paced;
  egress_.set_rate(is_paced ? plan.egress_bps() : kUnlimited, node_.clock.now());
  // A link that the plan goes around is as fast as it was.
  const auto set = [&](auto& link, std::optional<double> pace) {
    if (!is_paced || pace) link.set_pace(is_paced ? *pace : kUnlimited);
  };
  // All of them look anew at what they wait for: the node's own pace may be another.
  for (const auto& [peer, link] : outgoing_) set(*link, plan.pace_bps(peer).value_or(link->pace_bps()));
  for (const auto& [peer, link] : incoming_) set(*link, plan.pace_from_bps(peer));
  for (auto& [link, connection] : connections_) choose_channels(link, connection);
  departed_.set_plan(plan.shared_plan());
}

void Neighbours::close(const InstalledCollective& collective) {
  for (const LocalStream& stream : collective.streams()) {
    for (const std::string& child : stream.children) outgoing_to(child).remove_stream(stream.key);
    for (const std::string& parent : stream.parents) incoming_from(parent).remove_stream(stream.key);
  }
}

void Neighbours::set_address(const std::string& peer, const std::string& address, std::uint64_t incarnation) {
  // It may be back at its address, and its links up again, before anybody has seen it absent.
  if (incarnations_.note(peer, incarnation) && !node_.is_stopping) {
    take_for_gone(peer, "another process has its name");
    node_.lossy.forget(peer);
    host_.on_neighbour_replaced(peer);
  }
  if (std::exchange(addresses_[peer], address) != address) broken_.forget(peer);
  refusals_.forget(peer);
  departed_.forget(peer);
  if (outgoing_.contains(peer)) dial(peer);
}

void Neighbours::dial(const std::string& peer) {
  Dial& dial = dials_[peer];
  const auto address = addresses_.find(peer);
  if (dial.is_open || node_.is_stopping) return;
  // Who never comes has none: plans go around it as around a link that does not come up.
  if (address == addresses_.end()) return broken_.note_bad(peer, kFirstGrace);
  dial.is_open = true;
  broken_.note_bad(peer, kFirstGrace);
  connections_[node_.transport.open_link(peer, address->second)] = {.outgoing = &outgoing_to(peer)};
}

void Neighbours::redial_later(const std::string& peer) {
  Dial& closed = dials_[peer];
  closed.is_open = is_planted(Bug::kNeverDialledAgain);
  const TimePoint when = node_.clock.now() + closed.wait;
  node_.executor.post_at(when, life_.bind([this, peer] {
    if (is_needed(peer)) dial(peer);
  }));
  closed.wait = std::min(2 * closed.wait, kMaxRedialWait);
}

void Neighbours::choose_channels(LinkHandle link, Connection& connection) {
  if (connection.outgoing == nullptr || !connection.round_trip) return;
  OutgoingLink& outgoing = *connection.outgoing;
  if (!outgoing.has_streams()) return;  // a plan without it says nothing of its capacity
  const double bytes =
      bytes_under_way(outgoing.pace_bps(), to_seconds(*connection.round_trip), node_.options.window_bytes);
  const double wanted = std::ceil(bytes / static_cast<double>(kBytesPerRoundTrip));
  const auto channels = static_cast<std::size_t>(std::clamp(wanted, 1.0, static_cast<double>(kMaxChannels)));
  if (channels == connection.channels) return;
  connection.channels = channels;
  outgoing.set_channels(channels);
  node_.transport.set_channels(link, channels);
}

void Neighbours::on_link_up(LinkHandle link, LinkEnd end, const std::string& peer) {
  const bool was_lost = lost_.forget(end, peer);
  // A process that said goodbye may take a link yet before it ends.
  if (!node_.departures.has_said_goodbye(peer)) departed_.forget(peer);
  if (end == LinkEnd::kTail) refusals_.forget(peer);
  refusals_.end_seeking(peer);
  node_.heard.add(peer);
  note_heard(peer);
  if (end == LinkEnd::kTail) {
    OutgoingLink& outgoing = outgoing_to(peer);
    connections_[link] = {.outgoing = &outgoing};
    dials_[peer].wait = kMinRedialWait;
    broken_.note_well(peer);
    outgoing.set_channels(1);
    outgoing.on_up(link);
    prober_.on_up(peer, outgoing.pace_bps() != kUnlimited);
  } else {
    IncomingLink& incoming = incoming_from(peer);
    connections_[link] = {.incoming = &incoming};
    node_.landing.connect(link, peer);
    // A peer that comes back before its old connection was seen to die.
    const auto old = incoming.on_up(link);
    if (old) node_.transport.close_link(*old);
    // It is there: the link to it need not wait for its next attempt.
    if (is_needed(peer)) dial(peer);
  }
  host_.on_neighbour_up(peer);
  if (was_lost) host_.on_link_back(end, peer);
}

void Neighbours::on_link_down(LinkHandle link, const Status& reason) {
  const auto found = connections_.find(link);
  if (found == connections_.end()) return;
  const Connection connection = found->second;
  connections_.erase(found);
  const bool was_up = connection.incoming != nullptr || connection.outgoing->handle() == link;
  if (was_up) node_.heard.remove(connection.peer());
  if (connection.outgoing != nullptr) {
    if (was_up)
      broken_.note_bad(connection.peer(), kLostGrace + 4 * connection.round_trip.value_or(Duration(0)));
    return tail_down(*connection.outgoing, reason);
  }
  node_.landing.disconnect(link);
  // Unless a newer one has replaced it.
  if (connection.incoming->handle() == link) head_down(*connection.incoming, reason);
}

// A plan leads to it, or from it and nobody knows yet whether it is gone; or the link is to be used again.
bool Neighbours::is_needed(const std::string& peer) const {
  if (broken_.contains(peer) || refusals_.is_dialled(peer)) return true;
  const auto outgoing = outgoing_.find(peer);
  if (outgoing != outgoing_.end() && outgoing->second->has_streams()) return true;
  const auto incoming = incoming_.find(peer);
  return incoming != incoming_.end() && incoming->second->has_streams() && !incoming->second->is_up() &&
         !node_.departures.is_gone(peer);
}

// A plan leads to it, and nobody says that its process is no more.
bool Neighbours::may_avoid(const std::string& peer) const {
  const auto outgoing = outgoing_.find(peer);
  return outgoing != outgoing_.end() && outgoing->second->has_streams() &&
         !node_.departures.is_said_to_be_gone(peer);
}

void Neighbours::head_down(IncomingLink& link, const Status& reason) {
  link.on_down();
  if (node_.is_stopping) return;
  const std::string& peer = link.peer();
  tell_lost(LinkEnd::kHead, peer, reason);
  check_told_gone(peer);
  // It may have ended: only its host can say so.
  node_.executor.post_at(node_.clock.now() + kComeBackTime, life_.bind([this, peer] {
    if (!is_up(peer) && is_needed(peer)) dial(peer);
  }));
}

void Neighbours::tail_down(OutgoingLink& link, const Status& reason) {
  const std::string& peer = link.peer();
  redial_later(peer);
  if (link.is_up()) {
    if (link.is_suspected()) unheard_.insert(peer);
    link.on_down();
    prober_.on_down(peer);
    tell_lost(LinkEnd::kTail, peer, reason);
    if (is_planted(Bug::kLostLinkIsDeath)) return take_for_gone(peer, "its link was lost");
    return check_told_gone(peer);
  }
  log(LogLevel::kDebug, {.component = "node", .node = node_.options.name, .peer = peer},
      "{}: cannot open the link to \"{}\": {}", node_.options.name, peer, reason.to_string());
  if (reason.code() == StatusCode::kNotFound) return refusals_.note(peer, addresses_.at(peer), reason);
  refusals_.forget(peer);
  refusals_.end_seeking(peer);
}

void Neighbours::tell_lost(LinkEnd end, const std::string& peer, const Status& reason) {
  const bool is_tail = end == LinkEnd::kTail;
  const std::string& self = node_.options.name;
  log(LogLevel::kWarning, {.component = "node", .node = self, .peer = peer},
      "{}: link \"{}\" -> \"{}\" went down: {}", self, is_tail ? self : peer, is_tail ? peer : self,
      reason.to_string());
  lost_.note(end, peer, reason.message(), node_.clock.now());
}

void Neighbours::look_for(const std::string& peer) {
  if (node_.is_stopping || is_up(peer) || node_.departures.is_gone(peer) || !addresses_.contains(peer))
    return;
  refusals_.seek(peer);
  outgoing_to(peer);
  dial(peer);
}

void Neighbours::check_told_gone(const std::string& peer) {
  if (node_.departures.is_announced(peer) && !is_up(peer)) take_for_gone(peer);
}

void Neighbours::set_gone(const std::string& peer, const std::string& reason,
                          std::optional<FinishedOperations> finished) {
  if (node_.departures.is_gone(peer) || node_.is_stopping) return;
  node_.departures.announce(peer, reason, std::move(finished));
  if (!is_up(peer)) return take_for_gone(peer);
  if (is_suspected(peer)) close_links(peer);
}

void Neighbours::take_for_gone(const std::string& peer, const std::string& reason) {
  node_.departures.confirm(peer, reason);
  broken_.forget(peer);
  refusals_.end_seeking(peer);
  note_heard(peer);  // what was to be remembered until then
  if (node_.departures.left_in_order(peer)) departed_.begin(peer);
  host_.on_neighbour_gone(peer);
}

std::vector<LinkHandle> Neighbours::links_up(const std::string& peer) const {
  std::vector<LinkHandle> up;
  const auto outgoing = outgoing_.find(peer);
  const auto incoming = incoming_.find(peer);
  if (outgoing != outgoing_.end() && outgoing->second->is_up()) up.push_back(*outgoing->second->handle());
  if (incoming != incoming_.end() && incoming->second->is_up()) up.push_back(*incoming->second->handle());
  return up;
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
  if (found->second.outgoing != nullptr) {
    node_.measured.note_round_trip(found->second.peer(), round_trip);
    prober_.on_round_trip(found->second.peer(), round_trip);
  }
  choose_channels(link, found->second);
}

void Neighbours::on_capacity(LinkHandle link, double capacity_bps, bool is_probed) {
  const Connection* connection = find(link);
  if (connection == nullptr || connection->outgoing == nullptr) return;
  prober_.on_measured(connection->peer());
  node_.measured.note_capacity(connection->peer(), capacity_bps, is_probed, node_.clock.now());
}

void Neighbours::on_suspicion(LinkHandle link, bool is_suspected) {
  const Connection* connection = find(link);
  if (connection == nullptr || connection->outgoing == nullptr || connection->outgoing->handle() != link)
    return;
  const std::string& peer = connection->peer();
  const LogFields place{.component = "node", .node = node_.options.name, .peer = peer};
  if (!is_suspected && is_planted(Bug::kSuspicionNeverEnds)) return;
  if (is_planted(Bug::kSuspectIsGone)) return take_for_gone(peer, "it has fallen silent");
  if (is_suspected) {
    log(LogLevel::kWarning, place,
        "{}: node \"{}\" has fallen silent; blocks for it go other ways, where there are any",
        node_.options.name, peer);
  } else {
    log(LogLevel::kInfo, place, "{}: node \"{}\" speaks again", node_.options.name, peer);
  }
  is_suspected ? broken_.note_bad(peer, kSuspectGrace) : broken_.note_well(peer);
  node_.heard.set_suspected(peer, is_suspected);
  connection->outgoing->set_suspected(is_suspected);
  if (is_suspected && node_.departures.is_announced(peer)) close_links(peer);
}

void Neighbours::note_heard(const std::string& peer) {
  if (!unheard_.empty() && unheard_.erase(peer) > 0) node_.heard.set_suspected(peer, false);
}

bool Neighbours::is_suspected(const std::string& peer) const {
  const auto outgoing = outgoing_.find(peer);
  return unheard_.contains(peer) || (outgoing != outgoing_.end() && outgoing->second->is_suspected());
}

void Neighbours::close_links(const std::string& peer) {
  for (const LinkHandle link : links_up(peer)) node_.transport.close_link(link);
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
  for (const auto& [peer, link] : incoming_) link->drop_operation(session, operation);
}

bool Neighbours::is_idle() const {
  const auto is_idle = [](const auto& entry) { return entry.second->is_idle(); };
  return std::ranges::all_of(outgoing_, is_idle) && std::ranges::all_of(incoming_, is_idle);
}

void Neighbours::describe(NodeMetrics& metrics) const {
  metrics.troubles = broken_.troubles();
  for (LinkMetrics& link : metrics.links) {
    std::optional<LinkHandle> handle;
    if (link.direction == LinkDirection::kIn) {
      const auto incoming = incoming_.find(link.peer);
      if (incoming != incoming_.end()) handle = incoming->second->handle();
    } else if (const auto outgoing = outgoing_.find(link.peer); outgoing != outgoing_.end()) {
      handle = outgoing->second->handle();
      link.pace_bps = outgoing->second->pace_bps();
      describe_queues(*outgoing->second, link, metrics);
    }
    link.is_up = handle.has_value();
    const Connection* connection = handle ? find(*handle) : nullptr;
    if (connection == nullptr) continue;
    link.round_trip = connection->round_trip;
    link.channels = static_cast<std::uint32_t>(connection->channels);
  }
}

}  // namespace square
