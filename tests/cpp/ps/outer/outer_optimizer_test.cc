// Whole rounds: the same bits for any number of threads, what is left out, shards, and what is refused.
// tests/python/ps/test_outer.py compares hundreds of rounds with a reference.
#include "square/outer_optimizer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "coding/floats.h"

using namespace square;
using namespace square::ps;
using namespace square::test;

namespace {

OuterOptimizer optimizer_of(std::vector<float> parameters, const OuterOptions& options,
                            const std::vector<std::size_t>& shards = {}, unsigned threads = 1) {
  Result<OuterOptimizer> made = OuterOptimizer::create(std::move(parameters), options, shards, threads);
  REQUIRE(made.is_ok());
  return std::move(made).value();
}

RoundReport round_of(OuterOptimizer& optimizer, const std::vector<Contribution>& contributions,
                     Basis basis = Basis::kBase, std::size_t live = 0) {
  Result<RoundReport> report = optimizer.round(contributions, basis, live);
  REQUIRE(report.is_ok());
  return *report;
}

OuterOptions plain_options() {
  OuterOptions options;
  options.outer = {0.5, 0.5, 1, 0};
  options.clip.reset();
  options.penalty.reset();
  return options;
}

}  // namespace

TEST_CASE("any number of threads gives the same bits") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  const std::size_t count = 500'001;
  const std::vector<float> start = normal_floats(random, count);
  std::vector<std::vector<std::uint32_t>> results;
  std::vector<std::vector<float>> pushes;
  for (int i = 0; i < 3; ++i) pushes.push_back(normal_floats(random, count, 0.001F));
  for (const unsigned threads : {1U, 2U, 5U}) {
    OuterOptions options;
    options.outer = {0.7, 0.8, 2, 0.1};
    OuterOptimizer optimizer = optimizer_of(start, options, {200'000, 1, 300'000}, threads);
    for (int round = 0; round < 3; ++round) {
      const Basis basis = round == 1 ? Basis::kCurrent : Basis::kBase;
      const RoundReport report =
          round_of(optimizer, {{"a", 3, pushes[0]}, {"b", 4, pushes[1]}, {"c", 9, pushes[2]}}, basis);
      CHECK(report.updated);
    }
    results.push_back(bits(optimizer.parameters()));
    CHECK(optimizer.rounds() == 3);
  }
  CHECK(results[0] == results[1]);
  CHECK(results[0] == results[2]);
}

TEST_CASE("a weighted average by hand, from both bases") {
  const std::vector<float> one = {4, 0};
  const std::vector<float> two = {0, 8};
  OuterOptimizer optimizer = optimizer_of({1, 1}, plain_options());
  RoundReport report = round_of(optimizer, {{"a", 1, one}, {"b", 3, two}});
  CHECK(report.judgement.weights == std::vector{0.25, 0.75});
  CHECK(report.norm == doctest::Approx(std::sqrt(37.0)));
  CHECK(report.factor == 1);
  // g = (1, 6), m = g, theta = 1 - 0.5 * 1.5 g
  CHECK(optimizer.parameters() == std::vector<float>{0.25F, -3.5F});
  CHECK(optimizer.momentum() == std::vector<float>{1, 6});

  OuterOptimizer current = optimizer_of({1, 1}, plain_options());
  const std::vector<float> first = {-3, 1};
  const std::vector<float> second = {1, -7};
  round_of(current, {{"a", 1, first}, {"b", 3, second}}, Basis::kCurrent);
  CHECK(current.parameters() == optimizer.parameters());
}

TEST_CASE("a round of which nothing is taken changes nothing") {
  const std::vector<float> fine = {1, 1};
  const std::vector<float> odd = {1, kNan};
  OuterOptimizer optimizer = optimizer_of({1, 2}, plain_options());
  const RoundReport report = round_of(optimizer, {{"a", 1, odd}, {"b", 0, fine}});
  CHECK_FALSE(report.updated);
  CHECK(report.judgement.decisions == std::vector{Decision::kNonFinite, Decision::kNoTokens});
  CHECK_FALSE(round_of(optimizer, {}).updated);
  CHECK(optimizer.parameters() == std::vector<float>{1, 2});
  CHECK(optimizer.rounds() == 0);
  CHECK(round_of(optimizer, {{"a", 1, odd}, {"b", 1, fine}}).updated);
  CHECK(optimizer.parameters() == std::vector<float>{0.25F, 1.25F});
}

