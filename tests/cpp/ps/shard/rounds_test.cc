// A server's rounds beside OuterOptimizer: the same bits, sent while they are made.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "coding/floats.h"
#include "ps/data/parts.h"
#include "ps/shard/rig.h"
#include "square/outer_optimizer.h"

using namespace square;
using namespace square::ps;
using namespace square::test;

namespace {

constexpr std::size_t kPartAndMore = kPartElements + 17;
constexpr std::size_t kThreeParts = 2 * kPartElements + kBlockElements + 17;

OuterOptimizer reference(const std::vector<float>& parameters, const Nesterov& outer) {
  OuterOptions options;
  options.outer = outer;
  options.penalty.reset();
  auto made = OuterOptimizer::create(parameters, options, {}, 1);
  REQUIRE(made.is_ok());
  return std::move(*made);
}

std::vector<float> pulled(Result<std::vector<float>> values) {
  REQUIRE_MESSAGE(values.is_ok(), values.status().to_string());
  return std::move(*values);
}

// Two pushes, averaged, made while two workers pull it, committed.
void compare_a_round(ShardRig& rig, OuterOptimizer& expected, std::uint64_t version, Basis basis,
                     const std::vector<float>& one, const std::vector<float>& other) {
  const Contribution contributions[] = {{"a", 300, one}, {"b", 100, other}};
  const auto report = expected.round(contributions, basis);
  REQUIRE(report.is_ok());
  REQUIRE(report->updated);
  const std::uint64_t ticket = version * 10;
  for (const auto& [number, values] : {std::pair{0U, &one}, std::pair{1U, &other}}) {
    const auto squared = rig.whole_push(ticket + number, *values);
    REQUIRE_MESSAGE(squared.is_ok(), squared.status().to_string());
    CHECK(std::sqrt(*squared) == report->judgement.norms[number]);
  }
  const auto& weights = report->judgement.weights;
  const auto squared = rig.average({{ticket, weights[0]}, {ticket + 1, weights[1]}}).get();
  REQUIRE(squared.is_ok());
  CHECK(std::sqrt(*squared) == report->norm);

  auto made = rig.make(version, report->factor);
  const v1::PsTransfer first = rig.transfer(ticket + 2, version, 100 + version);
  const v1::PsTransfer second = rig.transfer(ticket + 3, version, 100 + version);
  auto first_sent = rig.send(first);
  auto second_sent = rig.send(second);
  auto first_values = rig.pull(first);
  auto second_values = rig.pull(second);
  const std::vector<std::uint32_t> exact = bits(expected.parameters());
  CHECK(bits(pulled(first_values.get())) == exact);
  CHECK(bits(pulled(second_values.get())) == exact);
  CHECK(first_sent.get().is_ok());
  CHECK(second_sent.get().is_ok());
  const auto outcome = made.get();
  REQUIRE_MESSAGE(outcome.is_ok(), outcome.status().to_string());
  CHECK(outcome->hash != 0);
  rig.commit(version);
  CHECK(bits(pulled(rig.whole_pull(version))) == exact);
}

void compare_rounds(RigOptions options, Basis basis) {
  const TemporaryFolder folder;
  options.size = kThreeParts;
  ShardRig rig(folder, options);
  const std::vector<float> parameters = drawn(1, options.size);
  rig.begin_with(parameters);
  OuterOptimizer expected = reference(parameters, options.outer);
  for (std::uint64_t version = 2; version < 4; ++version) {
    std::vector<float> one = drawn(version * 2, options.size, 0.5F);
    std::vector<float> other = drawn(version * 2 + 1, options.size, 0.5F);
    if (options.is_bfloat16) {
      one = cut_to_bfloat16(std::move(one));
      other = cut_to_bfloat16(std::move(other));
    }
    compare_a_round(rig, expected, version, basis, one, other);
  }
  CHECK(rig.held() == std::vector<std::uint64_t>{1, 2, 3});
}

}  // namespace

TEST_CASE("a shard's rounds have the bits of the optimizer: deltas in float32") {
  compare_rounds({}, Basis::kBase);
}

TEST_CASE("a shard's rounds have the bits of the optimizer: deltas in bfloat16, with a delay") {
  RigOptions options;
  options.is_bfloat16 = true;
  options.outer = {0.7, 0.8, 2, 0.25};
  compare_rounds(options, Basis::kBase);
}

TEST_CASE("a shard's rounds have the bits of the optimizer: parameters") {
  RigOptions options;
  options.pushes_parameters = true;
  options.is_bfloat16 = true;  // of parameters it is not asked
  options.threads = 1;
  compare_rounds(options, Basis::kCurrent);
}

TEST_CASE("a version of no pushes is as the one before, with another name") {
  const TemporaryFolder folder;
  ShardRig rig(folder, {.size = 1000});
  const std::vector<float> parameters = drawn(1, 1000);
  rig.begin_with(parameters);
  const auto made = rig.make(2, 0).get();
  REQUIRE(made.is_ok());
  rig.commit(2);
  CHECK(bits(pulled(rig.whole_pull(2))) == bits(parameters));
  // And the rounds go on from it.
  OuterOptimizer expected = reference(parameters, {});
  compare_a_round(rig, expected, 3, Basis::kBase, drawn(2, 1000), drawn(3, 1000));
}

