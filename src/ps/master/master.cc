#include "ps/master/master.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "ps/layout.h"
#include "ps/master/record.h"

namespace square::ps {

MasterState::MasterState(TrainingOptions settings, std::uint64_t maker,
                         std::function<void(PeerId, v1::PsOrder)> send, std::function<void(PeerId)> close)
    : parts_({std::move(settings), maker, std::move(send), std::move(close), {}, {}},
             {[this](const v1::PsRecord& record) { on_making(record); },
              [this](const v1::PsRecord& record) { on_committed(record); },
              [this](const std::vector<Push>& pushes, std::uint64_t version, const Status& reason) {
                on_skipped(pushes, version, reason);
              }}) {}

void MasterState::on_report(PeerId peer, const v1::PsReport& report, TimePoint now) {
  parts_.desk.now = std::max(parts_.desk.now, now);
  if (report.has_hello()) {
    admission_.on_hello(peer, report.hello());
  } else if (WorkerEntry* const worker = parts_.members.worker_at(peer)) {
    worker->heard = parts_.desk.now;
    on_worker_report(*worker, report);
  } else if (ServerEntry* const server = parts_.members.server_at(peer)) {
    server->heard = parts_.desk.now;
    on_server_report(*server, report);
  }
  parts_.rounds.on_time();
}

void MasterState::on_worker_report(WorkerEntry& worker, const v1::PsReport& report) {
  switch (report.what_case()) {
    case v1::PsReport::kPush: return on_push(worker, report.push());
    case v1::PsReport::kPushFailed: return on_pushes(parts_.pushes.on_failed(worker, report.push_failed()));
    case v1::PsReport::kReceived: return parts_.pulls.on_received(worker, report.received());
    case v1::PsReport::kAdopted: return on_adopted(worker, report.adopted());
    case v1::PsReport::kLease: return on_lease(worker, report.lease().chunks());
    case v1::PsReport::kLeave: return departures_.remove(worker.name);
    default: return;
  }
}

void MasterState::on_adopted(WorkerEntry& worker, const v1::PsAdopted& adopted) {
  worker.base_version = adopted.version();
  if (worker.last_push_at != TimePoint{}) {
    worker.wait_seconds = to_seconds(parts_.desk.now - worker.last_push_at);
  }
  parts_.pulls.end(worker.name);
  if (adopted.has_dropped_work()) departures_.release_chunks(worker.name);
}

void MasterState::on_server_report(ServerEntry& server, const v1::PsReport& report) {
  switch (report.what_case()) {
    case v1::PsReport::kPushTaken: return on_pushes(parts_.pushes.on_taken(server, report.push_taken()));
    case v1::PsReport::kAveraged: return parts_.rounds.on_averaged(server, report.averaged());
    case v1::PsReport::kMade: return parts_.rounds.on_made(server, report.made());
    case v1::PsReport::kSendFailed: return parts_.pulls.on_send_failed(server, report.send_failed().ticket());
    case v1::PsReport::kDropped: return parts_.rounds.on_dropped(server, report.dropped());
    case v1::PsReport::kLeave:
      return departures_.lose(server, unavailable(fmt::format("server \"{}\" left", server.name)));
    default: return;
  }
}

Status MasterState::check(const WorkerEntry& worker, const v1::PsPush& push) {
  const std::uint64_t version = parts_.desk.committed.version();
  if (push.tokens() == 0) return invalid_argument("a push of no tokens");
  if (push.tokens() > kMaxPushTokens) {
    return invalid_argument(
        fmt::format("a push of {} tokens: at most {} may be", push.tokens(), kMaxPushTokens));
  }
  if (push.base_version() == 0 || push.base_version() > version) {
    return failed_precondition(
        fmt::format("a push from version {}: the newest is {}", push.base_version(), version));
  }
  const std::uint64_t staleness = rounds_since(parts_.desk.committed.record, push.base_version());
  if (parts_.desk.settings.max_staleness && staleness > *parts_.desk.settings.max_staleness) {
    return failed_precondition(fmt::format("a push from version {}, {} behind: at most {} may be",
                                           push.base_version(), staleness,
                                           *parts_.desk.settings.max_staleness));
  }
  const std::vector<std::uint64_t> chunks(push.chunks().begin(), push.chunks().end());
  if (!parts_.chunks.are_held(worker.name, chunks)) {
    return failed_precondition("a push of chunks that are not this worker's");
  }
  return {};
}

void MasterState::on_push(WorkerEntry& worker, const v1::PsPush& message) {
  if (worker.last_push_at != TimePoint{}) {
    const double since = to_seconds(parts_.desk.now - worker.last_push_at);
    worker.interval_seconds =
        worker.interval_seconds > 0 ? 0.7 * worker.interval_seconds + 0.3 * since : since;
  }
  worker.last_push_at = parts_.desk.now;
  worker.last_push = message.number();
  if (parts_.pushes.has_of(worker.name) || parts_.rounds.push_of(worker.name) != nullptr) {
    outcomes_.tell(worker.name, message.number(), v1::PsPushOutcome::SKIPPED, "its last push is not settled");
    return;
  }
  if (const Status allowed = check(worker, message); !allowed.is_ok()) {
    const auto kind = message.tokens() == 0 ? v1::PsPushOutcome::SKIPPED : v1::PsPushOutcome::REFUSED;
    outcomes_.tell(worker.name, message.number(), kind, allowed.message());
    if (kind == v1::PsPushOutcome::REFUSED) {
      departures_.release_chunks(worker.name);
      parts_.pulls.begin(worker.name, parts_.desk.committed.record, true);
    }
    return;
  }
  if (const std::string why = obstacle(); !why.empty()) {
    ++worker.skipped;
    outcomes_.tell(worker.name, message.number(), v1::PsPushOutcome::SKIPPED, why);
    return;
  }
  Push push;
  push.ticket = ++parts_.last_ticket;
  push.worker = worker.name;
  push.incarnation = worker.incarnation;
  push.number = message.number();
  push.base_version = message.base_version();
  push.tokens = message.tokens();
  push.chunks.assign(message.chunks().begin(), message.chunks().end());
  ++worker.pushes;
  parts_.pushes.begin(std::move(push));
}

std::string MasterState::obstacle() const {
  std::string missing;
  if (!parts_.members.are_ready(parts_.desk.committed.record.layout(), &missing)) {
    return fmt::format("server \"{}\" is away", missing);
  }
  return moves_.keeps_pushes_out() ? "parts of the model move to another server" : "";
}

void MasterState::on_pushes(Pushes::Outcome outcome) {
  if (outcome.failed) {
    if (!outcome.failed->is_seed) outcomes_.skip(*outcome.failed, outcome.reason);
  }
  if (!outcome.held) return;
  Push push = std::move(*outcome.held);
  if (push.is_seed) {
    parts_.rounds.begin_seed(std::move(push));
    return;
  }
  if (WorkerEntry* const worker = parts_.members.worker(push.worker)) {
    worker->push_seconds = to_seconds(parts_.desk.now - push.since);
  }
  outcomes_.tell(push.worker, push.number, v1::PsPushOutcome::ACCEPTED);
  parts_.rounds.add(std::move(push));
}

void MasterState::on_lease(const WorkerEntry& worker, std::uint32_t wanted) {
  v1::PsOrder order;
  v1::PsLeases& leases = *order.mutable_leases();
  for (const std::uint64_t chunk : parts_.chunks.lease(worker.name, std::min(wanted, kMaxLeaseRequest))) {
    leases.add_chunks(chunk);
  }
  leases.set_is_finished(parts_.chunks.is_finished());
  parts_.desk.tell(worker.peer, std::move(order));
}

void MasterState::on_making(const v1::PsRecord& record) {
  for (const v1::PsPushed& pushed : record.pushes()) {
    const WorkerEntry* const worker = parts_.members.worker(pushed.worker());
    if (worker != nullptr && worker->incarnation == pushed.incarnation()) {
      parts_.pulls.begin(pushed.worker(), record, false);
    }
  }
}

void MasterState::on_committed(const v1::PsRecord& record) {
  moves_.on_committed(record.version());
  admission_.welcome_servers();
  if (record.version() == 1) {
    admission_.on_seeded();
    return;
  }
  parts_.pulls.on_committed(record.version());
  for (const v1::PsPushed& pushed : record.pushes()) {
    const std::vector<std::uint64_t> chunks(pushed.chunks().begin(), pushed.chunks().end());
    parts_.chunks.finish(chunks);
    outcomes_.tell_committed(pushed, record.version());
    WorkerEntry* const worker = parts_.members.worker(pushed.worker());
    if (worker == nullptr) continue;
    // Also where its line broke meanwhile, and the pull with it.
    if (worker->incarnation == pushed.incarnation()) parts_.pulls.begin(worker->name, record, true);
    worker->staleness = rounds_since(record, pushed.base_version()) - 1;
    worker->norm = pushed.norm();
    worker->score = pushed.score();
    if (pushed.decision() != static_cast<std::uint32_t>(Decision::kTaken)) ++worker->excluded;
  }
}

void MasterState::on_skipped(const std::vector<Push>& pushes, std::uint64_t version, const Status& reason) {
  if (version != 0) {
    moves_.on_skipped(version);
    parts_.pulls.cancel(version);
    admission_.welcome_servers();
  }
  for (const Push& push : pushes) {
    if (!push.is_seed) outcomes_.skip(push, reason);
  }
}

void MasterState::on_line_lost(PeerId peer, TimePoint now) {
  parts_.desk.now = std::max(parts_.desk.now, now);
  if (WorkerEntry* const worker = parts_.members.worker_at(peer)) departures_.lose(*worker);
  if (ServerEntry* const server = parts_.members.server_at(peer)) {
    departures_.lose(*server, unavailable(fmt::format("the line to server \"{}\" broke", server->name)));
  }
}

void MasterState::on_time(TimePoint now) {
  parts_.desk.now = std::max(parts_.desk.now, now);
  const TimePoint before = std::exchange(last_tick_, parts_.desk.now);
  const Duration beat = std::min(parts_.desk.settings.lease / kBeatsPerLease, kLongestBeat);
  if (has_time_ && parts_.desk.now - before > 2 * beat) {
    // It was this process that stood still: what others said meanwhile has not been read yet.
    const Duration stood = parts_.desk.now - before;
    for (auto& [name, worker] : parts_.members.workers()) worker.heard += stood;
    for (auto& [name, server] : parts_.members.servers()) server.heard += stood;
  }
  has_time_ = true;
  departures_.look_for_the_silent();
  admission_.find_version();
  for (Pushes::Outcome& outcome : parts_.pushes.on_time()) on_pushes(std::move(outcome));
  parts_.rounds.on_time();
  moves_.on_time();
  parts_.pulls.on_time();
  outcomes_.tell_doubts();
  if (parts_.desk.now - last_beat_ < beat) return;
  last_beat_ = parts_.desk.now;
  v1::PsOrder order;
  order.set_beat(true);
  for (const auto& [name, worker] : parts_.members.workers()) parts_.desk.tell(worker.peer, order);
  for (const auto& [name, server] : parts_.members.servers()) parts_.desk.tell(server.peer, order);
}

v1::PsAnswer MasterState::answer() const {
  v1::PsAnswer answer;
  answer.set_version(parts_.desk.committed.version());
  answer.set_tokens(parts_.desk.committed.record.tokens());
  answer.set_chunks(parts_.chunks.count());
  answer.set_chunks_done(parts_.chunks.done());
  answer.set_chunks_leased(parts_.chunks.held());
  answer.set_rounds_skipped(parts_.rounds.skipped());
  answer.set_waits_for(admission_.waits_for());
  answer.set_moves_shards(parts_.rounds.is_moving());
  answer.mutable_rounds()->Assign(parts_.rounds.history().begin(), parts_.rounds.history().end());
  for (const auto& [name, worker] : parts_.members.workers()) {
    v1::PsMember& member = *answer.add_members();
    member.set_name(name);
    member.set_is_connected(worker.peer != 0);
    member.set_base_version(worker.base_version);
    member.set_pushes(worker.pushes);
    member.set_excluded(worker.excluded);
    member.set_skipped(worker.skipped);
    member.set_push_seconds(worker.push_seconds);
    member.set_pull_seconds(worker.pull_seconds);
    member.set_staleness(worker.staleness);
    member.set_norm(worker.norm);
    member.set_score(worker.score);
    member.set_wait_seconds(worker.wait_seconds);
    member.set_interval_seconds(worker.interval_seconds);
  }
  for (const auto& [name, server] : parts_.members.servers()) {
    v1::PsMember& member = *answer.add_members();
    member.set_name(name);
    member.set_is_server(true);
    member.set_is_connected(server.is_ready);
    member.set_update_seconds(server.update_seconds);
    member.set_snapshot_seconds(server.snapshot_seconds);
    if (const v1::PsShard* const shard = shard_of(parts_.desk.committed.record.layout(), name)) {
      *member.mutable_shard() = *shard;
    }
  }
  return answer;
}

}  // namespace square::ps
