// Which pushes are taken: figures by hand, outliers of known sizes, and states that are saved and loaded.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>

#include "coding/floats.h"
#include "square/outer_optimizer.h"

using namespace square;
using namespace square::ps;
using square::test::seed;

namespace {

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

OuterOptions penalty_options(std::uint32_t warmup, std::uint32_t window = 1024, double alpha = 0.02) {
  OuterOptions options;
  options.penalty = Ewma{alpha, 3, warmup, window};
  return options;
}

PushSummary push_of(std::string worker, double norm, std::uint64_t tokens = 1) {
  return {std::move(worker), tokens, {norm * norm}};
}

Decision judge_push(Penalty& penalty, const std::string& worker, double norm, std::uint64_t tokens = 1) {
  const std::vector<PushSummary> one = {push_of(worker, norm, tokens)};
  return penalty.judge(one).decisions.front();
}

double score_of(Penalty& penalty, const std::string& worker, double norm) {
  const std::vector<PushSummary> one = {push_of(worker, norm)};
  return penalty.judge(one).scores.front();
}

// Pushes with norms of 0.9 to 1.1.
void warm_up(Penalty& penalty, const std::string& worker, std::mt19937_64& random, int pushes) {
  std::uniform_real_distribution<double> near(0.9, 1.1);
  for (int i = 0; i < pushes; ++i) REQUIRE(judge_push(penalty, worker, near(random)) == Decision::kTaken);
}

}  // namespace

TEST_CASE("statistics by hand") {
  Penalty penalty(penalty_options(2, 1024, 0.5));
  // Mean 2, variance 1.
  CHECK(score_of(penalty, "a", 1) == 0);
  CHECK(score_of(penalty, "a", 3) == 0);
  CHECK(score_of(penalty, "a", 4) == 2);
  // Then mean 3, variance 0.5 * 1 + 0.5 * 1 = 1; the largest score is 2.
  CHECK(score_of(penalty, "a", 1) == -2);
  // Then mean 2, variance 0.5 + 0.5 = 1; the limit is 6.
  CHECK(judge_push(penalty, "a", 8.5) == Decision::kOutlier);
  CHECK(score_of(penalty, "a", 8) == 6);
}

TEST_CASE("steady norms are measured by a thousandth of their mean") {
  Penalty penalty(penalty_options(3));
  for (int i = 0; i < 3; ++i) CHECK(judge_push(penalty, "a", 2) == Decision::kTaken);
  CHECK(score_of(penalty, "a", 2.001) == doctest::Approx(0.5));
  CHECK(judge_push(penalty, "a", 2.1) == Decision::kOutlier);
  Penalty zeros(penalty_options(1));
  CHECK(judge_push(zeros, "a", 0) == Decision::kTaken);
  CHECK(judge_push(zeros, "a", 0) == Decision::kTaken);
  CHECK(judge_push(zeros, "a", 1e-3) == Decision::kOutlier);
}

TEST_CASE("after a warm-up, pushes 5 to 1000 times as long never pass, and usual ones do") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (const double times : {5.0, 10.0, 100.0, 1000.0}) {
    Penalty penalty(penalty_options(120));
    warm_up(penalty, "a", random, 120);
    for (int i = 0; i < 300; ++i) {
      REQUIRE(judge_push(penalty, "a", times) == Decision::kOutlier);
      warm_up(penalty, "a", random, 1);
    }
  }
}

TEST_CASE("in a warm-up only what is not finite or without tokens is refused, and it does not count") {
  Penalty penalty(penalty_options(3));
  CHECK(judge_push(penalty, "a", kNoNumber) == Decision::kNonFinite);
  CHECK(judge_push(penalty, "a", std::numeric_limits<double>::infinity()) == Decision::kNonFinite);
  CHECK(judge_push(penalty, "a", 1e101) == Decision::kNonFinite);
  CHECK(judge_push(penalty, "a", 1, 0) == Decision::kNoTokens);
  CHECK(judge_push(penalty, "a", kNoNumber, 0) == Decision::kNonFinite);
  CHECK(penalty.workers() == 0);
  for (const double norm : {1.0, 1e6, 1.0}) CHECK(judge_push(penalty, "a", norm) == Decision::kTaken);
}