TEST_CASE("a version that is dropped leaves memory and disk as before") {
  const TemporaryFolder folder;
  ShardRig rig(folder, {.size = kPartAndMore});
  const std::vector<float> parameters = drawn(1, kPartAndMore);
  rig.begin_with(parameters);
  const auto files = folder.files();
  REQUIRE(files.size() == 1);
  CHECK(rig.drop_made().is_ok());  // nothing is made

  REQUIRE(rig.whole_push(5, drawn(9, kPartAndMore)).is_ok());
  REQUIRE(rig.average({{5, 1.0}}).get().is_ok());
  REQUIRE(rig.make(2, 1).get().is_ok());
  CHECK(folder.files().size() == 2);
  CHECK(rig.held() == std::vector<std::uint64_t>{1, 2});
  CHECK(rig.drop_made().is_ok());
  CHECK(folder.files() == files);
  CHECK(rig.held() == std::vector<std::uint64_t>{1});
  CHECK(rig.whole_pull(2).status().code() == StatusCode::kCancelled);
  rig.commit(2);  // is not there
  CHECK(bits(pulled(rig.whole_pull(1))) == bits(parameters));

  // Dropped before it is made, the average does not count any more either.
  REQUIRE(rig.whole_push(6, drawn(8, kPartAndMore)).is_ok());
  auto averaged = rig.average({{6, 1.0}});
  CHECK(rig.drop_made().is_ok());
  CHECK(averaged.get().is_ok());
  OuterOptimizer expected = reference(parameters, {});
  compare_a_round(rig, expected, 2, Basis::kBase, drawn(2, kPartAndMore), drawn(3, kPartAndMore));
}

TEST_CASE("a push with a NaN is told, and one that overflows a step makes no version") {
  const TemporaryFolder folder;
  ShardRig rig(folder, {.size = 1000});
  const std::vector<float> parameters = drawn(1, 1000);
  rig.begin_with(parameters);
  std::vector<float> values = drawn(2, 1000);
  values[777] = kNan;
  const auto squared = rig.whole_push(5, values);
  REQUIRE(squared.is_ok());
  CHECK(std::isnan(*squared));
  // Taken all the same, it leaves the model alone.
  const auto averaged = rig.average({{5, 1.0}}).get();
  REQUIRE(averaged.is_ok());
  CHECK(std::isnan(*averaged));
  REQUIRE(rig.make(2, 0).get().is_ok());
  rig.commit(2);
  CHECK(bits(pulled(rig.whole_pull(2))) == bits(parameters));

  REQUIRE(rig.whole_push(6, std::vector<float>(1000, 3e38F)).is_ok());
  REQUIRE(rig.average({{6, 1.0}}).get().is_ok());
  CHECK(rig.make(3, 2.0).get().status().code() == StatusCode::kInvalidArgument);
  CHECK(rig.drop_made().is_ok());
  CHECK(rig.held() == std::vector<std::uint64_t>{1, 2});
  CHECK(bits(pulled(rig.whole_pull(2))) == bits(parameters));

  values[777] = kInfinity;
  REQUIRE(rig.whole_push(7, values, true).is_ok());
  CHECK(rig.make(3, 0, 7).get().status().code() == StatusCode::kInvalidArgument);
}

TEST_CASE("an empty shard does all that others do") {
  const TemporaryFolder folder;
  const RigOptions options{.size = 0, .outer = {0.7, 0.8, 3, 0.0}};
  {
    ShardRig rig(folder, options);
    rig.begin_with({});
    const auto squared = rig.whole_push(5, {});
    REQUIRE(squared.is_ok());
    CHECK(*squared == 0);
    const auto averaged = rig.average({{5, 1.0}}).get();
    REQUIRE(averaged.is_ok());
    CHECK(*averaged == 0);
    REQUIRE(rig.make(2, 0.5).get().is_ok());
    rig.commit(2);
    CHECK(pulled(rig.whole_pull(2)).empty());
  }
  ShardRig rig(folder, options);
  CHECK(rig.held() == std::vector<std::uint64_t>{1, 2});
  CHECK(rig.open(2, 102).is_ok());
  rig.whole_round(3, {}, 1);
  CHECK(pulled(rig.whole_pull(3)).empty());
}

TEST_CASE("what is not on the server is said so") {
  const TemporaryFolder folder;
  ShardRig rig(folder, {.size = 10});
  rig.begin_with(drawn(1, 10));
  CHECK(rig.average({{99, 1.0}}).get().status().code() == StatusCode::kInternal);
  CHECK(rig.make(2, 0, 99).get().status().code() == StatusCode::kInternal);
  REQUIRE(rig.make(2, 0).get().is_ok());
  CHECK(rig.make(3, 0).get().status().code() == StatusCode::kFailedPrecondition);
  v1::PsTransfer other = rig.transfer(5, 1);
  other.mutable_shard()->set_end(8);
  CHECK(rig.take(other).get().status().code() == StatusCode::kInvalidArgument);
  CHECK(rig.send(other).get().code() == StatusCode::kInvalidArgument);
}
