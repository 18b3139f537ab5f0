#include "ps/shard/shard.h"

#include <fmt/format.h>
#include <unistd.h>

#include <utility>

#include "base/check.h"
#include "ps/held.h"

namespace square::ps {
namespace {

Nesterov outer_of(const v1::PsWelcome& welcome) {
  return {welcome.lr(), welcome.momentum(), welcome.delay(), welcome.delay_share()};
}

bool are_same_steps(const Nesterov& one, const Nesterov& other) {
  return one.lr == other.lr && one.momentum == other.momentum && one.delay == other.delay &&
         one.delay_share == other.delay_share;
}

Status check_opened_shard(const v1::PsShard& shard, const Nesterov& outer) {
  if (shard.end() < shard.begin() || shard.end() > kMaxElements) {
    return invalid_argument(fmt::format("a shard from element {} to before {}", shard.begin(), shard.end()));
  }
  return check(outer);
}

const char* const kStopped = "the server stops";

}  // namespace

Result<std::unique_ptr<Shard>> Shard::open(std::string name, std::filesystem::path folder, std::size_t kept,
                                           DataLines& lines, Executor& strand, unsigned threads) {
  SQUARE_ASSIGN_OR_RETURN(std::unique_ptr<Snapshots> snapshots, Snapshots::open(std::move(folder), kept));
  return std::unique_ptr<Shard>(new Shard(std::move(name), std::move(snapshots), lines, strand, threads));
}

Shard::Shard(std::string name, std::unique_ptr<Snapshots> snapshots, DataLines& lines, Executor& strand,
             unsigned threads)
    : name_(std::move(name)),
      lines_(lines),
      strand_(strand),
      snapshots_(std::move(snapshots)),
      maker_(versions_, *snapshots_, threads),
      transfers_(lines) {}

void Shard::stop() {
  if (is_stopped_.exchange(true)) return;
  lines_.stop();
  transfers_.cancel_all();
  // First, as transfers wait for what it makes.
  maker_.stop();
  transfers_.stop();
}

bool Shard::are_same(const Model& one, const Model& other) {
  return one.shard.begin() == other.shard.begin() && one.shard.end() == other.shard.end() &&
         are_same_steps(one.outer, other.outer) && compare_models(one.tensors, other.tensors).is_ok();
}

void Shard::open(const v1::PsWelcome& welcome, const v1::PsShard& shard, Done<Status> done) {
  transfers_.cancel_all();
  {
    const std::lock_guard lock(mutex_);
    pushes_.clear();
  }
  const Model before = std::exchange(model_, {welcome.model(), shard, outer_of(welcome),
                                              welcome.pushes_parameters(), welcome.is_bfloat16()});
  Status valid = check_opened_shard(shard, model_.outer);
  if (is_stopped_) valid = cancelled(kStopped);
  if (!valid.is_ok()) {
    model_ = {};
    return post(done, std::move(valid));
  }
  const VersionId id{welcome.version(), welcome.version() == 0 ? 0 : welcome.version_maker()};
  maker_.drop_average([this, id, model = model_, is_as_before = are_same(before, model_),
                       done = std::move(done)] { post(done, reopen(id, model, is_as_before)); });
}

Status Shard::reopen(const VersionId& id, const Model& model, bool is_as_before) {
  if (is_stopped_) return cancelled(kStopped);
  const std::vector<v1::PsHeld> held = snapshots_->held();
  if (id.version == 0 && keeps_part(held, name_)) {
    return failed_precondition(
        fmt::format("its folder keeps a part up to version {}, of which the master does not know. Nothing "
                    "was removed. Start the master again with all servers of that version, or give the "
                    "server an empty folder",
                    newest_part(held, name_)->version()));
  }
  if (id.version != 0 && versions_.made() == id) {
    keep_spare(versions_.commit());
  } else {
    versions_.abort();
  }
  if (!is_as_before || versions_.committed() != id) {
    versions_.clear();
    const std::lock_guard lock(mutex_);
    spare_ = {};
  }
  SQUARE_RETURN_IF_ERROR(snapshots_->drop_after(id));
  if (versions_.committed() == id) return {};
  return load(id, model);
}

Status Shard::load(const VersionId& id, const Model& model) {
  SQUARE_ASSIGN_OR_RETURN(const std::shared_ptr<const SnapshotFile> file,
                          SnapshotFile::open(snapshots_->path(id)));
  const v1::PsSnapshotHeader& header = file->header();
  const std::string path = snapshots_->path(id).native();
  if (header.shard().begin() != model.shard.begin() || header.shard().end() != model.shard.end()) {
    return failed_precondition(fmt::format("{} has elements {} to {} of the model, not {} to {}", path,
                                           header.shard().begin(), header.shard().end(), model.shard.begin(),
                                           model.shard.end()));
  }
  if (const Status same = compare_models(model.tensors, header.model()); !same.is_ok()) {
    return failed_precondition(fmt::format("{} is of another model: {}", path, same.message()));
  }
  SQUARE_ASSIGN_OR_RETURN(OuterShard::State state, file->read_all());
  auto shard = OuterShard::restore(std::move(state), model.outer);
  if (!shard.is_ok()) return shard.status().with_context(path);
  versions_.put(std::move(*shard), id);
  return {};
}

void Shard::average(const v1::PsAverage& average, Done<Result<double>> done) {
  if (is_stopped_) return post<Result<double>>(done, cancelled(kStopped));
  std::vector<WeightedPush> pushes;
  {
    const std::lock_guard lock(mutex_);
    for (const v1::PsAverage::Term& term : average.terms()) {
      auto push = pushes_.extract(term.ticket());
      if (push.empty()) {
        return post<Result<double>>(
            done, internal_error(fmt::format("push {} of round {} is not on server \"{}\"", term.ticket(),
                                             average.round(), name_)));
      }
      pushes.push_back({std::move(push.mapped()), static_cast<float>(term.weight())});
    }
  }
  if (pushes.empty()) return post<Result<double>>(done, internal_error("an average of nothing"));
  maker_.average(std::move(pushes),
                 [this, done = std::move(done)](double squared) { post<Result<double>>(done, squared); });
}

MakeOrder Shard::make_order(const v1::PsRecord& record, const v1::PsShard& shard) const {
  MakeOrder order;
  order.outer = model_.outer;
  *order.header.mutable_record() = record;
  *order.header.mutable_model() = model_.tensors;
  *order.header.mutable_shard() = shard;
  return order;
}

void Shard::make(const v1::PsMake& make, Done<Result<MadeVersion>> done) {
  if (is_stopped_) return post<Result<MadeVersion>>(done, cancelled(kStopped));
  MakeOrder order = make_order(make.record(), model_.shard);
  order.factor = make.factor();
  next_shard_ = model_.shard;
  if (make.seed() != 0) {
    const std::lock_guard lock(mutex_);
    auto push = pushes_.extract(make.seed());
    if (push.empty()) {
      return post<Result<MadeVersion>>(
          done, internal_error(fmt::format("the first parameters (push {}) are not on server \"{}\"",
                                           make.seed(), name_)));
    }
    order.shard = [seed = std::move(push.mapped()), outer = model_.outer]() mutable {
      return OuterShard::create(std::move(seed), outer);
    };
  }
  maker_.make(std::move(order),
              [this, done = std::move(done)](Result<MadeVersion> made) { post(done, std::move(made)); });
}

void Shard::commit(std::uint64_t version) {
  if (version == 0 || versions_.made().version != version) return;
  keep_spare(versions_.commit());
  model_.shard = next_shard_;
  for (std::filesystem::path& path : snapshots_->prune()) {
    // What a crash leaves of them is pruned later.
    maker_.later([path = std::move(path)] { ::unlink(path.c_str()); });
  }
}

void Shard::drop_made(Done<Status> done) {
  if (is_stopped_) return post(done, cancelled(kStopped));
  versions_.give_up(aborted("the version was dropped"));
  maker_.drop_average([this, done = std::move(done)] {
    const VersionId made = versions_.made();
    versions_.abort();
    post(done, made == VersionId{} ? Status() : snapshots_->remove(made));
  });
}

Result<std::vector<float>> Shard::buffer(std::uint64_t count) {
  std::vector<float> spare;
  {
    const std::lock_guard lock(mutex_);
    spare = std::exchange(spare_, {});
  }
  return spare.size() == count ? Result(std::move(spare)) : floats(count);
}

void Shard::keep_spare(std::vector<float> buffer) {
  const std::lock_guard lock(mutex_);
  if (spare_.empty()) spare_ = std::move(buffer);
}

}  // namespace square::ps