TEST_CASE("without a penalty all that is finite and has tokens is taken") {
  OuterOptions options;
  options.penalty.reset();
  Penalty penalty(options);
  for (int i = 0; i < 200; ++i) REQUIRE(judge_push(penalty, "a", i % 7 == 0 ? 1e9 : 1) == Decision::kTaken);
  CHECK(judge_push(penalty, "a", kNoNumber) == Decision::kNonFinite);
  CHECK(judge_push(penalty, "a", 1, 0) == Decision::kNoTokens);
}

TEST_CASE("weights are the parts of the tokens that are taken") {
  Penalty penalty(penalty_options(2));
  const std::vector<PushSummary> pushes = {push_of("a", 1, 10), push_of("b", kNoNumber, 500),
                                           push_of("c", 1, 0), push_of("d", 2, 30)};
  const Judgement judgement = penalty.judge(pushes);
  CHECK(judgement.weights == std::vector{0.25, 0.0, 0.0, 0.75});
  CHECK(judgement.decisions ==
        std::vector{Decision::kTaken, Decision::kNonFinite, Decision::kNoTokens, Decision::kTaken});
  CHECK(penalty.judge({}).weights.empty());
}

TEST_CASE("norms of shards become one by root or by sum") {
  OuterOptions options = penalty_options(2);
  const std::vector<PushSummary> pushes = {{"a", 1, {9, 16}}, {"a", 1, {-1, 2}}};
  CHECK(Penalty(options).judge(pushes).norms.front() == 5);
  CHECK(Penalty(options).judge(pushes).decisions.back() == Decision::kNonFinite);
  options.norms = NormAggregation::kSum;
  CHECK(Penalty(options).judge(pushes).norms.front() == 7);
}

TEST_CASE("a newcomer among others starts with their means, and is judged at once") {
  Penalty penalty(penalty_options(2, 1024, 0.5));
  for (const double norm : {1.0, 3.0}) CHECK(judge_push(penalty, "a", norm) == Decision::kTaken);
  // Mean 10, deviation 3.
  for (const double norm : {7.0, 13.0}) penalty.judge(std::vector{push_of("b", norm)});
  // "b" was new when "a" was past its warm-up: both were outliers beside mean 2, deviation 1.
  CHECK(judge_push(penalty, "b", 5.5) == Decision::kOutlier);
  CHECK(score_of(penalty, "b", 4) == 2);
  CHECK(score_of(penalty, "c", 3) == doctest::Approx((3 - 2.5) / 1.0));
}

TEST_CASE("who is an outlier too often in a row starts anew") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  Penalty penalty(penalty_options(20));
  warm_up(penalty, "a", random, 40);
  const auto too_long = [&] { return judge_push(penalty, "a", 50); };
  for (std::uint32_t i = 0; i + 1 < Ewma::kExclusionsBeforeNewStart; ++i)
    CHECK(too_long() == Decision::kOutlier);
  warm_up(penalty, "a", random, 1);  // the row is over
  for (std::uint32_t i = 0; i < Ewma::kExclusionsBeforeNewStart; ++i) {
    CHECK(too_long() == Decision::kOutlier);
    CHECK(judge_push(penalty, "a", kNoNumber) == Decision::kNonFinite);  // ends no row
  }
  for (int i = 0; i < 20; ++i) CHECK(too_long() == Decision::kTaken);
  CHECK(judge_push(penalty, "a", 1000) == Decision::kOutlier);
  CHECK(judge_push(penalty, "a", 50.1) != Decision::kNonFinite);
}

