#include "node/operations/local_fan_out.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <utility>

#include "square/buffer.h"

namespace square {
namespace {

// A large copy goes around the caches, as Buffer does it.
void copy(std::span<const std::byte> from, std::byte* to) {
  if (from.data() != to) Buffer({}, from.data(), from.size()).copy_to(to);
}

struct SharedJob {
  Executor& executor;
  FanOut job;
  std::function<void()> done;
  std::size_t size_bytes = 0;
  std::size_t ranges = 0;
  std::atomic<std::size_t> next = 0;
  std::atomic<std::size_t> left = 0;
};

void write_tile(const FanOut& job, std::size_t at, std::size_t size_bytes) {
  const std::span<std::byte> first = job.outputs.front().subspan(at, size_bytes);
  if (job.inputs.size() == 1 && job.group_size == 1) {
    for (const std::span<std::byte> output : job.outputs)
      copy({job.inputs.front() + at, size_bytes}, output.data() + at);
    return;
  }
  std::vector<Operand> operands;
  for (const std::byte* input : job.inputs) operands.push_back({input + at, nullptr});
  // All inputs of the tile are read before another output, perhaps an input's place, is written.
  add(first, operands, job.reduction, job.group_size);
  for (const std::span<std::byte> output : std::span(job.outputs).subspan(1)) copy(first, output.data() + at);
}

void run(const std::shared_ptr<SharedJob>& shared);

void work_on(const std::shared_ptr<SharedJob>& shared) {
  const std::size_t buffers = shared->job.inputs.size() + shared->job.outputs.size();
  shared->executor.work(buffers * std::min(kFanOutRangeBytes, shared->size_bytes), [shared] { run(shared); });
}

void run(const std::shared_ptr<SharedJob>& shared) {
  const std::size_t range = shared->next.fetch_add(1);
  if (range >= shared->ranges) return;
  const std::size_t end = std::min((range + 1) * kFanOutRangeBytes, shared->size_bytes);
  for (std::size_t at = range * kFanOutRangeBytes; at < end; at += kFanOutTileBytes)
    write_tile(shared->job, at, std::min(kFanOutTileBytes, end - at));
  if (shared->left.fetch_sub(1) == 1) return std::exchange(shared->done, nullptr)();
  if (shared->next.load() < shared->ranges) work_on(shared);
}

}  // namespace

void fan_out(Executor& executor, FanOut job, std::function<void()> done) {
  const std::size_t size_bytes = job.outputs.empty() ? 0 : job.outputs.front().size();
  if (size_bytes == 0) return done();
  const std::size_t ranges = (size_bytes + kFanOutRangeBytes - 1) / kFanOutRangeBytes;
  const auto shared = std::shared_ptr<SharedJob>(
      new SharedJob{executor, std::move(job), std::move(done), size_bytes, ranges, 0, ranges});
  for (std::size_t i = 0; i < std::min(ranges, kMaxFanOutThreads); ++i) work_on(shared);
}

}  // namespace square
