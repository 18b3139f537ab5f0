#include "ps/cluster/shard.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "ps/held.h"
#include "ps/layout.h"
#include "ps/outer/kernels.h"

namespace square::test {

using std::chrono::milliseconds;

void SimulatedShard::later(Duration least, Duration most, std::function<void()> task) {
  executor_.post_at(clock_.now() + dice_.between(least, most), [alive = alive_, task = std::move(task)] {
    if (*alive) task();
  });
}

// Now and then a disk takes its time.
Duration SimulatedShard::slow(Duration usual) {
  return dice_.one_in(8) ? dice_.between(usual, std::chrono::seconds(2)) : usual;
}

std::vector<v1::PsHeld> SimulatedShard::held() {
  std::vector<v1::PsHeld> held;
  for (const auto& [version, snapshot] : disk_.versions)
    *held.emplace_back().mutable_record() = snapshot.record;
  return held;
}

void SimulatedShard::open(const v1::PsWelcome& welcome, const v1::PsShard& shard, Done<Status> done) {
  for (auto& [ticket, key] : std::exchange(keys_, {})) data_.cancel(key);
  pushes_.clear();
  average_.clear();
  made_ = 0;
  begin_ = shard.begin();
  size_ = shard.end() - shard.begin();
  outer_ = {.lr = welcome.lr(),
            .momentum = welcome.momentum(),
            .delay = welcome.delay(),
            .delay_share = welcome.delay_share()};
  const std::vector<v1::PsHeld> had = held();
  if (welcome.version() == 0 && ps::keeps_part(had, name_)) {
    return done(internal_error("a version that counted would be dropped"));
  }
  disk_.model = welcome.model();
  std::erase_if(disk_.versions, [&](const auto& entry) {
    return entry.first > welcome.version() ||
           (entry.first == welcome.version() && entry.second.record.maker() != welcome.version_maker());
  });
  version_ = welcome.version();
  shard_.reset();
  if (version_ != 0) {
    auto restored = ps::OuterShard::restore(disk_.versions.at(version_).state, outer_);
    shard_.emplace(std::move(*restored));
  }
  later(milliseconds(1), slow(milliseconds(50)), [done = std::move(done)] { done({}); });
}

void SimulatedShard::take_push(const v1::PsTransfer& transfer, Done<Result<double>> done) {
  const std::uint64_t ticket = transfer.ticket();
  const std::string key = "push " + transfer.line() + " " + std::to_string(ticket);
  keys_[ticket] = key;
  data_.receive(key, transfer.worker(), name_,
                [this, alive = alive_, ticket, done = std::move(done)](Result<std::vector<float>> values) {
                  if (!*alive) return;
                  keys_.erase(ticket);
                  if (!values.is_ok()) return done(values.status());
                  const ps::NormOf norm = ps::squared_norm(*values);
                  pushes_[ticket] = std::move(*values);
                  done(norm.is_finite ? norm.squared : std::numeric_limits<double>::quiet_NaN());
                });
}

void SimulatedShard::drop_push(std::uint64_t ticket) {
  pushes_.erase(ticket);
  cancel(ticket);
}

void SimulatedShard::cancel(std::uint64_t ticket) {
  const auto found = keys_.find(ticket);
  if (found == keys_.end()) return;
  const std::string key = found->second;
  keys_.erase(found);
  data_.cancel(key);
}

void SimulatedShard::average(const v1::PsAverage& average, Done<Result<double>> done) {
  average_.assign(size_, 0.0F);
  bool is_first = true;
  for (const v1::PsAverage::Term& term : average.terms()) {
    const auto push = pushes_.find(term.ticket());
    if (push == pushes_.end()) return done(internal_error("a push that is not here"));
    ps::add_weighted(average_, push->second, static_cast<float>(term.weight()),
                     std::exchange(is_first, false));
    pushes_.erase(push);
  }
  later(milliseconds(1), milliseconds(40),
        [this, done = std::move(done)] { done(ps::squared_norm(average_).squared); });
}

void SimulatedShard::seed(const v1::PsMake& make, Done<Result<ps::MadeVersion>> done) {
  if (!pushes_.contains(make.seed())) {
    is_making_ = false;
    return done(internal_error("a seed that is not here"));
  }
  auto shard = ps::OuterShard::create(pushes_.at(make.seed()), outer_);
  pushes_.erase(make.seed());
  if (!shard.is_ok()) return done(shard.status());
  shard_.emplace(std::move(*shard));
  const auto all = shard_->parameters();
  made_parameters_.assign(all.begin(), all.end());
  write(make.record(), {made_parameters_, std::vector<float>(size_), {}, 0}, std::move(done));
}

ps::OuterShard::State SimulatedShard::state() const {
  return {{shard_->parameters().begin(), shard_->parameters().end()},
          {shard_->momentum().begin(), shard_->momentum().end()},
          {shard_->accumulator().begin(), shard_->accumulator().end()},
          shard_->rounds()};
}

void SimulatedShard::make(const v1::PsMake& make, Done<Result<ps::MadeVersion>> done) {
  is_making_ = true;
  made_shard_.set_begin(begin_);
  made_shard_.set_end(begin_ + size_);
  if (make.seed() != 0) return seed(make, std::move(done));
  ps::OuterShard::State state;
  if (average_.empty()) {  // nothing was taken
    state = this->state();
    made_parameters_ = state.parameters;
  } else {
    // What is written is the state after the round; the shard itself is as it was, until commit().
    auto after = ps::OuterShard::restore(this->state(), outer_);
    std::vector<float> copy = average_;
    after->begin();
    after->update(0, copy, make.factor());
    after->commit(std::move(copy));
    made_parameters_.assign(after->parameters().begin(), after->parameters().end());
    state = {made_parameters_,
             {after->momentum().begin(), after->momentum().end()},
             {after->accumulator().begin(), after->accumulator().end()},
             after->rounds()};
  }
  write(make.record(), std::move(state), std::move(done));
}

void SimulatedShard::move(const v1::PsMove& move, Done<Result<ps::MadeVersion>> done) {
  for (const v1::PsTransfer& transfer : move.gives()) give(transfer);
  gathering_ = Gathering{};
  Gathering& gathering = *gathering_;
  gathering.order = move;
  gathering.done = std::move(done);
  gathering.shard = *ps::shard_of(move.record().layout(), name_);
  gathering.missing = move.takes_size() + 1;
  const std::size_t size = gathering.shard.end() - gathering.shard.begin();
  gathering.state.parameters.resize(size);
  gathering.state.momentum.resize(size);
  for (const v1::PsTransfer& transfer : move.takes()) take(transfer);
  // What it has of it itself.
  v1::PsTransfer own;
  std::vector<float> values;
  if (shard_) {
    v1::PsShard had;
    had.set_begin(begin_);
    had.set_end(begin_ + size_);
    *own.mutable_shard() = ps::overlap(had, gathering.shard);
    values = part(own.shard());
  }
  on_taken(own, std::move(values));
}

// Parameters and momentum, and the number of rounds.
std::vector<float> SimulatedShard::part(const v1::PsShard& range) const {
  const std::size_t first = range.begin() - begin_;
  const std::size_t count = range.end() - range.begin();
  const auto parameters = shard_->parameters().subspan(first, count);
  const auto momentum = shard_->momentum().subspan(first, count);
  std::vector<float> values(parameters.begin(), parameters.end());
  values.insert(values.end(), momentum.begin(), momentum.end());
  values.push_back(static_cast<float>(shard_->rounds()));
  return values;
}

void SimulatedShard::give(const v1::PsTransfer& transfer) {
  const std::string key = "move " + transfer.line() + " " + std::to_string(transfer.ticket());
  const auto newest = disk_.versions.find(version_);
  const bool has_it = version_ == transfer.version() && newest != disk_.versions.end() &&
                      newest->second.record.maker() == transfer.maker();
  if (!has_it) return data_.cancel(key);
  keys_[transfer.ticket()] = key;
  data_.send(key, name_, transfer.worker(), part(transfer.shard()),
             [this, alive = alive_, ticket = transfer.ticket()](const Status&) {
               if (*alive) keys_.erase(ticket);
             });
}

void SimulatedShard::take(const v1::PsTransfer& transfer) {
  const std::string key = "move " + transfer.line() + " " + std::to_string(transfer.ticket());
  keys_[transfer.ticket()] = key;
  data_.receive(key, transfer.server(), name_,
                [this, alive = alive_, transfer](const Result<std::vector<float>>& values) {
                  if (!*alive) return;
                  keys_.erase(transfer.ticket());
                  on_taken(transfer, values);
                });
}

void SimulatedShard::on_taken(const v1::PsTransfer& transfer, const Result<std::vector<float>>& values) {
  if (!gathering_) return;
  if (!values.is_ok()) {
    Gathering failed = std::move(*gathering_);
    gathering_.reset();
    for (const v1::PsTransfer& take : failed.order.takes()) cancel(take.ticket());
    return failed.done(values.status());
  }
  Gathering& all = *gathering_;
  const auto count = static_cast<std::ptrdiff_t>(values->size() / 2);
  const auto at = static_cast<std::ptrdiff_t>(transfer.shard().begin() - all.shard.begin());
  if (!values->empty()) {
    std::copy_n(values->begin(), count, all.state.parameters.begin() + at);
    std::copy_n(values->begin() + count, count, all.state.momentum.begin() + at);
    all.state.rounds = static_cast<std::uint64_t>(values->back());
  }
  if (--all.missing > 0) return;
  Gathering complete = std::move(*gathering_);
  gathering_.reset();
  is_making_ = true;
  made_shard_ = complete.shard;
  made_parameters_ = complete.state.parameters;
  write(complete.order.record(), std::move(complete.state), std::move(complete.done));
}

void SimulatedShard::write(const v1::PsRecord& record, ps::OuterShard::State state,
                           Done<Result<ps::MadeVersion>> done) {
  making_maker_ = record.maker();
  later(milliseconds(5), slow(milliseconds(150)),
        [this, record, state = std::move(state), done = std::move(done)] {
          is_making_ = false;
          if (disk_.is_full) return done(resource_exhausted("no space left on the disk"));
          disk_.versions[record.version()] = {record, state};
          made_ = record.version();
          // The report takes a moment, in which the process may be killed with the version on its disk.
          later(milliseconds(0), milliseconds(20), [done] { done(ps::MadeVersion{}); });
        });
}

void SimulatedShard::commit(std::uint64_t version) {
  if (version == made_) {
    auto restored = ps::OuterShard::restore(disk_.versions.at(version).state, outer_);
    shard_.emplace(std::move(*restored));
    made_ = 0;
    version_ = version;
    begin_ = made_shard_.begin();
    size_ = made_shard_.end() - begin_;
  }
  average_.clear();
  while (disk_.versions.size() > kKept) disk_.versions.erase(disk_.versions.begin());
}

void SimulatedShard::drop_made(Done<Status> done) {
  average_.clear();
  later(milliseconds(1), slow(milliseconds(10)), [this, done = std::move(done)] {
    if (made_ != 0) disk_.versions.erase(std::exchange(made_, 0));
    done({});
  });
}

void SimulatedShard::send_version(const v1::PsTransfer& transfer, Done<Status> done) {
  const std::uint64_t ticket = transfer.ticket();
  const std::string key = "pull " + transfer.line() + " " + std::to_string(ticket);
  const auto snapshot = disk_.versions.find(transfer.version());
  std::vector<float> values;
  if (snapshot != disk_.versions.end() && snapshot->second.record.maker() == transfer.maker()) {
    values = snapshot->second.state.parameters;
  } else if (is_making_ && making_maker_ == transfer.maker()) {
    values = made_parameters_;
  } else {
    data_.cancel(key);
    return done(not_found("a version that is not here"));
  }
  keys_[ticket] = key;
  data_.send(key, name_, transfer.worker(), std::move(values),
             [this, alive = alive_, ticket, done = std::move(done)](const Status& status) {
               if (!*alive) return;
               keys_.erase(ticket);
               done(status);
             });
}

}  // namespace square::test
