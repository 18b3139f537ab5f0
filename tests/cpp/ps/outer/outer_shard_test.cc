// A shard's rounds against the formulas in float64, whole and in pieces, given up and restored.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "coding/floats.h"
#include "square/outer_optimizer.h"

using namespace square;
using namespace square::ps;
using namespace square::test;

namespace {

// The formulas of include/square/outer_optimizer.h, one element.
struct ExactElement {
  double theta = 0;
  double m = 0;
  double d = 0;

  void step(const Nesterov& outer, std::uint64_t round, double g) {
    const double n = outer.delay;
    const double c = outer.delay_share;
    d += g;
    if ((round + 1) % outer.delay == 0) {
      m = outer.momentum * m + d / n;
      d = 0;
      theta -= outer.lr * ((1 - c * n + c) * outer.momentum * m + g / n);
    } else {
      theta -= outer.lr * (c * outer.momentum * m + g / n);
    }
  }
};

std::vector<float> copy_of(std::span<const float> values) { return {values.begin(), values.end()}; }

void do_round(OuterShard& shard, std::vector<float> average, double factor, std::size_t piece) {
  shard.begin();
  for (std::size_t first = 0; first < average.size(); first += piece)
    shard.update(first, std::span(average).subspan(first, std::min(piece, average.size() - first)), factor);
  shard.commit(std::move(average));
}

OuterShard shard_of_floats(std::vector<float> parameters, const Nesterov& outer) {
  Result<OuterShard> made = OuterShard::create(std::move(parameters), outer);
  REQUIRE(made.is_ok());
  return std::move(made).value();
}

const std::vector<Nesterov> kOuters = {
    {}, {0.4, 0.9, 1, 1.0}, {0.7, 0.8, 3, 0.0}, {0.7, 0.8, 3, 0.2}, {0.3, 0.0, 2, 0.5}};

}  // namespace

TEST_CASE("rounds are the formulas") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  const std::size_t count = 300;
  for (const Nesterov& outer : kOuters) {
    const std::vector<float> start = normal_floats(random, count);
    OuterShard shard = shard_of_floats(start, outer);
    std::vector<ExactElement> exact(count);
    for (std::size_t i = 0; i < count; ++i) exact[i].theta = start[i];
    for (std::uint64_t round = 0; round < 20; ++round) {
      const std::vector<float> average = normal_floats(random, count);
      const double factor = round % 3 == 0 ? 1.0 : 0.25;
      do_round(shard, average, factor, 7);
      for (std::size_t i = 0; i < count; ++i) {
        exact[i].step(outer, round, factor * double{average[i]});
        REQUIRE(shard.parameters()[i] == doctest::Approx(exact[i].theta).epsilon(2e-6).scale(1));
        REQUIRE(shard.momentum()[i] == doctest::Approx(exact[i].m).epsilon(2e-6).scale(1));
        const double gathered = shard.accumulator().empty() ? 0 : double{shard.accumulator()[i]};
        REQUIRE(gathered == doctest::Approx(exact[i].d).epsilon(2e-6).scale(1));
      }
      CHECK(shard.rounds() == round + 1);
    }
  }
}

TEST_CASE("a known step: theta 1, average 1") {
  OuterShard shard = shard_of_floats({1}, {0.5, 0.5, 1, 0});
  do_round(shard, {1}, 1, 1);  // m = 1, theta = 1 - 0.5 (1 + 0.5)
  CHECK(shard.momentum()[0] == 1);
  CHECK(shard.parameters()[0] == 0.25F);
  CHECK(shard.next_parameters()[0] == 1);  // the ones before
  do_round(shard, {1}, 1, 1);              // m = 1.5, theta = 0.25 - 0.5 (1 + 0.75)
  CHECK(shard.parameters()[0] == -0.625F);
}

