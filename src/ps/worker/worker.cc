#include "ps/worker/worker.h"

#include <utility>

namespace square::ps {

WorkerState::WorkerState(WorkerIdentity identity, ParameterHost& host, std::function<void(v1::PsReport)> send)
    : identity_(std::move(identity)),
      host_(host),
      send_(std::move(send)),
      elements_(elements_of(identity_.model)) {}

void WorkerState::on_attached() {
  ++line_;
  is_attached_ = true;
  v1::PsReport report;
  v1::PsHello& hello = *report.mutable_hello();
  put_versions(hello);
  hello.set_name(identity_.name);
  hello.set_node(identity_.node);
  hello.set_incarnation(identity_.incarnation);
  v1::PsWorkerHello& worker = *hello.mutable_worker();
  *worker.mutable_model() = identity_.model;
  worker.set_base_version(base_version_);
  worker.set_base_maker(base_maker_);
  std::set<std::uint64_t> held = chunks_;
  if (is_open() || state_ == PushState::kCommitted) {
    worker.set_open_push(number_);
    for (const std::uint64_t chunk : pushed_.chunks) {
      worker.add_open_chunks(chunk);
      held.erase(chunk);
    }
  }
  for (const std::uint64_t chunk : held) worker.add_leases(chunk);
  send_(std::move(report));
}

void WorkerState::on_detached() {
  is_attached_ = false;
  is_welcome_ = false;
  awaits_lease_ = false;
  staged_ = staged_elements_ = 0;
  goes_on_ = true;
}

void WorkerState::on_time(TimePoint now) {
  now_ = now;
  if (now_ - heard_ > kWorkerPatience) goes_on_ = true;
}

bool WorkerState::must_wait() const {
  return (is_open() || state_ == PushState::kCommitted || state_ == PushState::kRefused) && !goes_on_;
}

void WorkerState::on_order(const v1::PsOrder& order) {
  heard_ = now_;
  switch (order.what_case()) {
    case v1::PsOrder::kWelcome: return on_welcome(order.welcome());
    case v1::PsOrder::kRefused: refusal_ = from_message(order.refused()); return;
    case v1::PsOrder::kSendPush: return send_push(order.send_push());
    case v1::PsOrder::kTakeVersion: return take_version(order.take_version());
    case v1::PsOrder::kCancel: return host_.cancel(order.cancel());
    case v1::PsOrder::kOutcome: return on_outcome(order.outcome());
    case v1::PsOrder::kCommitted: committed_ = order.committed(); return;
    case v1::PsOrder::kLeases:
      awaits_lease_ = false;
      is_finished_ = order.leases().is_finished();
      for (const std::uint64_t chunk : order.leases().chunks()) {
        leased_.push_back(chunk);
        chunks_.insert(chunk);
      }
      return;
    default: return;
  }
}

void WorkerState::on_welcome(const v1::PsWelcome& welcome) {
  is_welcome_ = true;
  refusal_ = {};
  committed_ = welcome.version();
  if (welcome.must_start_over()) start_over();
}

// What it did since its base never counts. The newest version comes.
void WorkerState::start_over() {
  drop_work();
  goes_on_ = false;
  pushed_ = {};
  drops_work_ = true;
  if (base_version_ != 0) state_ = PushState::kRefused;
  base_version_ = 0;
}

void WorkerState::drop_work() {
  since_ = {};
  chunks_.clear();
  leased_.clear();
}

// The server says that it has it; where it cannot get it, it may not notice.
void WorkerState::send_push(const v1::PsTransfer& transfer) {
  host_.send_push(transfer, [this, line = line_, transfer](const Status& status) {
    if (status.is_ok() || line != line_ || !is_attached_) return;
    v1::PsReport report;
    v1::PsPushFailed& failed = *report.mutable_push_failed();
    failed.set_ticket(transfer.ticket());
    failed.set_server(transfer.server());
    failed.set_line(transfer.line());
    *failed.mutable_error() = to_message(status);
    send_(std::move(report));
  });
}

void WorkerState::take_version(const v1::PsTransfer& transfer) {
  if (is_adopting_) {
    on_taken(transfer, unavailable("another version is being taken over"));
    return;
  }
  if (transfer.version() != staged_ || transfer.maker() != staged_maker_) {
    staged_ = transfer.version();
    staged_maker_ = transfer.maker();
    staged_tokens_ = transfer.tokens();
    staged_elements_ = 0;
  }
  if (transfer.is_committed()) committed_ = std::max(committed_, transfer.version());
  host_.take_version(transfer, [this, line = line_, transfer](const Status& status) {
    if (line == line_ && is_attached_) on_taken(transfer, status);
  });
}

void WorkerState::on_taken(const v1::PsTransfer& transfer, const Status& status) {
  v1::PsReport report;
  report.mutable_received()->set_ticket(transfer.ticket());
  if (!status.is_ok()) {
    *report.mutable_received()->mutable_error() = to_message(status);
    goes_on_ = true;
  }
  if (status.is_ok() && transfer.version() == staged_) {
    staged_elements_ += transfer.shard().end() - transfer.shard().begin();
  }
  send_(std::move(report));
}

// What was pushed is not in any version: it belongs to what was done since the base, again.
void WorkerState::carry_on() {
  pushed_ += since_;
  since_ = std::exchange(pushed_, {});
}

void WorkerState::on_outcome(const v1::PsPushOutcome& outcome) {
  if (outcome.number() != number_) return;
  if (outcome.kind() == v1::PsPushOutcome::IN_DOUBT) goes_on_ = true;
  if (!is_open()) return;
  reason_ = outcome.reason();
  switch (outcome.kind()) {
    case v1::PsPushOutcome::ACCEPTED: state_ = PushState::kAccepted; return;
    case v1::PsPushOutcome::SKIPPED:
      state_ = PushState::kSkipped;
      carry_on();
      return;
    case v1::PsPushOutcome::REFUSED: start_over(); return;
    case v1::PsPushOutcome::COMMITTED:
      state_ = PushState::kCommitted;
      committed_ = std::max(committed_, outcome.version());
      decision_ = static_cast<Decision>(outcome.decision());
      for (const std::uint64_t chunk : pushed_.chunks) chunks_.erase(chunk);
      pushed_ = {};
      return;
    default: return;
  }
}

bool WorkerState::can_push() const {
  const bool is_settled = state_ == PushState::kNone || state_ == PushState::kSkipped;
  return is_welcome_ && base_version_ != 0 && is_settled;
}

std::uint64_t WorkerState::push() {
  pushed_ = std::exchange(since_, {});
  state_ = PushState::kSent;
  reason_.clear();
  goes_on_ = !is_welcome_;
  heard_ = now_;
  v1::PsReport report;
  v1::PsPush& push = *report.mutable_push();
  push.set_number(++number_);
  push.set_base_version(base_version_);
  push.set_tokens(pushed_.tokens);
  for (const std::uint64_t chunk : pushed_.chunks) push.add_chunks(chunk);
  send_(std::move(report));
  return number_;
}

std::optional<ReadyVersion> WorkerState::ready() const {
  const bool is_wanted = base_version_ == 0 || state_ == PushState::kCommitted;
  if (!is_wanted || staged_ == 0 || staged_elements_ != elements_ || staged_ > committed_)
    return std::nullopt;
  return ReadyVersion{staged_, staged_maker_, staged_tokens_, drops_work_};
}

std::optional<ReadyVersion> WorkerState::begin_adopting() {
  const auto version = ready();
  is_adopting_ = version.has_value();
  return version;
}

void WorkerState::on_adopted(const ReadyVersion& version, bool has_dropped_work) {
  is_adopting_ = false;
  // Also what a trainer consumed that had not heard yet that it was to start over.
  has_dropped_work = has_dropped_work || version.drops_work;
  if (has_dropped_work) drop_work();
  base_version_ = version.version;
  base_maker_ = version.maker;
  base_tokens_ = version.tokens;
  drops_work_ = false;
  state_ = PushState::kNone;
  staged_ = staged_elements_ = 0;
  v1::PsReport report;
  report.mutable_adopted()->set_version(base_version_);
  report.mutable_adopted()->set_has_dropped_work(has_dropped_work);
  send_(std::move(report));
}

void WorkerState::lease(std::uint32_t chunks) {
  if (!is_welcome_ || awaits_lease_) return;
  awaits_lease_ = true;
  v1::PsReport report;
  report.mutable_lease()->set_chunks(chunks);
  send_(std::move(report));
}

void WorkerState::leave() {
  v1::PsReport report;
  report.set_leave(true);
  if (is_attached_) send_(std::move(report));
}

}  // namespace square::ps
