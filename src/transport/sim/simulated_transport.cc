#include "transport/sim/simulated_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "transport/pacing/wire_cost.h"

namespace square {

SimulatedTransport::SimulatedTransport(Simulation::State& simulation, std::string name)
    : simulation_(simulation), name_(std::move(name)) {}

SimulatedTransport::~SimulatedTransport() { stop(); }

Status SimulatedTransport::start(TransportHandler& handler) {
  if (!simulation_.transports.emplace(address(), this).second) {
    return unavailable(fmt::format("{} is in use by another node of the simulation", address()));
  }
  handler_ = &handler;
  *running_ = true;
  return Status::ok();
}

void SimulatedTransport::later(TimePoint when, Executor::Task task) {
  simulation_.schedule_at(name_, when, [running = running_, task = std::move(task)] {
    if (*running) task();
  });
}

void SimulatedTransport::happen(LinkHandle link, Executor::Task task, bool is_own) {
  const auto found = connections_.find(link);
  if (found == connections_.end()) return;
  if (!is_held(found->second, is_own)) return task();
  found->second.stalled.push_back({std::move(task), is_own});
}

bool SimulatedTransport::is_held(const Connection& connection, bool is_own) const {
  const LinkConditions& now = conditions(connection);
  return now.is_stalled || (now.mute && (*now.mute == connection.end) == is_own);
}

void SimulatedTransport::resume(LinkEnd end, const std::string& peer) {
  for (auto& [link, connection] : connections_) {
    if (connection.end != end || connection.peer != peer) continue;
    for (Held& held : std::exchange(connection.stalled, {})) {
      later(simulation_.clock.time,
            [this, link = link, held = std::move(held)] { happen(link, held.task, held.is_own); });
    }
  }
}

void SimulatedTransport::mind_silence(LinkEnd end, const std::string& peer) {
  for (auto& [link, connection] : connections_) {
    if (connection.end != end || connection.peer != peer) continue;
    const std::uint64_t stall = ++connection.stalls;
    for (const bool is_idle : {false, true}) {
      later(simulation_.clock.time + (is_idle ? 2 : 1) * kSimulatedSilence,
            [this, link = link, stall, is_idle] {
              const auto found = connections_.find(link);
              if (found == connections_.end() || found->second.stalls != stall) return;
              const LinkConditions& now = conditions(found->second);
              if (!now.is_stalled && !now.mute) return;
              if (is_idle || !found->second.stalled.empty())
                break_link(link, unavailable("the peer fell silent"));
            });
    }
  }
}

const LinkConditions& SimulatedTransport::conditions(const Connection& connection) const {
  return connection.end == LinkEnd::kTail ? simulation_.conditions(name_, connection.peer)
                                          : simulation_.conditions(connection.peer, name_);
}

SimulatedTransport* SimulatedTransport::other(const Connection& connection) const {
  const auto found = simulation_.transports.find(connection.other_address);
  return found == simulation_.transports.end() ? nullptr : found->second;
}

LinkHandle SimulatedTransport::open_link(std::string_view peer, std::string_view address) {
  const LinkHandle link(next_handle_++);
  connections_[link].peer = peer;
  const Duration delay = conditions(connections_[link]).delay;
  later(simulation_.clock.time + 2 * delay,
        [this, link, peer = std::string(peer), address = std::string(address)] {
          connect(link, peer, address);
        });
  return link;
}

void SimulatedTransport::connect(LinkHandle link, const std::string& peer, const std::string& address) {
  const auto found = connections_.find(link);
  if (found == connections_.end()) return;  // closed meanwhile
  const LinkConditions& line = conditions(found->second);
  if (line.is_cut || line.is_stalled || line.mute) {
    return later(simulation_.clock.time + kSimulatedConnectTime, [this, link, peer] {
      break_link(link, unavailable(fmt::format("node \"{}\" does not answer", peer)));
    });
  }
  const auto other = line.is_refused ? simulation_.transports.end() : simulation_.transports.find(address);
  if (other == simulation_.transports.end() || other->second->name_ != peer) {
    connections_.erase(found);
    handler_->on_link_down(link, not_found(fmt::format("cannot reach node \"{}\" at {}", peer, address)));
    return;
  }
  found->second.other_address = address;
  found->second.other_handle = other->second->accept(*this, link);
  const Duration round_trip = 2 * conditions(found->second).delay;
  handler_->on_link_up(link, LinkEnd::kTail, peer);
  handler_->on_round_trip(link, round_trip);
  watch(link);
}

// As long as the link is used.
void SimulatedTransport::watch(LinkHandle link) {
  Connection& connection = connections_.at(link);
  if (std::exchange(connection.is_watched, true)) return;
  connection.watch.begin(simulation_.clock.time);
  if (connection.watch.ping_is_due()) ping(connection);
  later(simulation_.clock.time + kWatchInterval, [this, link] { look(link); });
}

void SimulatedTransport::look(LinkHandle link) {
  const auto found = connections_.find(link);
  if (found == connections_.end()) return;
  LinkWatch& watch = found->second.watch;
  if (watch.look(simulation_.clock.time, false)) handler_->on_suspicion(link, true);
  measure(link, found->second);
  if (watch.ping_is_due()) ping(found->second);
  found->second.is_watched = !watch.rests();
  if (!watch.rests()) later(simulation_.clock.time + kWatchInterval, [this, link] { look(link); });
}

TimePoint SimulatedTransport::arrival_of_ping(const Connection& connection) {
  const LinkConditions& now = conditions(connection);
  Duration delay = now.delay;
  while (now.loss > 0 && simulation_.draw() < now.loss) {
    delay += std::max<Duration>(kSimulatedResendTime, 2 * now.delay);
  }
  return simulation_.clock.time + delay;
}

void SimulatedTransport::ping(Connection& connection) {
  const std::uint64_t number = connection.watch.ping(simulation_.clock.time);
  SimulatedTransport* const head = other(connection);
  if (head == nullptr) return;
  const LinkHandle there = connection.other_handle;
  head->later(arrival_of_ping(connection), [head, there, number] {
    head->happen(there, [head, there, number] { head->answer_ping(head->connections_.at(there), number); });
  });
}

void SimulatedTransport::answer_ping(const Connection& connection, std::uint64_t number) {
  SimulatedTransport* const tail = other(connection);
  if (tail == nullptr) return;
  const LinkHandle link = connection.other_handle;
  tail->later(arrival_of_ping(connection), [tail, link, number] {
    tail->happen(link, [tail, link, number] {
      Connection& asked = tail->connections_.at(link);
      tail->hear(link, asked);
      (void)asked.watch.pong(number, tail->simulation_.clock.time);
    });
  });
}

void SimulatedTransport::hear(LinkHandle link, Connection& connection) {
  if (connection.end == LinkEnd::kTail && connection.watch.note_heard()) handler_->on_suspicion(link, false);
}

LinkHandle SimulatedTransport::accept(SimulatedTransport& from, LinkHandle from_handle) {
  const LinkHandle link(next_handle_++);
  connections_[link] = {LinkEnd::kHead, from.name_, from.address(), from_handle};
  handler_->on_link_up(link, LinkEnd::kHead, from.name_);
  return link;
}

TimePoint SimulatedTransport::departure(Connection& connection, std::size_t payload_bytes,
                                        const LinkConditions& conditions) {
  const TimePoint now = simulation_.clock.time;
  if (connection.end == LinkEnd::kHead || conditions.capacity_bps == kUnlimited) return now;
  const double bits = wire_bits(payload_bytes);
  connection.ran_dry = connection.ran_dry || connection.busy_until <= now;
  connection.busy_until = std::max(connection.busy_until, now) + from_seconds(bits / conditions.capacity_bps);
  connection.sent_bits += bits;
  return connection.busy_until;
}

void SimulatedTransport::measure(LinkHandle link, Connection& connection) {
  const LinkConditions& wire = conditions(connection);
  const Duration left = connection.busy_until - simulation_.clock.time;
  const bool ran_dry = std::exchange(connection.ran_dry, left <= Duration(0));
  if (wire.capacity_bps == kUnlimited) return;
  const double waiting = std::max(0.0, to_seconds(left)) * wire.capacity_bps;
  const auto capacity = connection.meter.add({simulation_.clock.time, connection.sent_bits - waiting,
                                              2 * wire.delay, !ran_dry && left > Duration(0)});
  if (capacity) handler_->on_capacity(link, *capacity, false);
}

TimePoint SimulatedTransport::arrival(Connection& connection, const FrameHeader& header, TimePoint left,
                                      const LinkConditions& conditions) {
  const Duration jitter = from_seconds(simulation_.draw() * to_seconds(conditions.jitter));
  const std::pair<std::uint64_t, std::uint64_t> stream{
      (std::uint64_t{header.epoch.value()} << 32U) | header.session.value(), header.stream.value()};
  TimePoint& last = connection.last_arrival[stream];
  last = std::max(last, left + conditions.delay + jitter);
  return last;
}

void SimulatedTransport::send(LinkHandle link, Frame frame) {
  const auto found = connections_.find(link);
  if (found == connections_.end()) return;
  Connection& connection = found->second;
  SimulatedTransport* const head = other(connection);
  if (head == nullptr) return;
  if (connection.end == LinkEnd::kTail) {
    connection.watch.note_use();
    watch(link);
  }
  connection.leaving.push_back(frame.payload);  // as long as it cannot leave
  // The wire keeps no reference to the sender's memory.
  std::vector<std::byte> bytes(frame.payload.size_bytes());
  frame.payload.copy_to(bytes.data());
  frame.payload = Buffer::copy_of(bytes);
  const LinkConditions& now = conditions(connection);
  const bool is_omitted =
      connection.end == LinkEnd::kTail && now.omission > 0 && simulation_.draw() < now.omission;
  const bool lost = simulation_.draw() < now.loss || is_omitted;
  const TimePoint left = departure(connection, frame.payload.size_bytes(), now);
  const TimePoint when = arrival(connection, frame.header, left, now);
  const bool is_damaged = now.corruption > 0 && simulation_.draw() < now.corruption;
  const double where = is_damaged ? simulation_.draw() : 0.0;
  const int copies = now.duplication > 0 && simulation_.draw() < now.duplication ? 2 : 1;
  for (int copy = 0; copy < copies; ++copy) {
    head->later(when, [head, to = connection.other_handle, frame, lost, is_damaged, where] {
      head->happen(to, [head, to, frame, lost, is_damaged, where] {
        is_damaged ? head->take_damaged(to, frame, where) : head->take(to, frame, lost);
      });
    });
  }
  later(std::max(simulation_.clock.time, left - kSimulatedQueueTime), [this, link] {
    happen(
        link, [this, link] { let_go(link); }, true);
  });
}

void SimulatedTransport::take_damaged(LinkHandle link, const Frame& frame, double where) {
  const auto header = encode_header(frame);
  std::vector<std::byte> bytes(header.begin(), header.end());
  bytes.resize(header.size() + frame.payload.size_bytes());
  frame.payload.copy_to(bytes.data() + header.size());
  const auto bit = static_cast<std::size_t>(where * 8.0 * static_cast<double>(bytes.size()));
  bytes[bit / 8] ^= std::byte{1} << (bit % 8);
  Buffer message = Buffer::copy_of(bytes);
  Result<Frame> taken = take_frame(message);
  if (taken.is_ok()) return take(link, *std::move(taken), false);
  const auto found = connections_.find(link);
  if (found == connections_.end()) return;
  if (SimulatedTransport* const far = other(found->second); far != nullptr) {
    far->later(simulation_.clock.time + conditions(found->second).delay,
               [far, to = found->second.other_handle, reason = taken.status()] {
                 far->happen(to, [far, to, reason] { far->break_link(to, reason); });
               });
  }
  break_link(link, taken.status());
}

void SimulatedTransport::let_go(LinkHandle link) {
  const auto found = connections_.find(link);
  if (found == connections_.end()) return;
  found->second.leaving.pop_front();
  handler_->on_sent(link);
}

void SimulatedTransport::take(LinkHandle link, Frame frame, bool lost) {
  const TimePoint now = simulation_.clock.time;
  if (patience_ == Duration(0)) return deliver(link, std::move(frame), lost);
  // Also what comes at the very moment of a look waits its turn, behind what came before.
  looks_at_ = std::max(looks_at_, tick_after(now, patience_));
  later(looks_at_, [this, link, frame = std::move(frame), lost] { deliver(link, frame, lost); });
}

void SimulatedTransport::deliver(LinkHandle link, Frame frame, bool lost) {
  if (!connections_.contains(link)) return;
  const FrameHeader& header = frame.header;
  simulation_.trace({static_cast<std::uint64_t>(simulation_.clock.time.time_since_epoch().count()),
                     link.value(), static_cast<std::uint64_t>(header.type), header.session.value(),
                     header.stream.value(), header.operation.value(), header.offset_bytes,
                     header.hop_sequence, lost ? 1U : 0U, crc32c(frame.payload)});
  if (lost) {
    ++simulation_.dropped;
    return;
  }
  ++simulation_.delivered;
  hear(link, connections_.at(link));
  handler_->on_frame(link, std::move(frame));
}

void SimulatedTransport::break_link(LinkHandle link, Status reason) {
  if (connections_.erase(link) == 1) handler_->on_link_down(link, std::move(reason));
}

// Padding fills the wire for a while, behind what is there.
void SimulatedTransport::probe(LinkHandle link) {
  const auto found = connections_.find(link);
  if (found == connections_.end()) return;
  Connection& connection = found->second;
  const LinkConditions& wire = conditions(connection);
  if (connection.end == LinkEnd::kHead || wire.is_stalled) return;
  connection.busy_until = std::max(connection.busy_until, simulation_.clock.time);
  if (wire.capacity_bps < kUnlimited) {
    connection.busy_until += kSimulatedProbeTime;
    connection.sent_bits += wire.capacity_bps * to_seconds(kSimulatedProbeTime);
  }
  later(connection.busy_until + 2 * wire.delay, [this, link] {
    const auto probed = connections_.find(link);
    if (probed != connections_.end())
      handler_->on_capacity(link, conditions(probed->second).capacity_bps, true);
  });
}

void SimulatedTransport::close_link(LinkHandle link) {
  const auto found = connections_.find(link);
  if (found == connections_.end()) return;
  const Connection connection = found->second;
  if (SimulatedTransport* const far = other(connection); far != nullptr) {
    far->later(simulation_.clock.time + conditions(connection).delay,
               [far, to = connection.other_handle, name = name_] {
                 far->happen(to, [far, to, name] {
                   far->break_link(to, unavailable(fmt::format("node \"{}\" closed the link", name)));
                 });
               });
  }
  later(simulation_.clock.time, [this, link] { break_link(link, cancelled("the link was closed")); });
}

void SimulatedTransport::cut(const std::string& peer) {
  std::vector<LinkHandle> links;
  for (const auto& [link, connection] : connections_) {
    const bool is_open = connection.end == LinkEnd::kTail && !connection.other_address.empty();
    if (is_open && connection.peer == peer) links.push_back(link);
  }
  for (const LinkHandle link : links) {
    const Connection connection = connections_.at(link);
    const Status reason = unavailable("the line is cut");
    if (SimulatedTransport* const far = other(connection); far != nullptr)
      far->break_link(connection.other_handle, reason);
    break_link(link, reason);
  }
}

void SimulatedTransport::stop() {
  if (!*running_) return;
  while (!connections_.empty()) {
    const LinkHandle link = connections_.begin()->first;
    close_link(link);
    break_link(link, cancelled("the transport was stopped"));
  }
  *running_ = false;
  simulation_.transports.erase(address());
}

}  // namespace square