TEST_CASE("a round that is given up has changed nothing, whatever was written") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  const std::size_t count = 100;
  for (const Nesterov& outer : kOuters) {
    const std::vector<float> start = normal_floats(random, count);
    OuterShard steady = shard_of_floats(start, outer);
    OuterShard troubled = shard_of_floats(start, outer);
    for (int round = 0; round < 9; ++round) {
      const std::vector<float> average = normal_floats(random, count);
      std::vector<float> lost = normal_floats(random, count);
      troubled.begin();
      troubled.update(0, std::span(lost).first(random() % (count + 1)), 1);
      troubled.abort();
      do_round(steady, average, 0.5, count);
      do_round(troubled, average, 0.5, 33);
      REQUIRE(bits(copy_of(steady.parameters())) == bits(copy_of(troubled.parameters())));
      REQUIRE(bits(copy_of(steady.momentum())) == bits(copy_of(troubled.momentum())));
      REQUIRE(bits(copy_of(steady.accumulator())) == bits(copy_of(troubled.accumulator())));
    }
  }
}

TEST_CASE("several threads update ranges of one round") {
  const std::size_t count = 100'000;
  OuterShard alone = shard_of_floats(std::vector<float>(count, 1.0F), {});
  OuterShard shared = shard_of_floats(std::vector<float>(count, 1.0F), {});
  std::vector<float> average(count, 0.125F);
  do_round(alone, average, 1, count);
  shared.begin();
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 4; ++i)
    threads.emplace_back(
        [&, i] { shared.update(i * 25'000, std::span(average).subspan(i * 25'000, 25'000), 1); });
  for (std::thread& thread : threads) thread.join();
  shared.commit(std::move(average));
  CHECK(bits(copy_of(alone.parameters())) == bits(copy_of(shared.parameters())));
}

TEST_CASE("commit hands back a buffer that is free") {
  OuterShard shard = shard_of_floats({1, 2}, {});
  shard.begin();
  std::vector<float> average = {0.5F, 0.5F};
  shard.update(0, average, 1);
  const std::vector<float> spare = shard.commit(std::move(average));
  CHECK(spare == std::vector<float>{0, 0});  // the momentum of before
  CHECK(copy_of(shard.next_parameters()) == std::vector<float>{1, 2});
}

TEST_CASE("a restored shard goes on with the same bits") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  const std::size_t count = 50;
  for (const Nesterov& outer : kOuters) {
    OuterShard shard = shard_of_floats(normal_floats(random, count), outer);
    for (int round = 0; round < 7; ++round) {
      Result<OuterShard> restored =
          OuterShard::restore({copy_of(shard.parameters()), copy_of(shard.momentum()),
                               copy_of(shard.accumulator()), shard.rounds()},
                              outer);
      REQUIRE(restored.is_ok());
      const std::vector<float> average = normal_floats(random, count);
      do_round(shard, average, 1, count);
      do_round(*restored, average, 1, count);
      REQUIRE(bits(copy_of(shard.parameters())) == bits(copy_of(restored->parameters())));
      REQUIRE(bits(copy_of(shard.momentum())) == bits(copy_of(restored->momentum())));
    }
  }
}

TEST_CASE("states that cannot be are refused") {
  const auto refused = [](OuterShard::State state, const Nesterov& outer, const char* what) {
    CAPTURE(what);
    const Status status = OuterShard::restore(std::move(state), outer).status();
    CHECK(status.code() == StatusCode::kInvalidArgument);
    CHECK(status.message().find(what) != std::string::npos);
  };
  const Nesterov delayed{0.7, 0.8, 3, 0};
  refused({{1, 2}, {0}, {}, 0}, {}, "1 elements of momentum for 2 parameters");
  refused({{1, kNan}, {0, 0}, {}, 0}, {}, "parameters with an infinity or a NaN");
  refused({{1, 2}, {0, kInfinity}, {}, 0}, {}, "momentum with an infinity");
  refused({{1, 2}, {0, 0}, {1}, 1}, delayed, "1 elements of an accumulator");
  refused({{1, 2}, {0, 0}, {1, kNan}, 1}, delayed, "an accumulator with an infinity");
  refused({{1, 2}, {0, 0}, {1, 1}, 3}, delayed, "after 3 rounds: with a delay of 3 there is none");
  refused({{1, 2}, {0, 0}, {1, 1}, 3}, {}, "with a delay of 1");
  refused({{1}, {0}, {}, 0}, {.lr = -1}, "lr of -1");
  CHECK(OuterShard::create({kNan}, {}).status().code() == StatusCode::kInvalidArgument);
  CHECK(OuterShard::create({1}, {.delay = 0}).status().code() == StatusCode::kInvalidArgument);
}
