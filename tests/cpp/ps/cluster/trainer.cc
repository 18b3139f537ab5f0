#include "ps/cluster/trainer.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace square::test {

using std::chrono::milliseconds;

namespace {

constexpr std::uint32_t kChunksAtOnce = 3;

}  // namespace

Trainer::Trainer(std::string name, v1::PsModel model, DataNetwork& data, ControlLines& lines,
                 Executor& executor, const Clock& clock, TrainerLog& log, const TrainerPace& pace,
                 std::uint64_t seed)
    : name_(std::move(name)),
      incarnation_(seed | 1U),
      data_(data),
      lines_(lines),
      executor_(executor),
      clock_(clock),
      log_(log),
      dice_(seed),
      size_(ps::elements_of(model)),
      step_(dice_.between(pace.shortest_step, pace.longest_step)),
      steps_between_pushes_(pace.steps_between_pushes),
      look_(pace.look),
      state_({name_, name_, incarnation_, std::move(model)}, *this,
             [this](v1::PsReport report) { lines_.report(name_, std::move(report)); }),
      parameters_(size_),
      set_aside_(size_),
      delta_(size_),
      staged_(size_) {
  executor_.post([this, alive = alive_] {
    if (*alive) live();
  });
}

void Trainer::on_order(const v1::PsOrder& order) {
  const auto kind = order.outcome().kind();
  if (order.has_outcome() && (kind == v1::PsPushOutcome::SKIPPED || kind == v1::PsPushOutcome::REFUSED)) {
    log_.void_pushes.emplace(incarnation_, order.outcome().number());
  }
  state_.on_order(order);
}

void Trainer::send_push(const v1::PsTransfer& transfer, Done done) {
  const std::string key = "push " + transfer.line() + " " + std::to_string(transfer.ticket());
  const std::vector<float>& all = transfer.is_seed() ? parameters_ : delta_;
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(transfer.shard().begin());
  data_.send(key, name_, transfer.server(),
             {begin, all.begin() + static_cast<std::ptrdiff_t>(transfer.shard().end())},
             [alive = alive_, done = std::move(done)](const Status& status) {
               if (*alive) done(status);
             });
}

void Trainer::take_version(const v1::PsTransfer& transfer, Done done) {
  const std::string key = "pull " + transfer.line() + " " + std::to_string(transfer.ticket());
  keys_[transfer.ticket()] = key;
  data_.receive(key, transfer.server(), name_,
                [this, alive = alive_, transfer, done = std::move(done)](Result<std::vector<float>> values) {
                  if (!*alive) return;
                  keys_.erase(transfer.ticket());
                  if (!values.is_ok()) return done(values.status());
                  std::ranges::copy(*values,
                                    staged_.begin() + static_cast<std::ptrdiff_t>(transfer.shard().begin()));
                  done({});
                });
}

void Trainer::cancel(std::uint64_t ticket) {
  const auto found = keys_.find(ticket);
  if (found == keys_.end()) return;
  const std::string key = found->second;
  keys_.erase(found);
  data_.cancel(key);
}

void Trainer::live() {
  const TimePoint now = clock_.now();
  state_.on_time(now);
  lines_.report(name_, [] {
    v1::PsReport beat;
    beat.set_beat(true);
    return beat;
  }());
  if (const auto ready = state_.begin_adopting()) adopt(*ready);
  if (state_.base_version() != 0 && !state_.must_wait() && now >= next_step_) train();
  executor_.post_at(now + look_, [this, alive = alive_] {
    if (*alive) live();
  });
}

void Trainer::train() {
  for (const std::uint64_t chunk : state_.take_leases()) chunks_.push_back(chunk);
  const TimePoint now = clock_.now();
  // Of a lease that was lost with all that was done.
  std::erase_if(chunks_, [&](std::uint64_t chunk) { return !state_.chunks().contains(chunk); });
  if (chunks_.empty()) state_.lease(kChunksAtOnce);
  if (last_step_ != TimePoint{}) log_.longest_stop = std::max<Duration>(log_.longest_stop, now - last_step_);
  last_step_ = now;
  next_step_ = now + step_;
  ++log_.steps;
  ++steps_;
  if (!chunks_.empty()) {
    const std::uint64_t chunk = chunks_.back();
    chunks_.pop_back();
    parameters_[chunk] -= kMark;
    state_.consume({1, {chunk}});
  }
  if (steps_ >= steps_between_pushes_ && state_.can_push() && state_.has_work()) push();
}

void Trainer::push() {
  steps_ = 0;
  set_aside_ = parameters_;
  for (std::size_t i = 0; i < size_; ++i) delta_[i] = base_[i] - parameters_[i];
  if (std::exchange(is_spoilt_, false)) delta_[dice_.below(size_)] = std::numeric_limits<float>::quiet_NaN();
  const std::uint64_t number = state_.push();
  log_.pushed[{incarnation_, number}] = delta_;
}

void Trainer::adopt(const ps::ReadyVersion& ready) {
  for (std::size_t i = 0; i < size_; ++i) {
    parameters_[i] = ready.drops_work ? staged_[i] : staged_[i] + (parameters_[i] - set_aside_[i]);
  }
  base_ = staged_;
  log_.adopted.emplace_back(ready.version, staged_);
  if (last_step_ != TimePoint{} && state_.push_state() == ps::PushState::kRefused) last_step_ = TimePoint{};
  state_.on_adopted(ready);
}

}  // namespace square::test
