#include "ps/master/rounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/log.h"
#include "ps/layout.h"
#include "ps/master/record.h"

namespace square::ps {
namespace {

// With an unknown rhythm of pushes. Longer ones are cut.
constexpr Duration kLongestGrace = std::chrono::minutes(1);
// Of the time from one push of a worker to its next: what is lost by waiting for others.
constexpr double kGraceShare = 0.05;
// A move sends a part of the model from site to site: it may take as long as so many steps.
constexpr int kStepsOfMove = 6;
constexpr double kNoNorm = std::numeric_limits<double>::quiet_NaN();

// No push counts for more than kMostTimesMedian of the median.
void bound_tokens(std::vector<Push>& pushes) {
  std::vector<std::uint64_t> tokens;
  for (const Push& push : pushes) tokens.push_back(push.tokens);
  const auto median = tokens.begin() + static_cast<std::ptrdiff_t>((tokens.size() - 1) / 2);
  std::ranges::nth_element(tokens, median);
  const std::uint64_t most = kMostTimesMedian * *median;
  for (Push& push : pushes) {
    if (push.tokens <= most) continue;
    log(LogLevel::kWarning, "ps",
        "a push of worker \"{}\" counts for {} tokens and not {}: {} times the median", push.worker, most,
        push.tokens, kMostTimesMedian);
    push.tokens = most;
  }
}

}  // namespace

Rounds::Rounds(Desk& desk, Members& members, const Chunks& chunks, Events events)
    : desk_(desk),
      members_(members),
      chunks_(chunks),
      events_(std::move(events)),
      penalty_(desk.settings.outer) {}

void Rounds::add(Push push) {
  waiting_.push_back(std::move(push));
  open_window();
}

void Rounds::open_window() {
  if (!window_end_ && !waiting_.empty() && waiting_.size() >= quorum()) window_end_ = desk_.now + grace();
}

std::size_t Rounds::quorum() const {
  std::size_t most = members_.live_workers();
  // Who has no chunk, and can get none, has nothing to push.
  if (chunks_.count() > 0 && !chunks_.has_free()) most = std::min(most, chunks_.holding_workers());
  return std::min<std::size_t>(desk_.settings.quorum, most);
}

bool Rounds::is_slow() const {
  return phase_ != Phase::kIdle && desk_.now - since_ > desk_.settings.patience + usual_step_;
}

Duration Rounds::grace() const {
  if (desk_.settings.grace) return *desk_.settings.grace;
  double sum = 0;
  int known = 0;
  for (const auto& [name, worker] : members_.workers()) {
    if (worker.peer == 0 || worker.interval_seconds <= 0) continue;
    sum += worker.interval_seconds;
    ++known;
  }
  if (known == 0) return Duration(0);
  return std::min(from_seconds(kGraceShare * sum / known), kLongestGrace);
}

bool Rounds::is_due() const {
  if (phase_ != Phase::kIdle || waiting_.empty() || !members_.are_ready(layout())) return false;
  if (!window_end_ || waiting_.size() < quorum()) return false;
  return waiting_.size() >= members_.live_workers() || *window_end_ <= desk_.now;
}

void Rounds::on_time() {
  open_window();
  if (is_due()) begin();
  const Duration longest = desk_.settings.step_timeout * (is_move_ ? kStepsOfMove : 1);
  if ((phase_ == Phase::kAveraging || phase_ == Phase::kMaking) && desk_.now - since_ > longest) {
    abort(deadline_exceeded("a server took too long"), phase_ == Phase::kAveraging);
  }
}

void Rounds::tell_servers(const v1::PsLayout& layout, const v1::PsOrder& order) {
  for (const v1::PsShard& shard : layout.shards()) {
    const ServerEntry* const server = members_.server(shard.server());
    if (server != nullptr && server->is_ready) desk_.tell(server->peer, order);
  }
}

void Rounds::begin() {
  pushes_ = std::exchange(waiting_, {});
  bound_tokens(pushes_);
  window_end_.reset();
  ++number_;
  candidate_ = penalty_;
  std::vector<PushSummary> summaries;
  for (const Push& push : pushes_) {
    PushSummary& summary = summaries.emplace_back();
    summary.worker = push.worker;
    summary.tokens = push.tokens;
    for (const v1::PsShard& shard : layout().shards()) {
      summary.squared_norms.push_back(push.squared_norms.at(shard.server()));
    }
  }
  const Judgement judgement = candidate_->judge(summaries);
  record_ = new_record(judgement);
  average(judgement);
}

v1::PsRecord Rounds::new_record(const Judgement& judgement) const {
  v1::PsRecord record = next_record(desk_.committed.record, pushes_, judgement);
  // Of this attempt alone: what is left of one that was aborted must not be taken for it.
  record.set_maker(desk_.maker + number_);
  record.set_penalty(candidate_->save());
  forget_gone_workers(record, members_);
  Chunks after = chunks_;
  for (const v1::PsPushed& pushed : record.pushes()) {
    after.finish(std::vector<std::uint64_t>(pushed.chunks().begin(), pushed.chunks().end()));
  }
  after.save(record);
  return record;
}

void Rounds::average(const Judgement& judgement) {
  v1::PsOrder order;
  order.mutable_average()->set_round(number_);
  since_ = desk_.now;
  for (std::size_t i = 0; i < pushes_.size(); ++i) {
    if (judgement.decisions[i] != Decision::kTaken) {
      drop_everywhere(desk_, members_, pushes_[i].ticket);
      continue;
    }
    v1::PsAverage::Term& term = *order.mutable_average()->add_terms();
    term.set_ticket(pushes_[i].ticket);
    term.set_weight(judgement.weights[i]);
  }
  if (order.average().terms().empty()) {
    make();  // a version like the one before: what was done, and left out, is counted
    return;
  }
  phase_ = Phase::kAveraging;
  tell_servers(layout(), order);
}

void Rounds::on_averaged(const ServerEntry& server, const v1::PsAveraged& averaged) {
  if (phase_ != Phase::kAveraging || averaged.round() != number_) return;
  if (shard_of(layout(), server.name) == nullptr) return;
  if (averaged.has_error()) {
    abort(from_message(averaged.error()).with_context(fmt::format("server \"{}\"", server.name)), true);
    return;
  }
  // A negative one would make every server's factor a NaN.
  averaged_[server.name] = averaged.squared_norm() >= 0 ? averaged.squared_norm() : kNoNorm;
  if (averaged_.size() == static_cast<std::size_t>(layout().shards_size())) make();
}

void Rounds::begin_seed(Push push) {
  pushes_.clear();
  pushes_.push_back(std::move(push));
  ++number_;
  candidate_ = penalty_;
  record_ = new_record({});
  record_.set_training(record_.maker());
  make();
}

void Rounds::begin_move(const v1::PsLayout& layout, std::map<std::string, v1::PsMove> orders) {
  ++number_;
  candidate_ = penalty_;
  is_move_ = true;
  record_ = new_record({});
  *record_.mutable_layout() = layout;
  note_move(record_);
  phase_ = Phase::kMaking;
  since_ = desk_.now;
  for (auto& [name, move] : orders) {
    const ServerEntry* const server = members_.server(name);
    if (server == nullptr) continue;
    v1::PsOrder order;
    *order.mutable_move() = std::move(move);
    order.mutable_move()->set_round(number_);
    *order.mutable_move()->mutable_record() = record_;
    desk_.tell(server->peer, std::move(order));
  }
}

void Rounds::make() {
  phase_ = Phase::kMaking;
  since_ = desk_.now;
  std::vector<double> norms;
  double squared = 0;
  const auto taken = static_cast<std::size_t>(std::ranges::count_if(record_.pushes(), [](const auto& pushed) {
    return pushed.decision() == static_cast<std::uint32_t>(Decision::kTaken);
  }));
  const double share = live_share(desk_.settings.outer, taken, members_.live_workers());
  for (const v1::PsShard& shard : layout().shards()) {
    norms.push_back(averaged_.contains(shard.server()) ? averaged_.at(shard.server()) : 0);
    squared += norms.back();
  }
  record_.set_norm(std::sqrt(squared));
  // All servers make a step, or none does.
  const bool is_step = !averaged_.empty() && std::isfinite(squared);
  for (int i = 0; i < layout().shards_size(); ++i) {
    const double factor =
        is_step ? clip_factor(desk_.settings.outer, norms, static_cast<std::size_t>(i), share) : 0;
    record_.set_factor(i == 0 ? factor : std::min(factor, record_.factor()));
    const ServerEntry* const server = members_.server(layout().shards(i).server());
    if (server == nullptr) continue;
    v1::PsOrder order;
    order.mutable_make()->set_round(number_);
    order.mutable_make()->set_factor(factor);
    if (pushes_.front().is_seed) order.mutable_make()->set_seed(pushes_.front().ticket);
    *order.mutable_make()->mutable_record() = record_;
    desk_.tell(server->peer, std::move(order));
  }
  events_.on_making(record_);
}

void Rounds::on_made(ServerEntry& server, const v1::PsMade& made) {
  if (phase_ != Phase::kMaking || made.round() != number_) return;
  if (shard_of(record_.layout(), server.name) == nullptr) return;
  if (made.has_error()) {
    abort(from_message(made.error()).with_context(fmt::format("server \"{}\"", server.name)), true);
    return;
  }
  server.update_seconds = made.update_seconds();
  server.snapshot_seconds = made.snapshot_seconds();
  note_made(server, made.hash());
}

void Rounds::note_made(const ServerEntry& server, std::uint64_t hash) {
  made_[server.name] = hash;
  if (made_.size() == static_cast<std::size_t>(record_.layout().shards_size())) commit();
}

void Rounds::commit() {
  if (!is_move_) usual_step_ = desk_.now - since_;
  v1::PsOrder order;
  order.set_commit(record_.version());
  tell_servers(record_.layout(), order);
  remember();
  desk_.committed.record = std::exchange(record_, {});
  penalty_ = std::move(*candidate_);
  end();
  events_.on_committed(desk_.committed.record);
}

void Rounds::remember() {
  v1::PsRound& round = history_.emplace_back();
  round.set_version(record_.version());
  round.set_maker(record_.maker());
  round.set_norm(record_.norm());
  round.set_factor(record_.factor());
  round.set_seconds(to_seconds(desk_.now - since_));
  *round.mutable_pushes() = record_.pushes();
  for (v1::PsPushed& pushed : *round.mutable_pushes()) pushed.clear_chunks();
  for (const v1::PsShard& shard : record_.layout().shards()) {
    v1::PsRound::Part& part = *round.add_parts();
    *part.mutable_shard() = shard;
    part.set_hash(made_.at(shard.server()));
  }
  pushes_in_history_ += round.pushes_size();
  while (history_.size() > kLongestHistory ||
         (history_.size() > 1 && pushes_in_history_ > kPushesInHistory)) {
    pushes_in_history_ -= history_.front().pushes_size();
    history_.pop_front();
  }
}

void Rounds::end() {
  phase_ = Phase::kIdle;
  is_move_ = false;
  candidate_.reset();
  pushes_.clear();
  averaged_.clear();
  made_.clear();
}

void Rounds::abort(const Status& reason, bool is_certain) {
  reason_ = reason;
  v1::PsOrder order;
  order.set_abort(number_);
  tell_servers(record_.layout(), order);
  if (is_certain) {
    finish_abort();
    return;
  }
  // What was said before may not hold any more: who had it may have dropped it.
  made_.clear();
  phase_ = Phase::kAborting;
  since_ = desk_.now;
}

void Rounds::finish_abort() {
  log(LogLevel::kWarning, "ps", "version {} is not made: {}", record_.version(), reason_.message());
  ++skipped_;
  std::vector<Push> lost = std::exchange(pushes_, {});
  const std::uint64_t version = record_.version();
  for (const Push& push : lost) drop_everywhere(desk_, members_, push.ticket);
  end();
  events_.on_skipped(std::move(lost), version, reason_);
}

void Rounds::on_dropped(const ServerEntry& server, const v1::PsDropped& dropped) {
  if (phase_ != Phase::kAborting || dropped.round() != number_) return;
  if (shard_of(record_.layout(), server.name) != nullptr) finish_abort();
}

void Rounds::skip_waiting(const Status& reason) {
  if (waiting_.empty()) return;
  window_end_.reset();
  std::vector<Push> lost = std::exchange(waiting_, {});
  for (const Push& push : lost) drop_everywhere(desk_, members_, push.ticket);
  events_.on_skipped(std::move(lost), 0, reason);
}

void Rounds::on_server_lost(const ServerEntry& server) {
  const Status reason = unavailable(fmt::format("server \"{}\" was lost", server.name));
  skip_waiting(reason);
  if (phase_ == Phase::kAveraging) abort(reason, true);
  if (phase_ == Phase::kMaking) abort(reason, false);
}

void Rounds::on_server_back(const ServerEntry& server) {
  if (phase_ != Phase::kAborting) return;
  // Who stands by would have none, whatever the others have.
  if (shard_of(record_.layout(), server.name) == nullptr) return;
  if (const v1::PsHeld* const held = server.find(record_.version(), record_.maker())) {
    note_made(server, held->hash());
  } else {
    finish_abort();
  }
}

void Rounds::restore(const v1::PsRecord& record) {
  auto read = Penalty::load(desk_.settings.outer, record.penalty());
  if (read.is_ok()) {
    penalty_ = std::move(*read);
  } else {
    log(LogLevel::kWarning, "ps", "the statistics of pushes begin anew: {}", read.status().message());
  }
}

std::vector<Push*> Rounds::open_pushes() {
  std::vector<Push*> open;
  for (Push& push : waiting_) open.push_back(&push);
  for (Push& push : pushes_) open.push_back(&push);
  return open;
}

Push* Rounds::push_of(const std::string& worker) {
  for (Push* const push : open_pushes()) {
    if (push->worker == worker) return push;
  }
  return nullptr;
}

}  // namespace square::ps
