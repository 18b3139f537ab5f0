#include "node/dispatcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/planted.h"
#include "node/operations/check_call.h"
#include "square/metrics.h"

namespace square {
namespace {

// Does the plan give this node the part that the call asks for?
Status check_part(const InstalledCollective& plan, const MemberOperation& call, const std::string& self) {
  const auto& sessions = plan.sessions();
  if (sessions.empty()) return Status::ok();  // all members live on one node
  for (const PlanSession& session : sessions) {
    const bool is_member = std::ranges::find(session.members, plan.self()) != session.members.end();
    if (call.is_root ? plan.self() == session.root : is_member) return Status::ok();
  }
  return invalid_argument(fmt::format("no session of collective {} {} node \"{}\"", call.collective.value(),
                                      call.is_root ? "starts at" : "reaches", self));
}

Status called_already(const MemberOperation& call) {
  return invalid_argument(fmt::format("rank {} has called operation {} of collective {} already",
                                      call.rank.value(), call.operation.value(), call.collective.value()));
}

// That all members here call the operation on, as far as one of them says.
std::size_t local_bytes(const MemberOperation& call, const Collective& collective) {
  return std::max(call.input.size(), call.output.size()) * std::max<std::size_t>(1, collective.ranks.size());
}

}  // namespace

DataPlane::Dispatcher::Dispatcher(DataPlaneOptions options, const Clock& clock, Transport& transport,
                                  Executor& executor)
    : shared_node_(new NodeContext{std::move(options), clock, transport, executor}),
      node_(*shared_node_),
      neighbours_(shared_node_, *this),
      plans_(node_, *this),
      relayed_sums_(shared_node_, neighbours_.outgoing(),
                    {[this](const LocalStream& stream, const Frame& frame) { answer(stream, frame); },
                     [this](CollectiveId collective, OperationId operation, const Status& cause) {
                       announce_failure({collective, operation}, cause, {});
                     }}),
      watches_(clock, executor),
      waiting_(node_.options.name, clock, executor,
               {[this](const MemberOperation& call) { return begin(call); },
                [this](const OperationKey& key, const Status& cause) { failures_.announce(key, cause); }}),
      operations_(shared_node_, *this, groups_, watches_, waiting_),
      failures_({node_, groups_, watches_, operations_, relayed_sums_, plans_, neighbours_}),
      agreement_(node_.options.name, groups_, operations_, failures_),
      frames_({node_, neighbours_, groups_, operations_, relayed_sums_, failures_, agreement_}) {
  node_.hold_limit_bytes = node_.options.window_bytes / 2;
}

void DataPlane::Dispatcher::on_strand(std::function<void(Dispatcher&)> task) {
  node_.executor.post(life_.bind([this, task = std::move(task)] { task(*this); }));
}

void DataPlane::Dispatcher::set_address(const std::string& peer, const std::string& address,
                                        std::uint64_t incarnation) {
  strangers_.name(peer);
  neighbours_.set_address(peer, address, incarnation);
}

void DataPlane::Dispatcher::install_plan(const std::shared_ptr<const Plan>& plan,
                                         std::function<void(Epoch)> installed) {
  plans_.install(plan, std::move(installed));
}

void DataPlane::Dispatcher::set_unplanned(const std::vector<CollectiveId>& collectives,
                                          const std::string& reason) {
  for (const CollectiveId id : collectives)
    failures_.poison({id, kEveryOperation}, failed_precondition(reason));
}

void DataPlane::Dispatcher::open(const CollectivePointer& collective) {
  groups_.learn(collective->planned());
  neighbours_.open(collective);
  for (const LocalStream& stream : collective->streams()) node_.landing.add_stream(stream);
}

void DataPlane::Dispatcher::close(const CollectivePointer& collective) {
  for (const LocalStream& stream : collective->streams()) node_.landing.remove_stream(stream.key);
  neighbours_.close(*collective);
  relayed_sums_.drop_closed(*collective);
  operations_.let_go(*collective);
  forget_if_over(collective->id());
}

void DataPlane::Dispatcher::set_members(CollectiveId id, const std::string& group, std::vector<Rank> ranks) {
  const std::size_t count = groups_.set_members(id, group, std::move(ranks)).ranks.size();
  operations_.set_member_count(id, count);
}

void DataPlane::Dispatcher::close_group(const std::string& group) {
  if (is_planted(Bug::kCloseForgotten)) return;
  for (const CollectiveId id : groups_.close(group)) {
    const Status cause = Collective::closed_before(id, node_.options.name);
    // Begun by others: they hear that nobody here will take part.
    operations_.fail_uncalled(id, cause);
    watches_.tell_collective(id, cause);
    forget_if_over(id);
  }
}

void DataPlane::Dispatcher::leave_group(const std::string& group, Rank member) {
  groups_.leave(group, member);
  for (const auto& [key, operation] : std::map(operations_.all())) {
    if (groups_.look(key.collective).group == group) fail_without_left(*operation);
  }
}

void DataPlane::Dispatcher::fail_without_left(Operation& operation) {
  const CollectiveId id = operation.key().collective;
  for (const Rank rank : groups_.left_of(id)) {
    if (!operation.has_posted(rank))
      return operation.fail(Collective::left_before(id, rank, node_.options.name), true);
  }
}

void DataPlane::Dispatcher::forget_if_over(CollectiveId id) {
  if (is_planted(Bug::kCollectivesRemembered)) return;
  if (!groups_.look(id).ranks.empty() || operations_.has(id) || plans_.knows(id)) return;
  groups_.forget(id);
}

Status DataPlane::Dispatcher::check_call(const MemberOperation& call, const Collective& collective) const {
  const std::string& self = node_.options.name;
  if (node_.is_stopping) return cancelled(fmt::format("node \"{}\" is stopping", self));
  if (collective.failure) {
    const bool is_late = collective.has_failed_with(call.operation, call.call);
    return is_late ? *collective.failure : collective.failed_before(call.collective);
  }
  if (collective.is_closed) return Collective::closed_before(call.collective, self);
  const CollectivePointer plan = plans_.active(call.collective);
  if (!plan) return unknown(call.collective);
  if (!collective.has_member(call.rank)) {
    return invalid_argument(fmt::format("rank {} is not a member of collective {} on node \"{}\"",
                                        call.rank.value(), call.collective.value(), self));
  }
  if (collective.has_finished(call.operation)) return called_already(call);
  SQUARE_RETURN_IF_ERROR(check_part(*plan, call, self));
  return square::check_call(call, *plan);
}

Status DataPlane::Dispatcher::unknown(CollectiveId collective) const {
  return not_found(fmt::format("no active plan on node \"{}\" knows collective {}", node_.options.name,
                               collective.value()));
}

void DataPlane::Dispatcher::post(MemberOperation call) {
  const OperationKey key{call.collective, call.operation};
  const Collective& collective = groups_.look(call.collective);
  const auto refuse = [&](const Status& why) {
    if (call.done) call.done(why);
  };
  if (const Status right = check_call(call, collective); !right.is_ok()) {
    // Its other members may have no part in what failed, and wait for this one.
    if (collective.failure) failures_.announce(key, Status(*collective.failure), call.call);
    return refuse(right);
  }
  const CollectivePointer plan = plans_.active(key.collective);
  const std::size_t bytes = local_bytes(call, collective);
  if (const Status fits = operations_.check_size(*plan, bytes); !fits.is_ok()) {
    failures_.announce(key, fits, call.call);  // the others would wait for it
    return refuse(fits);
  }
  const Status room = operations_.check_room(key, *plan, bytes);
  // An operation that is under way has its room, and those that wait begin in order.
  const bool is_next = operations_.find(key) || !waiting_.has(collective.group);
  if (!room.is_ok()) return waiting_.add(collective.group, std::move(call), room);
  if (!is_next) {
    return waiting_.add(collective.group, std::move(call),
                        resource_exhausted("calls before it have none yet"));
  }
  begin(call);
}

bool DataPlane::Dispatcher::begin(const MemberOperation& call) {
  const OperationKey key{call.collective, call.operation};
  const Collective& collective = groups_.look(call.collective);
  const auto refuse = [&](const Status& why) {
    if (call.done) call.done(why);
    return true;
  };
  const CollectivePointer plan = plans_.active(key.collective);
  if (!plan) return refuse(unknown(key.collective));
  const std::size_t bytes = local_bytes(call, collective);
  // The quota may be another one since the call was made.
  if (const Status fits = operations_.check_size(*plan, bytes); !fits.is_ok()) {
    failures_.announce(key, fits, call.call);
    return refuse(fits);
  }
  if (!operations_.check_room(key, *plan, bytes).is_ok()) return false;
  const auto operation = operations_.open(key, *plan);
  if (!operation) return false;
  if (operation->has_posted(call.rank)) return refuse(called_already(call));
  // Before any buffer is compared: whoever called something else must hear that, not of sizes.
  if (!agreement_.on_call(key, call)) return refuse(*groups_.look(call.collective).failure);
  operations_.on_call(key, *plan, plans_.active()->fastest_link_bps(), bytes);
  operation->post(call, plan);
  const Status there = node_.departures.check(*plan, key.operation);
  if (!there.is_ok()) operation->fail(there, true);
  fail_without_left(*operation);
  return true;
}

void DataPlane::Dispatcher::cancel(const OperationKey& key) {
  const auto operation = operations_.find(key);
  const Status cause =
      cancelled(fmt::format("a member on node \"{}\" cancelled the operation", node_.options.name));
  if (operation) {
    operation->fail(cause, true);
  } else if (waiting_.has(key)) {
    failures_.announce(key, cause);
  }
}

void DataPlane::Dispatcher::fail(OperationKey key, const Status& cause) {
  const Collective& collective = groups_.look(key.collective);
  if (node_.is_stopping || collective.failure || collective.is_closed) return;
  while (collective.has_finished(key.operation)) key.operation = OperationId(key.operation.value() + 1);
  failures_.announce(key, cause);
}

void DataPlane::Dispatcher::watch(const OperationKey& key, Duration timeout,
                                  std::function<void(Status)> arrived) {
  const std::string& self = node_.options.name;
  if (node_.is_stopping) return arrived(cancelled(fmt::format("node \"{}\" is stopping", self)));
  const Collective& collective = groups_.look(key.collective);
  if (collective.failure) return arrived(collective.failed_before(key.collective));
  if (collective.is_closed) return arrived(Collective::closed_before(key.collective, self));
  if (operations_.find(key) || collective.has_finished(key.operation)) return arrived(Status::ok());
  if (watches_.is_full()) {
    return arrived(resource_exhausted(
        fmt::format("members on node \"{}\" wait for {} operations already", self, kMaxWatches)));
  }
  watches_.add(key, timeout, std::move(arrived));
}

void DataPlane::Dispatcher::on_restart(const OperationKey& key, SessionId session) {
  operations_.shed_after(key, session);
  plans_.confirm();  // an older plan may be free now
}

void DataPlane::Dispatcher::on_finished(const OperationKey& key, const Status& outcome) {
  operations_.remove(key);
  agreement_.forget(key);
  if (!outcome.is_ok()) {
    failures_.poison(key, outcome);
  } else if (groups_.knows(key.collective) || plans_.knows(key.collective)) {
    groups_[key.collective].finish(key.operation);
  }
  forget_if_over(key.collective);
  plans_.confirm();
  finish_stop_if_quiet();
}

void DataPlane::Dispatcher::fill_sources(const StreamKey& key) {
  const CollectivePointer collective = plans_.find(key);
  const LocalStream* stream = collective ? collective->find(key) : nullptr;
  if (stream != nullptr && stream->starts_here()) operations_.fill(stream->collective, key);
}

void DataPlane::Dispatcher::on_link_back(LinkEnd end, const std::string& peer) {
  operations_.hurry([&](CollectiveId collective) {
    return std::ranges::any_of(plans_.ways_of(collective),
                               [&](const auto& way) { return LostLinks::uses(*way, end, peer); });
  });
}

std::string DataPlane::Dispatcher::lost_links(CollectiveId collective) const {
  const CollectivePointer plan = plans_.active(collective);
  std::string text = plan ? neighbours_.lost().describe(*plan, node_.clock.now()) : std::string();
  if (neighbours_.broken().lacks_controller())
    text += fmt::format("; node \"{}\" has no line to its controller, and may lack plans that others have",
                        node_.options.name);
  return text;
}

void DataPlane::Dispatcher::stop(std::function<void()> stopped) {
  const bool is_first = !std::exchange(node_.is_stopping, true);
  if (!is_first && stopped_.empty()) return stopped();  // it is over
  stopped_.push_back(std::move(stopped));
  if (!is_first) return;
  const Status cause = cancelled(fmt::format("node \"{}\" stopped", node_.options.name));
  operations_.fail_all(cause);
  watches_.tell_all(cause);
  node_.executor.post_at(node_.clock.now() + kDrainTime, life_.bind([this] { tell_stopped(); }));
  finish_stop_if_quiet();
}

void DataPlane::Dispatcher::finish_stop_if_quiet() {
  if (stopped_.empty() || !operations_.empty() || !neighbours_.is_idle()) return;
  const TimePoint quiet_at = last_frame_ + kLingerTime;
  if (node_.clock.now() >= quiet_at) return tell_stopped();
  if (!std::exchange(lingers_, true)) {
    node_.executor.post_at(quiet_at, life_.bind([this] {
      lingers_ = false;
      finish_stop_if_quiet();
    }));
  }
}

void DataPlane::Dispatcher::tell_stopped() {
  for (const auto& stopped : std::exchange(stopped_, {})) stopped();
}

std::string DataPlane::Dispatcher::describe(const OperationKey& key) const {
  const auto operation = operations_.find(key);
  return operation && operation->has_calls() ? operation->describe_missing() : std::string();
}

void DataPlane::Dispatcher::after(Duration delay, std::function<void()> then) {
  node_.executor.post_at(node_.clock.now() + delay, life_.bind(std::move(then)));
}

NodeStatistics DataPlane::Dispatcher::statistics() const {
  NodeStatistics now = node_.statistics;
  now.collectives = groups_.size();
  now.sessions = plans_.session_count();
  return now;
}

NodeMetrics DataPlane::Dispatcher::metrics() const {
  NodeMetrics metrics = node_.traffic.snapshot();
  metrics.node = node_.options.name;
  metrics.totals = statistics();
  neighbours_.describe(metrics);
  return metrics;
}

void DataPlane::Dispatcher::on_link_up(LinkHandle link, LinkEnd end, std::string_view peer) {
  node_.executor.post(life_.bind([this, link, end, peer = std::string(peer)] {
    if (end == LinkEnd::kTail || strangers_.admit(link, peer)) return neighbours_.on_link_up(link, end, peer);
    log(LogLevel::kWarning, {.component = "node", .node = node_.options.name, .peer = peer},
        "{}: sends node \"{}\" away: {} links of nodes that the controller has not named are open",
        node_.options.name, peer, kMaxStrangers);
    node_.transport.close_link(link);
  }));
}

void DataPlane::Dispatcher::on_frame(LinkHandle link, Frame frame) {
  // Into the members' buffers on this thread; what the frame means is the strand's to say.
  Landing landing = node_.landing.land(link, frame);
  node_.executor.post(
      life_.bind([this, link, frame = std::move(frame), landing = std::move(landing)]() mutable {
        last_frame_ = node_.clock.now();
        frames_.take(link, std::move(frame), std::move(landing));
      }));
}

void DataPlane::Dispatcher::on_sent(LinkHandle link) {
  node_.executor.post(life_.bind([this, link] {
    neighbours_.on_sent(link);
    finish_stop_if_quiet();
  }));
}

void DataPlane::Dispatcher::on_round_trip(LinkHandle link, Duration round_trip) {
  node_.executor.post(life_.bind([this, link, round_trip] { neighbours_.on_round_trip(link, round_trip); }));
}

void DataPlane::Dispatcher::on_capacity(LinkHandle link, double capacity_bps, bool is_probed) {
  node_.executor.post(life_.bind(
      [this, link, capacity_bps, is_probed] { neighbours_.on_capacity(link, capacity_bps, is_probed); }));
}

void DataPlane::Dispatcher::on_suspicion(LinkHandle link, bool is_suspected) {
  node_.executor.post(
      life_.bind([this, link, is_suspected] { neighbours_.on_suspicion(link, is_suspected); }));
}

void DataPlane::Dispatcher::on_link_down(LinkHandle link, Status reason) {
  node_.executor.post(life_.bind([this, link, reason = std::move(reason)] {
    strangers_.forget(link);
    neighbours_.on_link_down(link, reason);
    finish_stop_if_quiet();
  }));
}

}  // namespace square