TEST_CASE("a high score is forgotten when it leaves the window") {
  Penalty penalty(penalty_options(2, 4, 1e-9));
  for (const double norm : {1.0, 3.0}) judge_push(penalty, "a", norm);  // mean 2, deviation 1
  CHECK(judge_push(penalty, "a", 4.9) == Decision::kTaken);             // 2.9
  CHECK(judge_push(penalty, "a", 10) == Decision::kTaken);              // 8, below 8.7
  for (int i = 0; i < 4; ++i) CHECK(judge_push(penalty, "a", 2) == Decision::kTaken);
  CHECK(judge_push(penalty, "a", 10) == Decision::kOutlier);
}

TEST_CASE("limits are those from before the round, whatever the order in it") {
  for (const bool swapped : {false, true}) {
    Penalty penalty(penalty_options(2, 4, 1e-9));
    for (const double norm : {1.0, 3.0}) judge_push(penalty, "a", norm);
    for (const double norm : {2.0, 2.0}) judge_push(penalty, "b", norm);
    std::vector<PushSummary> pushes = {push_of("a", 4.9), push_of("b", 6)};
    if (swapped) std::swap(pushes[0], pushes[1]);
    const Judgement judgement = penalty.judge(pushes);
    CHECK(judgement.decisions[swapped ? 1 : 0] == Decision::kTaken);
    CHECK(judgement.decisions[swapped ? 0 : 1] == Decision::kOutlier);
  }
}

TEST_CASE("who left is new when it comes back") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  Penalty penalty(penalty_options(5));
  warm_up(penalty, "a", random, 6);
  CHECK(judge_push(penalty, "a", 90) == Decision::kOutlier);
  penalty.forget("nobody");
  penalty.forget("a");
  CHECK(penalty.workers() == 0);
  CHECK(judge_push(penalty, "a", 90) == Decision::kTaken);
}

TEST_CASE("a loaded penalty goes on with the same bits") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  const OuterOptions options = penalty_options(10, 30);
  Penalty kept(options);
  std::lognormal_distribution<double> draw(0, 0.5);
  const std::vector<std::string> names = {"", "a b\nc", std::string("\0\xff", 2), "d"};
  for (int round = 0; round < 300; ++round) {
    std::vector<PushSummary> pushes;
    for (const std::string& name : names) {
      if (random() % 3 == 0) continue;
      pushes.push_back(push_of(name, draw(random) * (random() % 20 == 0 ? 50 : 1), random() % 9));
    }
    Result<Penalty> loaded = Penalty::load(options, kept.save());
    REQUIRE(loaded.is_ok());
    const Judgement one = kept.judge(pushes);
    const Judgement other = loaded->judge(pushes);
    REQUIRE(one.decisions == other.decisions);
    REQUIRE(one.scores == other.scores);
    REQUIRE(kept.save() == loaded->save());
  }
}

TEST_CASE("what save() did not write is refused") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  const OuterOptions options = penalty_options(20);
  Penalty penalty(options);
  warm_up(penalty, "alice", random, 25);
  warm_up(penalty, "bob", random, 25);
  const std::string text = penalty.save();
  CHECK(Penalty::load(options, text).is_ok());
  for (std::size_t length = 0; length < text.size(); ++length)
    REQUIRE(Penalty::load(options, text.substr(0, length)).status().code() == StatusCode::kInvalidArgument);
  for (int i = 0; i < 20'000; ++i) {  // no crash; what is read is written again
    std::string changed = text;
    changed[random() % changed.size()] = static_cast<char>(random());
    const Result<Penalty> loaded = Penalty::load(options, changed);
    if (loaded.is_ok()) REQUIRE(Penalty::load(options, loaded->save()).is_ok());
  }
  const std::string head = "square-penalty 1\nwindow 0\nworkers ";
  CHECK(Penalty::load(options, head + "1\n5 0 1 0.5 1 a\n").is_ok());
  for (const std::string bad :
       {"1\n5 0 nan 0.5 1 a\n", "1\n5 0 inf 0.5 1 a\n", "1\n5 0 -1 0.5 1 a\n", "1\n5 0 1 -0.5 1 a\n",
        "1\n5 10 1 0.5 1 a\n", "1\n5 0 1 0.5 99 a\n", "100001\n", "2\n5 0 1 0 1 a\n5 0 1 0 1 a\n", "0\n "}) {
    CAPTURE(bad);
    CHECK(Penalty::load(options, head + bad).status().code() == StatusCode::kInvalidArgument);
  }
}

