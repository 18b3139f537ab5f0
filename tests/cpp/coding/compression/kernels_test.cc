// Every table of kernels against one element at a time.
#include "coding/compression/kernels.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "coding/floats.h"

using namespace square;
using namespace square::test;
using compression::Loss;

namespace {

// By the definition: the nearest of the two floats around it whose lower half is zero.
std::uint16_t bfloat16_of(float value) {
  const auto own = std::bit_cast<std::uint32_t>(value);
  const auto upper = static_cast<std::uint16_t>(own >> 16U);
  if (std::isnan(value)) return static_cast<std::uint16_t>(upper | 0x40U);
  if (!std::isfinite(value) || (own & 0xffffU) == 0) return upper;
  const double below = std::bit_cast<float>(std::uint32_t{upper} << 16U);
  // Beyond the largest one is what the next exponent would be.
  const auto next_bits = std::uint32_t{upper} + 1U;
  const double next = (next_bits & 0x7f80U) == 0x7f80U ? std::copysign(0x1p128, double{value})
                                                       : double{std::bit_cast<float>(next_bits << 16U)};
  const double to_below = std::abs(double{value} - below);
  const double to_next = std::abs(next - double{value});
  if (to_below != to_next) return to_below < to_next ? upper : static_cast<std::uint16_t>(next_bits);
  return static_cast<std::uint16_t>((upper & 1U) == 0 ? upper : next_bits);
}

std::vector<float> awkward_floats(std::mt19937_64& random) {
  std::vector<float> values = any_finite(random, 4'000);
  for (const float value :
       {0.0F, -0.0F, kDenormal, -kDenormal, kInfinity, -kInfinity, kNan, kLargest, -kLargest, 0x1p-126F,
        std::bit_cast<float>(0x7f80'0001U), std::bit_cast<float>(0xff80'0001U)})
    values.push_back(value);
  for (std::uint32_t upper = 0; upper < 0x1'0000U; upper += 97) {
    for (const std::uint32_t lower : {0x7fffU, 0x8000U, 0x8001U})
      values.push_back(std::bit_cast<float>(upper << 16U | lower));
  }
  return values;
}

// Reads and writes at odd addresses.
class Shifted {
 public:
  explicit Shifted(std::size_t size) : memory_(size + 1 + kGuard, std::byte{0xa5}), size_(size) {}
  explicit Shifted(const std::vector<float>& values) : Shifted(values.size() * 4) {
    if (!values.empty()) std::memcpy(data(), values.data(), size_);
  }
  std::byte* data() { return memory_.data() + 1; }
  [[nodiscard]] bool is_guarded() const {
    return memory_.front() == std::byte{0xa5} &&
           std::all_of(memory_.end() - kGuard, memory_.end(),
                       [](std::byte b) { return b == std::byte{0xa5}; });
  }
  std::vector<float> floats() {
    std::vector<float> values(size_ / 4);
    if (!values.empty()) std::memcpy(values.data(), data(), size_);
    return values;
  }

 private:
  static constexpr std::ptrdiff_t kGuard = 64;
  std::vector<std::byte> memory_;
  std::size_t size_;
};

}  // namespace

TEST_CASE("bfloat16 is the nearest, and comes back as it is") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  const std::vector<float> values = awkward_floats(random);
  for (const Table& table : tables()) {
    CAPTURE(to_string(table.set));
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{7}, values.size()}) {
      const std::vector<float> given(values.end() - static_cast<std::ptrdiff_t>(count), values.end());
      Shifted in(given);
      Shifted halves(count * 2);
      Shifted back(count * 4);
      table.kernels->to_bfloat16(halves.data(), in.data(), count);
      table.kernels->from_bfloat16(back.data(), halves.data(), count);
      const std::vector<float> decoded = back.floats();
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < count; ++i) {
        std::uint16_t half = 0;
        std::memcpy(&half, halves.data() + 2 * i, 2);
        if (half != bfloat16_of(given[i])) ++wrong;
        if (std::bit_cast<std::uint32_t>(decoded[i]) != std::uint32_t{half} << 16U) ++wrong;
      }
      CHECK(wrong == 0);
      CHECK(halves.is_guarded());
      CHECK(back.is_guarded());
    }
  }
}

