#include "ps/shard/maker.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "ps/data/parts.h"

namespace square::ps {
namespace {

using MakerClock = std::chrono::steady_clock;

double seconds_since(MakerClock::time_point begin) {
  return std::chrono::duration<double>(MakerClock::now() - begin).count();
}

std::size_t blocks_of(std::size_t elements) { return (elements + kBlockElements - 1) / kBlockElements; }

}  // namespace

Maker::Maker(Versions& versions, Snapshots& snapshots, unsigned threads)
    : versions_(versions), snapshots_(snapshots), threads_(threads, kMostThreads) {}

void Maker::stop() {
  versions_.give_up(cancelled("the server stops"));
  compute_.stop();
  writer_.stop();
}

void Maker::average(std::vector<WeightedPush> pushes, std::function<void(double)> done) {
  const auto shared = std::make_shared<std::vector<WeightedPush>>(std::move(pushes));
  compute_.work([this, shared, done = std::move(done)] { done(average_all(std::move(*shared))); });
}

double Maker::average_all(std::vector<WeightedPush> pushes) {
  const std::size_t size = pushes.front().values.size();
  std::vector<NormOf> norms(blocks_of(size));
  threads_.each(norms.size(), [&](std::size_t i) {
    const std::size_t first = i * kBlockElements;
    const std::size_t count = std::min(kBlockElements, size - first);
    const std::span<float> average = std::span(pushes.front().values).subspan(first, count);
    for (const WeightedPush& push : pushes) {
      add_weighted(average, std::span(push.values).subspan(first, count), push.weight,
                   &push == &pushes.front());
    }
    norms[i] = squared_norm(average);
  });
  const NormOf norm = total(norms);
  average_ = {std::move(pushes.front().values), norm.is_finite};
  return norm.is_finite ? norm.squared : std::numeric_limits<double>::quiet_NaN();
}

void Maker::make(MakeOrder order, std::function<void(Result<MadeVersion>)> done) {
  const v1::PsRecord& record = order.header.record();
  auto progress = versions_.begin({record.version(), record.maker()});
  if (!progress.is_ok()) {
    writer_.work([done = std::move(done), status = progress.status()] { done(status); });
    return;
  }
  const auto job = std::make_shared<Job>();
  job->order = std::move(order);
  job->progress = std::move(*progress);
  compute_.work([this, job] { update(*job); });
  writer_.work([this, job, done = std::move(done)] { done(write(*job)); });
}

// Says what the version is of.
Status Maker::prepare(Job& job) {
  std::optional<Average> average = std::exchange(average_, std::nullopt);
  if (job.order.shard) {
    const auto give = std::exchange(job.order.shard, nullptr);
    SQUARE_ASSIGN_OR_RETURN(OuterShard shard, give());
    versions_.make_of_shard(std::move(shard));
    return {};
  }
  if (versions_.committed() == VersionId{}) return internal_error("there is no version before");
  if (average && average->is_finite && job.order.factor != 0) {
    versions_.make_of(std::move(average->values), job.order.outer.delay);
  } else {
    versions_.make_like_before();
  }
  return {};
}

void Maker::update(Job& job) {
  const auto begin = MakerClock::now();
  Status status = prepare(job);
  if (status.is_ok()) status = update_parts(job);
  if (!status.is_ok()) job.progress->fail(std::move(status));
  job.update_seconds = seconds_since(begin);
  job.is_updated.count_down();
}

Status Maker::update_parts(Job& job) {
  const v1::PsShard& shard = job.order.header.shard();
  const std::size_t size = shard.end() - shard.begin();
  if (!versions_.is_made_of_average()) {
    job.progress->advance(parts_of(size));
    return {};
  }
  job.progress->advance(0);
  for (std::size_t i = 0; i < parts_of(size) && !job.progress->has_failed(); ++i) {
    const std::size_t count = part_size(size, i);
    std::atomic<bool> is_finite = true;
    threads_.each(blocks_of(count), [&](std::size_t block) {
      const std::size_t at = block * kBlockElements;
      const std::size_t elements = std::min(kBlockElements, count - at);
      if (!versions_.update(i * kPartElements + at, elements, job.order.factor)) is_finite = false;
    });
    // Kept, it would be the end of the model: no server can begin with it.
    if (!is_finite) return invalid_argument("the step overflows float32: use a clip or a smaller lr");
    job.progress->advance(i + 1);
  }
  return {};
}

Result<std::uint64_t> Maker::write_parts(Job& job) {
  SQUARE_RETURN_IF_ERROR(job.progress->wait(0));
  v1::PsSnapshotHeader& header = job.order.header;
  header.set_rounds(versions_.made_rounds());
  header.set_has_accumulator(versions_.made_has_accumulator());
  const std::size_t parts = parts_of(header.shard().end() - header.shard().begin());
  const VersionId id{header.record().version(), header.record().maker()};
  SQUARE_ASSIGN_OR_RETURN(SnapshotWriter writer, SnapshotWriter::create(snapshots_.path(id), header));
  for (std::size_t i = 0; i < parts; ++i) {
    SQUARE_RETURN_IF_ERROR(job.progress->wait(i + 1));
    SQUARE_RETURN_IF_ERROR(writer.append(versions_.made_part(i)));
  }
  // Nobody may take it for one that is made, once it was given up.
  if (job.progress->has_failed()) return job.progress->wait(0);
  return writer.finish();
}

Result<MadeVersion> Maker::write(Job& job) {
  const auto begin = MakerClock::now();
  const Result<std::uint64_t> hash = write_parts(job);
  if (!hash.is_ok()) job.progress->fail(hash.status());
  job.is_updated.wait();  // it writes to what would be dropped
  if (!hash.is_ok()) {
    versions_.abort();
    return hash.status();
  }
  snapshots_.add(job.order.header, *hash);
  versions_.complete();
  return MadeVersion{*hash, job.update_seconds, seconds_since(begin)};
}

void Maker::drop_average(std::function<void()> next) {
  compute_.work([this, next = std::move(next)]() mutable {
    average_.reset();
    writer_.work(std::move(next));
  });
}

}  // namespace square::ps