TEST_CASE("no more workers than the bound are remembered") {
  Penalty penalty(penalty_options(1));
  std::vector<PushSummary> pushes;
  for (std::size_t i = 0; i < Penalty::kMostWorkers + 5; ++i) pushes.push_back(push_of(std::to_string(i), 1));
  penalty.judge(pushes);
  CHECK(penalty.workers() == Penalty::kMostWorkers);
  CHECK(Penalty::load(penalty_options(1), penalty.save()).is_ok());
  CHECK(judge_push(penalty, "late", 100) == Decision::kOutlier);
  CHECK(judge_push(penalty, "late", 1) == Decision::kTaken);
}

TEST_CASE("options out of bounds are named") {
  const auto refused = [](const OuterOptions& options, const char* what) {
    CAPTURE(what);
    const Status status = check(options);
    CHECK(status.code() == StatusCode::kInvalidArgument);
    CHECK(status.message().find(what) != std::string::npos);
  };
  CHECK(check(OuterOptions{}).is_ok());
  for (const double bad : {0.0, -1.0, kNoNumber, std::numeric_limits<double>::infinity()}) {
    refused({.outer = {.lr = bad}}, "lr of");
    refused({.clip = bad}, "clip of");
    refused({.penalty = Ewma{.alpha = bad}}, "alpha of");
    refused({.penalty = Ewma{.beta = bad}}, "beta of");
  }
  for (const double bad : {1.0, -0.1, kNoNumber}) refused({.outer = {.momentum = bad}}, "momentum of");
  refused({.outer = {.delay = 0}}, "delay of 0");
  refused({.outer = {.delay = 20'000}}, "delay of 20000");
  refused({.outer = {.delay = 4, .delay_share = 0.3}}, "delay_share of 0.3: use 0 to 1/4");
  refused({.outer = {.delay = 4, .delay_share = kNoNumber}}, "delay_share of nan");
  refused({.penalty = Ewma{.warmup = 0}}, "warmup of 0");
  refused({.penalty = Ewma{.window = 0}}, "window of 0");
  refused({.clip_scope = static_cast<ClipScope>(9)}, "clip_scope of 9");
  refused({.norms = static_cast<NormAggregation>(9)}, "norms of 9");
}

TEST_CASE("clipping bounds the norm of the whole or of the shard") {
  OuterOptions options;
  options.clip = 2.0;
  const std::vector<double> squared = {9, 16};
  CHECK(clip_factor(options, squared, 0) == doctest::Approx(0.4));
  CHECK(clip_factor(options, squared, 1) == doctest::Approx(0.4));
  CHECK(clip_factor(options, squared, 1, 0.3) == 0.3);
  CHECK(clip_factor(options, squared, 1, 0.5) == doctest::Approx(0.4));
  options.clip_scope = ClipScope::kShard;
  CHECK(clip_factor(options, squared, 0) == doctest::Approx(2.0 / 3));
  CHECK(clip_factor(options, squared, 1) == doctest::Approx(0.5));
  CHECK(clip_factor(options, std::vector{1.0}, 0) == 1);
  CHECK(clip_factor(options, std::vector{0.0}, 0) == 1);
  CHECK(clip_factor(options, std::vector{kNoNumber}, 0) == 0);
  options.clip.reset();
  CHECK(clip_factor(options, squared, 0) == 1);
  CHECK(live_share(options, 1, 4) == 1);
  options.divide_by_live_workers = true;
  CHECK(live_share(options, 1, 4) == 0.25);
  CHECK(live_share(options, 4, 3) == 1);
}