TEST_CASE("sums of squares are those of what was given and of what is missing") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  const std::vector<float> values = normal_floats(random, 10'001, 1e25F);  // squares are beyond float32
  double norm = 0;
  double error = 0;
  for (const float value : values) {
    const double left =
        double{value} - double{std::bit_cast<float>(std::uint32_t{bfloat16_of(value)} << 16U)};
    norm += double{value} * double{value};
    error += left * left;
  }
  for (const Table& table : tables()) {
    CAPTURE(to_string(table.set));
    std::vector<std::byte> halves(values.size() * 2);
    const Loss loss = table.kernels->to_bfloat16(halves.data(), bytes(values).data(), values.size());
    CHECK(loss.squared_norm == doctest::Approx(norm));
    CHECK(loss.squared_error == doctest::Approx(error));
    CHECK(table.kernels->squared_norm(bytes(values).data(), values.size()) == doctest::Approx(norm));
  }
}

TEST_CASE("element by element") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (const Table& table : tables()) {
    CAPTURE(to_string(table.set));
    for (const std::size_t count : {0, 1, 31, 1'000}) {
      std::vector<float> left = normal_floats(random, count);
      std::vector<float> right = normal_floats(random, count);
      if (count > 2) {
        left[0] = kNan;
        left[1] = kLargest;
        right[1] = kLargest;
        left[2] = -kInfinity;
      }
      const auto check = [&](auto&& run, auto&& expected) {
        Shifted sum(left);
        Shifted in(right);
        run(sum.data(), in.data());
        const std::vector<float> got = sum.floats();
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < count; ++i) {
          const float want = expected(left[i], right[i]);
          if (std::isnan(want) ? !std::isnan(got[i]) : got[i] != want) ++wrong;
        }
        CHECK(wrong == 0);
        CHECK(sum.is_guarded());
      };
      const auto finite = [](float value) { return std::isfinite(value) ? value : 0.0F; };
      const Kernels& run = *table.kernels;
      check([&](auto* sum, auto* in) { run.add(sum, in, count); }, [](float a, float b) { return a + b; });
      check([&](auto* sum, auto*) { run.divide(sum, count, 3.0F); }, [](float a, float) { return a / 3.0F; });
      check([&](auto* sum, auto* in) { run.add_scaled(sum, in, count, 3.0F); },
            [&](float a, float b) { return finite(a + 3.0F * b); });
      check([&](auto* sum, auto*) { run.clear_non_finite(sum, count); },
            [&](float a, float) { return finite(a); });
    }
  }
}

TEST_CASE("large magnitudes are counted and found") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (const Table& table : tables()) {
    CAPTURE(to_string(table.set));
    for (const std::size_t count : {0, 1, 31, 32, 33, 5'000}) {
      std::vector<float> values = normal_floats(random, count);
      if (count > 100) values[77] = kNan;
      const auto magnitude = [&](std::size_t i) {
        return std::bit_cast<std::uint32_t>(values[i]) & 0x7fff'ffffU;
      };
      std::vector<std::uint32_t> counts(compression::kMagnitudeBins);
      table.kernels->count_magnitudes(counts.data(), bytes(values).data(), count);
      std::vector<std::uint32_t> expected(compression::kMagnitudeBins);
      for (std::size_t i = 0; i < count; ++i) ++expected[magnitude(i) >> compression::kMagnitudeShift];
      CHECK(counts == expected);
      for (const float bound : {0.0F, 0.5F, 2.5F, 100.0F}) {
        const auto least = std::bit_cast<std::uint32_t>(bound);
        std::vector<std::uint32_t> large;
        for (std::size_t i = 0; i < count; ++i) {
          if (magnitude(i) >= least) large.push_back(static_cast<std::uint32_t>(i));
        }
        std::vector<std::uint32_t> found(count + 1, 4'711);
        const std::size_t number =
            table.kernels->find_large(found.data(), large.size(), bytes(values).data(), count, least);
        CHECK(number == large.size());
        CHECK(found[large.size()] == 4'711);  // no more than there is room for
        found.resize(large.size());
        CHECK(found == large);
      }
    }
  }
}
