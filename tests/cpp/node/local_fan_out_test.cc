#include "node/operations/local_fan_out.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <future>
#include <random>

#include "node/sums.h"
#include "square/thread_executor.h"

using namespace square;
using namespace square::test;

namespace {

void run(Executor& executor, FanOut job) {
  std::promise<void> done;
  fan_out(executor, std::move(job), [&] { done.set_value(); });
  done.get_future().get();
}

std::span<std::byte> bytes_of(std::vector<float>& values) {
  return std::as_writable_bytes(std::span(values));
}

}  // namespace

TEST_CASE("a sum that is cut for several threads has the bits of one that is not") {
  std::mt19937_64 random(seed_from_environment(11));
  for (const int threads : {1, 3}) {
    ThreadExecutor executor(threads);
    for (int round = 0; round < 12; ++round) {
      // Around the ends of tiles and ranges too.
      constexpr std::size_t kTile = kFanOutTileBytes / sizeof(float);
      const std::size_t count =
          round % 2 == 0 ? random() % (9 * kTile) : (1 + random() % 9) * kTile + random() % 3 - 1;
      const std::size_t members = 2 + random() % 4;
      const bool is_in_place = random() % 2 == 0;
      const Reduction reduction{ElementType::kFloat32,
                                random() % 2 == 0 ? ReduceOp::kSum : ReduceOp::kAverage};
      std::vector<std::vector<float>> inputs;
      for (std::size_t i = 0; i < members; ++i) inputs.push_back(any_floats(random, count));
      std::vector<float> expected(count);
      std::vector<Operand> operands;
      for (const auto& input : inputs)
        operands.push_back({reinterpret_cast<const std::byte*>(input.data()), nullptr});
      const auto divisor = static_cast<std::uint32_t>(members);
      add(bytes_of(expected), operands, reduction, divisor);
      std::vector<std::vector<float>> elsewhere(members, std::vector<float>(count));
      auto& outputs = is_in_place ? inputs : elsewhere;
      FanOut job;
      for (const Operand& operand : operands) job.inputs.push_back(operand.data);
      for (auto& output : outputs) job.outputs.push_back(bytes_of(output));
      job.reduction = reduction;
      job.group_size = divisor;
      run(executor, std::move(job));
      for (const auto& output : outputs) CHECK(output == expected);
    }
  }
}

TEST_CASE("a single input is copied to every output, of any size") {
  std::mt19937_64 random(seed_from_environment(12));
  ThreadExecutor executor(2);
  for (const std::size_t count :
       {std::size_t{0}, std::size_t{1}, std::size_t{65'536}, std::size_t{1'000'003}}) {
    auto input = any_floats(random, count);
    std::vector<std::vector<float>> outputs(3, std::vector<float>(count));
    FanOut job;
    job.inputs = {bytes_of(input).data()};
    for (auto& output : outputs) job.outputs.push_back(bytes_of(output));
    run(executor, std::move(job));
    for (const auto& output : outputs) CHECK(output == input);
  }
  run(executor, {});
}
