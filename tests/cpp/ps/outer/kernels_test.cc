// The loops against the formulas in float64.
#include "ps/outer/kernels.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "coding/floats.h"

using namespace square;
using namespace square::ps;
using namespace square::test;

namespace {

const std::vector<std::size_t> kCounts = {0, 1, 7, 8, 9, 1'000, kBlockElements + 3};

double sum_of_squares(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += double{value} * double{value};
  return sum;
}

bool is_near(double one, double other) {
  return std::abs(one - other) <= 1e-6 * std::max({1.0, std::abs(one), std::abs(other)});
}

// Bytes that begin at an odd address.
class OddBytes {
 public:
  explicit OddBytes(std::span<const std::byte> bytes) : held_(bytes.size() + 1) {
    if (!bytes.empty()) std::memcpy(held_.data() + 1, bytes.data(), bytes.size());
  }
  [[nodiscard]] std::span<const std::byte> bytes() const { return std::span(held_).subspan(1); }

 private:
  std::vector<std::byte> held_;
};

}  // namespace

TEST_CASE("what is received is copied and measured") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (const std::size_t count : kCounts) {
    CAPTURE(count);
    const std::vector<float> values = normal_floats(random, count);
    std::vector<float> out(count);
    const NormOf norm = receive(out, OddBytes(bytes(values)).bytes(), ElementType::kFloat32);
    CHECK(bits(out) == bits(values));
    CHECK(norm.squared == doctest::Approx(sum_of_squares(values)).epsilon(1e-12));
    CHECK(norm.is_finite);
    CHECK(squared_norm(values).squared == norm.squared);

    const std::vector<float> current = normal_floats(random, count);
    const NormOf moved = receive_parameters(out, current, OddBytes(bytes(values)).bytes());
    for (std::size_t i = 0; i < count; ++i) REQUIRE(out[i] == current[i] - values[i]);
    CHECK(moved.squared == squared_norm(out).squared);
    CHECK(moved.squared == squared_norm_of_difference(current, values).squared);
  }
}

TEST_CASE("bfloat16 becomes the float32 that it is the upper half of") {
  std::vector<std::uint16_t> halves;
  for (std::uint32_t half = 0; half < 65'536; ++half) halves.push_back(static_cast<std::uint16_t>(half));
  std::vector<float> out(halves.size());
  const OddBytes payload(std::as_bytes(std::span(halves)));
  CHECK_FALSE(receive(out, payload.bytes(), ElementType::kBfloat16).is_finite);
  for (std::uint32_t half = 0; half < 65'536; ++half)
    REQUIRE(std::bit_cast<std::uint32_t>(out[half]) == half << 16U);
}

TEST_CASE("one element that is not finite is seen, wherever it is, and the largest are finite") {
  for (const std::size_t count : kCounts) {
    std::vector<float> values(count, kLargest);
    CHECK(squared_norm(values).is_finite);
    for (const float odd : {kInfinity, -kInfinity, kNan}) {
      for (const std::size_t at : {std::size_t{0}, count / 2, count - 1}) {
        if (count == 0) continue;
        values[at] = odd;
        CHECK_FALSE(squared_norm(values).is_finite);
        CHECK_FALSE(squared_norm_of_difference(std::vector<float>(count), values).is_finite);
        values[at] = kLargest;
      }
    }
  }
  CHECK_FALSE(squared_norm_of_difference(std::vector{kLargest}, std::vector{-kLargest}).is_finite);
}

TEST_CASE("a total is finite where all blocks are") {
  const std::vector<NormOf> blocks = {{1.5, true}, {2.5, true}};
  CHECK(total(blocks).squared == 4);
  CHECK(total(blocks).is_finite);
  CHECK_FALSE(total(std::vector<NormOf>{{1, true}, {2, false}, {3, true}}).is_finite);
  CHECK(total({}).squared == 0);
}

TEST_CASE("an average grows push by push, in place of the first one, too") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (const std::size_t count : kCounts) {
    std::vector<float> first = normal_floats(random, count);
    const std::vector<float> given = first;
    const std::vector<float> second = normal_floats(random, count);
    const std::vector<float> current = normal_floats(random, count);
    add_weighted(first, first, 0.25F, true);
    add_weighted(first, second, 0.75F, false);
    for (std::size_t i = 0; i < count; ++i)
      REQUIRE(is_near(first[i], 0.25 * double{given[i]} + 0.75 * double{second[i]}));
    std::vector<float> moved(count, kNan);
    add_weighted_difference(moved, current, given, 0.25F, true);
    add_weighted_difference(moved, current, second, 0.75F, false);
    for (std::size_t i = 0; i < count; ++i)
      REQUIRE(is_near(moved[i], double{current[i]} - 0.25 * double{given[i]} - 0.75 * double{second[i]}));
  }
}

TEST_CASE("steps are the formulas', with and without something gathered") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  const Step step{0.7F, 0.8F, 0.3F, 0.25F, 0.5F};
  for (const std::size_t count : kCounts) {
    const std::vector<float> average = normal_floats(random, count);
    const std::vector<float> theta = normal_floats(random, count);
    const std::vector<float> m = normal_floats(random, count);
    const std::vector<float> d = normal_floats(random, count);
    for (const bool has_gathered : {false, true}) {
      std::vector<float> moved = average;
      std::vector<float> kept = average;
      std::vector<float> moved_next(count);
      std::vector<float> kept_next(count);
      const std::span<const float> gathered = has_gathered ? std::span(d) : std::span<const float>();
      nesterov(moved_next, moved, theta, m, gathered, step);
      delayed(kept_next, kept, theta, m, gathered, step);
      for (std::size_t i = 0; i < count; ++i) {
        const double g = double{step.factor} * average[i];
        const double all = g + (has_gathered ? double{d[i]} : 0);
        const double next_m = double{step.momentum} * m[i] + double{step.share} * all;
        const double lr = step.lr;
        REQUIRE(is_near(moved[i], next_m));
        REQUIRE(is_near(moved_next[i], theta[i] - lr * (double{step.look_ahead} * next_m + step.share * g)));
        REQUIRE(is_near(kept[i], all));
        REQUIRE(is_near(kept_next[i], theta[i] - lr * (double{step.look_ahead} * m[i] + step.share * g)));
      }
    }
  }
}