TEST_CASE("clipping by shard bounds each, and global clipping the whole") {
  OuterOptions options = plain_options();
  options.clip = 1.0;
  const std::vector<float> push = {30, 0.4F, 40, 0.3F};
  OuterOptimizer global = optimizer_of({0, 0, 0, 0}, options, {2, 2});
  const RoundReport whole = round_of(global, {{"a", 1, push}});
  CHECK(whole.norm == doctest::Approx(std::sqrt(2500.25)));
  CHECK(whole.factor == doctest::Approx(1 / whole.norm));
  CHECK(global.momentum()[2] == doctest::Approx(40 / whole.norm));
  options.clip_scope = ClipScope::kShard;
  OuterOptimizer by_shard = optimizer_of({0, 0, 0, 0}, options, {3, 1});
  const RoundReport parts = round_of(by_shard, {{"a", 1, push}});
  CHECK(parts.factor == doctest::Approx(1 / std::sqrt(2500.16)));
  CHECK(by_shard.momentum()[2] == doctest::Approx(40 / std::sqrt(2500.16)));
  CHECK(by_shard.momentum()[3] == 0.3F);
}

TEST_CASE("live workers that push one by one go as far as together") {
  OuterOptions options = plain_options();
  options.divide_by_live_workers = true;
  options.outer.momentum = 0;
  const std::vector<float> push = {1};
  OuterOptimizer alone = optimizer_of({0}, options);
  for (int i = 0; i < 4; ++i) CHECK(round_of(alone, {{"a", 1, push}}, Basis::kBase, 4).factor == 0.25);
  OuterOptimizer together = optimizer_of({0}, options);
  round_of(together, {{"a", 1, push}, {"b", 1, push}, {"c", 1, push}, {"d", 1, push}}, Basis::kBase, 4);
  CHECK(alone.parameters() == together.parameters());
}

TEST_CASE("shards of any sizes give what one gives") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  const std::vector<float> start = normal_floats(random, 1'000);
  OuterOptimizer one = optimizer_of(start, {});
  OuterOptimizer three = optimizer_of(start, {}, {1, 998, 1}, 3);
  for (int round = 0; round < 5; ++round) {
    const std::vector<float> push = normal_floats(random, 1'000);
    round_of(one, {{"a", 1, push}});
    round_of(three, {{"a", 1, push}});
  }
  const std::vector<float> wanted = one.parameters();
  const std::vector<float> got = three.parameters();
  for (std::size_t i = 0; i < wanted.size(); ++i) REQUIRE(got[i] == doctest::Approx(wanted[i]).epsilon(1e-5));
}

TEST_CASE("an average that overflows changes nothing") {
  const std::vector<float> push(1, kLargest);
  OuterOptimizer optimizer = optimizer_of({-kLargest}, plain_options());
  const RoundReport report = round_of(optimizer, {{"a", 1, push}}, Basis::kCurrent);
  CHECK(report.judgement.decisions.front() == Decision::kNonFinite);
  CHECK_FALSE(report.updated);
  CHECK(optimizer.parameters().front() == -kLargest);
}

TEST_CASE("forgotten workers warm up again where they are alone") {
  OuterOptions options;
  options.penalty->warmup = 2;
  OuterOptimizer optimizer = optimizer_of({0}, options);
  const std::vector<float> usual = {1};
  const std::vector<float> large = {1000};
  for (int i = 0; i < 3; ++i) CHECK(round_of(optimizer, {{"a", 1, usual}}).updated);
  CHECK(round_of(optimizer, {{"a", 1, large}}).judgement.decisions.front() == Decision::kOutlier);
  optimizer.forget("a");
  CHECK(round_of(optimizer, {{"a", 1, large}}).updated);
}

TEST_CASE("mistakes are named, and change nothing") {
  const auto refused = [](const Status& status, const char* what) {
    CAPTURE(what);
    CHECK(status.code() == StatusCode::kInvalidArgument);
    CHECK(status.message().find(what) != std::string::npos);
  };
  refused(OuterOptimizer::create({}, {}).status(), "no parameters");
  refused(OuterOptimizer::create({1, kNan}, {}).status(), "a NaN");
  refused(OuterOptimizer::create({1, 2}, {}, {1, 2}).status(), "a shard of 2 elements where 1 of 2");
  refused(OuterOptimizer::create({1, 2}, {}, {1}).status(), "shards of 1 elements for 2 parameters");
  refused(OuterOptimizer::create({1, 2}, {}, {0, 2}).status(), "a shard of 0 elements");
  refused(OuterOptimizer::create({1, 2}, {}, {}, 257).status(), "257 threads: use 0 to 256");
  refused(OuterOptimizer::create({1}, {.clip = -1.0}).status(), "clip of -1");
  OuterOptimizer optimizer = optimizer_of({1, 2}, {});
  const std::vector<float> three = {1, 2, 3};
  const std::vector<float> two = {1, 2};
  const std::vector<Contribution> contributions = {{"a", 1, two}, {"b", 1, three}};
  refused(optimizer.round(contributions).status(), "3 elements from worker \"b\" for a model of 2");
  refused(optimizer.round(std::vector<Contribution>(4'097, {"a", 1, two})).status(), "at most 4096");
  CHECK(optimizer.parameters() == two);
}
