// Plans come and go, links go up and down.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/log.h"
#include "node/core.h"

namespace square {

void DataPlane::Core::install_plan(const std::shared_ptr<const Plan>& plan,
                                   std::function<void(Epoch)> installed) {
  const Epoch epoch = plan->epoch;
  if (is_stopping_ || (!plans_.empty() && epoch <= plans_.rbegin()->first)) return installed(epoch);
  // Half of the window holds blocks in transit, and two plans may be live.
  const auto local =
      std::make_shared<const InstalledPlan>(plan, context_.options.name, context_.options.window_bytes / 4);
  plans_.emplace(epoch, local);
  for (const PlanSession& session : plan->sessions) {
    std::size_t& largest = largest_blocks_[session.id];
    largest = std::max(largest, local->largest_block_bytes(session.id));
  }
  egress_.set_rate(context_.options.paced ? local->egress_bps() : kUnlimited);
  learn_groups(*plan);
  follow_plans();
  open_links(*local);
  open_incoming(*local);
  log(LogLevel::kInfo, {.component = "node", .node = context_.options.name, .epoch = epoch},
      "{}: installed plan {} ({}), {} streams", context_.options.name, epoch.value(), plan->policy,
      local->streams().size());
  pending_installs_.push_back({epoch, std::move(installed)});
  move_up();
}

// Operations of a plan before the active one move up, so that it can go. What holds a sum
// back may be another node, which was told in a frame that got lost: said again until it works.
void DataPlane::Core::move_up() {
  if (active_) {
    const auto active = plans_.at(*active_);
    const auto operations = operations_;
    for (const auto& [key, operation] : operations) operation->migrate(active);
  }
  confirm_installs();
  if (pending_installs_.empty() || move_timer_ != 0) return;
  move_timer_ = context_.executor.post_at(context_.clock.now() + kMoveWait, life_.bind([this] {
    move_timer_ = 0;
    if (!is_stopping_) move_up();
  }));
}

void DataPlane::Core::confirm_installs() {
  const auto is_in_use = [&] {
    return active_ && std::ranges::any_of(operations_, [&](const auto& entry) {
             return entry.second->runs_before(*active_);
           });
  };
  if (pending_installs_.empty() || is_in_use()) return;
  const auto pending = std::exchange(pending_installs_, {});
  for (const PendingInstall& install : pending) install.installed(install.epoch);
}

void DataPlane::Core::activate_plan(Epoch epoch) {
  if (!plans_.contains(epoch) || (active_ && epoch <= *active_)) return;
  const std::optional<Epoch> previous = std::exchange(active_, epoch);
  if (previous) retire_before(*previous);
  follow_plans();
  confirm_installs();
}

void DataPlane::Core::retire_before(Epoch epoch) {
  while (!plans_.empty() && plans_.begin()->first < epoch) {
    for (const auto& [key, stream] : plans_.begin()->second->streams()) {
      context_.landing.remove_stream(key);
      for (const std::string& child : stream.children) outgoing_.at(child)->remove_stream(key);
      for (const std::string& parent : stream.parents) {
        incoming_from(parent).remove_stream(key);
      }
    }
    plans_.erase(plans_.begin());
    relayed_sums_.drop_before(epoch);
  }
}

void DataPlane::Core::open_links(const InstalledPlan& plan) {
  for (const auto& [key, stream] : plan.streams()) {
    for (const std::string& child : stream.children) {
      auto& link = outgoing_[child];
      if (!link) {
        link = std::make_unique<OutgoingLink>(context_, child, egress_, flush_);
        const auto same = incoming_.find(child);
        if (same != incoming_.end()) same->second->set_way_back(link.get());
      }
      link->add_stream(stream);
      dial(child);
    }
  }
  for (const auto& [peer, link] : outgoing_) {
    link->set_pace(context_.options.paced ? plan.pace_bps(peer) : kUnlimited);
    if (link->is_up()) choose_channels(*link->handle());
  }
}

void DataPlane::Core::choose_channels(LinkHandle link) {
  Connection& connection = connections_.at(link);
  if (connection.end == LinkEnd::kHead || !connection.round_trip) return;
  OutgoingLink& outgoing = *outgoing_.at(connection.peer);
  const double round_trip = to_seconds(*connection.round_trip);
  // An unlimited link is as fast as credit allows, and a plan has a quarter of the head's window.
  double bytes = outgoing.pace_bps() * round_trip / kBitsPerByte;
  if (outgoing.pace_bps() == kUnlimited) {
    bytes = std::min(kUnlimitedWindowBps * round_trip / kBitsPerByte,
                     static_cast<double>(context_.options.window_bytes) / 4);
  }
  const double wanted = std::ceil(bytes / static_cast<double>(kBytesPerRoundTrip));
  const auto channels = static_cast<std::size_t>(std::clamp(wanted, 1.0, static_cast<double>(kMaxChannels)));
  if (channels == connection.channels) return;
  connection.channels = channels;
  outgoing.set_channels(channels);
  context_.transport.set_channels(link, channels);
}

void DataPlane::Core::fill_sources(const StreamKey& key) {
  const auto plan = plans_.find(key.epoch);
  const LocalStream* stream = plan == plans_.end() ? nullptr : plan->second->find(key);
  if (stream == nullptr || !stream->starts_here()) return;
  auto next = operations_.lower_bound({stream->collective, OperationId(0)});
  while (next != operations_.end() && next->first.collective == stream->collective) {
    const auto operation = (next++)->second;
    if (!operation->fill(key)) return;
  }
}

void DataPlane::Core::open_incoming(const InstalledPlan& plan) {
  for (const auto& [key, stream] : plan.streams()) {
    context_.landing.add_stream(stream);
    for (const std::string& parent : stream.parents) {
      incoming_from(parent).add_stream(stream);
    }
  }
  for (const auto& [peer, link] : incoming_) {
    link->set_pace(context_.options.paced ? plan.pace_from_bps(peer) : kUnlimited);
  }
}

IncomingLink& DataPlane::Core::incoming_from(const std::string& peer) {
  auto& link = incoming_[peer];
  if (!link) {
    link = std::make_unique<IncomingLink>(shared_context_, flush_);
    const auto same = outgoing_.find(peer);
    if (same != outgoing_.end()) link->set_way_back(same->second.get());
  }
  return *link;
}

void DataPlane::Core::set_address(const std::string& peer, const std::string& address) {
  addresses_[peer] = address;
  if (outgoing_.contains(peer)) dial(peer);
}

void DataPlane::Core::dial(const std::string& peer) {
  Dial& dial = dials_[peer];
  const auto address = addresses_.find(peer);
  if (dial.is_open || is_stopping_ || address == addresses_.end()) return;
  dial.is_open = true;
  connections_[context_.transport.open_link(peer, address->second)] = {LinkEnd::kTail, peer};
}

void DataPlane::Core::on_link_up(LinkHandle link, LinkEnd end, std::string_view peer) {
  on_strand([link, end, peer = std::string(peer)](Core& core) { core.link_up(link, end, peer); });
}

void DataPlane::Core::link_up(LinkHandle link, LinkEnd end, const std::string& peer) {
  connections_[link] = {end, peer};
  lost_links_.erase({end, peer});
  if (end == LinkEnd::kTail) {
    dials_[peer].wait = kMinRedialWait;
    outgoing_.at(peer)->set_channels(1);
    outgoing_.at(peer)->on_up(link);
    return repeat_aborts(peer);
  }
  context_.landing.connect(link, peer);
  // A peer that comes back before its old connection was seen to die.
  const auto old = incoming_from(peer).on_up(link);
  if (old) context_.transport.close_link(*old);
  repeat_aborts(peer);
}

void DataPlane::Core::on_sent(LinkHandle link) {
  on_strand([link](Core& core) {
    const auto found = core.connections_.find(link);
    if (found == core.connections_.end()) return;
    if (found->second.end == LinkEnd::kTail) {
      core.outgoing_.at(found->second.peer)->on_sent();
    } else if (IncomingLink& incoming = core.incoming_from(found->second.peer); incoming.handle() == link) {
      incoming.on_sent();
    }
    core.finish_stop_if_quiet();
  });
}

void DataPlane::Core::on_link_down(LinkHandle link, Status reason) {
  on_strand([link, reason = std::move(reason)](Core& core) { core.link_down(link, reason); });
}

void DataPlane::Core::link_down(LinkHandle link, const Status& reason) {
  const auto found = connections_.find(link);
  if (found == connections_.end()) return;
  const Connection connection = found->second;
  connections_.erase(found);
  if (connection.end == LinkEnd::kTail) return tail_down(connection.peer, reason);
  context_.landing.disconnect(link);
  IncomingLink& incoming = incoming_from(connection.peer);
  if (incoming.handle() != link) return;  // replaced by a newer one
  incoming.on_down();
  finish_stop_if_quiet();
  head_down(connection.peer, reason);
}

void DataPlane::Core::tail_down(const std::string& peer, const Status& reason) {
  Dial& closed = dials_[peer];
  const bool was_up = outgoing_.at(peer)->is_up();
  closed.is_open = false;
  log(was_up ? LogLevel::kWarning : LogLevel::kDebug,
      {.component = "node", .node = context_.options.name, .peer = peer}, "{}: link to \"{}\" is down: {}",
      context_.options.name, peer, reason.to_string());
  context_.executor.post_at(context_.clock.now() + closed.wait, life_.bind([this, peer] { dial(peer); }));
  closed.wait = std::min(2 * closed.wait, kMaxRedialWait);
  if (!was_up) return;
  outgoing_.at(peer)->on_down();
  lost_links_[{LinkEnd::kTail, peer}] = reason.message();
  const Status cause = unavailable(
      fmt::format("link \"{}\" -> \"{}\" went down: {}", context_.options.name, peer, reason.message()));
  std::set<SessionId> sessions;
  for (const auto& [epoch, plan] : plans_) {
    for (const auto& [key, stream] : plan->streams()) {
      if (std::ranges::find(stream.children, peer) != stream.children.end()) sessions.insert(key.session);
    }
  }
  fail_sessions(sessions, cause);
}

void DataPlane::Core::head_down(const std::string& peer, const Status& reason) {
  if (is_stopping_) return;
  lost_links_[{LinkEnd::kHead, peer}] = reason.message();
  const Status cause = unavailable(
      fmt::format("link \"{}\" -> \"{}\" went down: {}", peer, context_.options.name, reason.message()));
  std::set<SessionId> sessions;
  for (const auto& [epoch, plan] : plans_) {
    for (const auto& [key, stream] : plan->streams()) {
      if (stream.comes_from(peer)) sessions.insert(key.session);
    }
  }
  fail_sessions(sessions, cause);
}

// Whatever runs in these sessions cannot be trusted to end: tell everybody.
void DataPlane::Core::fail_sessions(const std::set<SessionId>& sessions, const Status& cause) {
  if (is_stopping_) return;
  const auto plans = plans_;
  for (const SessionId session : sessions) {
    // Its own count after its own name: no other abort has this number.
    const std::uint64_t own = std::uint64_t{crc32c(std::as_bytes(std::span(context_.options.name)))} << 32U;
    const Abort abort{session, kEveryOperation, own | ++abort_count_, cause};
    static_cast<void>(remember(abort));
    relayed_sums_.drop_session(session);
    for (const auto& [epoch, plan] : plans) {
      const PlanSession* planned = plan->plan().find_session(session);
      if (planned == nullptr) continue;
      fail_all(planned->collective, cause);
      pass_abort(*plan, abort, "");
    }
  }
}

// What keeps an operation from ending: a link that was lost before it was called. `next` is set to
// when to look again, where the wait for one is not over yet.
Status DataPlane::Core::check_lost_links(const InstalledPlan& plan, CollectiveId collective, TimePoint since,
                                         std::optional<TimePoint>& next) const {
  const TimePoint now = context_.clock.now();
  for (const PlanSession* session : plan.sessions_of(collective)) {
    for (const LocalStream* stream : plan.streams_of(session->id)) {
      for (const auto& [lost, reason] : lost_links_) {
        const auto& [end, peer] = lost;
        const bool is_tail = end == LinkEnd::kTail;
        const bool uses = is_tail ? std::ranges::find(stream->children, peer) != stream->children.end()
                                  : stream->comes_from(peer);
        if (!uses) continue;
        const bool is_member =
            std::ranges::find(session->members, plan.plan().find_node(peer)) != session->members.end();
        const Duration wait = is_member ? kMemberReturnTime : kRelayReturnTime;
        if (now < since + wait) {
          next = std::min(next.value_or(since + wait), since + wait);
          continue;
        }
        const std::string& self = context_.options.name;
        return unavailable(
            fmt::format("link \"{}\" -> \"{}\" went down and did not come back in {:.0f} s: {}",
                        is_tail ? self : peer, is_tail ? peer : self, to_seconds(wait), reason));
      }
    }
  }
  return Status::ok();
}

// A link that goes down ends what runs over it at once. What is called while it is down waits for it,
// but not for as long as the operation may take.
void DataPlane::Core::await_lost_links(const OperationKey& key,
                                       const std::shared_ptr<const InstalledPlan>& plan, TimePoint since) {
  if (lost_links_.empty() || is_stopping_) return;
  const auto found = operations_.find(key);
  if (found == operations_.end()) return;
  const auto operation = found->second;
  // It may have moved to a plan that goes around.
  const auto current = active_ && !operation->runs_before(*active_) ? plans_.at(*active_) : plan;
  std::optional<TimePoint> next;
  const Status reachable = check_lost_links(*current, key.collective, since, next);
  if (!reachable.is_ok()) return operation->fail(reachable, true);
  if (!next) return;
  context_.executor.post_at(*next,
                            life_.bind([this, key, plan, since] { await_lost_links(key, plan, since); }));
}

}  // namespace square
