// The largest elements against a sort of all of them.
#include "coding/compression/top_k.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "coding/floats.h"

using namespace square;
using namespace square::test;
using compression::kTopKBytes;

namespace {

std::uint32_t magnitude(float value) { return std::bit_cast<std::uint32_t>(value) & 0x7fff'ffffU; }

std::vector<std::uint32_t> largest(const std::vector<float>& values, std::size_t chosen) {
  std::vector<std::uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return magnitude(values[a]) > magnitude(values[b]); });
  order.resize(chosen);
  std::sort(order.begin(), order.end());
  return order;
}

struct Chosen {
  std::vector<std::uint32_t> indices;
  std::vector<float> values;
  compression::Loss loss;
  std::vector<std::byte> encoded;
};

Chosen choose(const std::vector<float>& values, std::size_t count) {
  Chosen chosen{std::vector<std::uint32_t>(count), std::vector<float>(count), {}, {}};
  chosen.encoded.resize(count * kTopKBytes);
  chosen.loss = compression::encode_top_k(chosen.encoded, bytes(values));
  if (count == 0) return chosen;
  std::memcpy(chosen.indices.data(), chosen.encoded.data(), count * 4);
  std::memcpy(chosen.values.data(), chosen.encoded.data() + count * 4, count * 4);
  return chosen;
}

}  // namespace

TEST_CASE("the largest are chosen, of equal ones the first") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  std::vector<std::vector<float>> all;
  for (const std::size_t count : {1, 2, 31, 33, 500, 3'000}) {
    all.push_back(normal_floats(random, count));
    all.push_back(any_finite(random, count));
    all.emplace_back(count, 0.0F);
    all.emplace_back(count, -1.5F);
    std::vector<float> few(count);  // many are equal, of both signs
    for (float& value : few) value = static_cast<float>(static_cast<int>(random() % 7) - 3);
    all.push_back(few);
    std::vector<float> odd = normal_floats(random, count);
    odd[random() % count] = kInfinity;
    odd[random() % count] = kDenormal;
    all.push_back(odd);
  }
  all.emplace_back();
  for (const std::vector<float>& values : all) {
    for (const std::size_t wanted : {std::size_t{0}, std::size_t{1}, values.size() / 100, values.size() / 3,
                                     values.size() - 1, values.size()}) {
      if (wanted > values.size()) continue;
      CAPTURE(values.size());
      CAPTURE(wanted);
      const Chosen chosen = choose(values, wanted);
      CHECK(chosen.indices == largest(values, wanted));
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < wanted; ++i) {
        if (chosen.values[i] != values[chosen.indices[i]]) ++wrong;
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("a NaN is the largest of all, and is sent as one") {
  std::vector<float> values{1.0F, kInfinity, std::bit_cast<float>(0xff80'1234U), 3.0F};
  const Chosen chosen = choose(values, 2);
  CHECK(chosen.indices == std::vector<std::uint32_t>{1, 2});
  CHECK(chosen.values[0] == kInfinity);
  CHECK(std::bit_cast<std::uint32_t>(chosen.values[1]) == 0x7fc0'0000U);
  CHECK(std::isnan(chosen.loss.squared_error));
}

TEST_CASE("what is left and what was sent make up what was given") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  const std::vector<float> values = normal_floats(random, 5'000);
  for (const std::size_t wanted : {0, 1, 50, 4'999, 5'000}) {
    const Chosen chosen = choose(values, wanted);
    std::vector<float> left = values;
    compression::clear_top_k(bytes(left), chosen.encoded);
    double norm = 0;
    double error = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      norm += double{values[i]} * double{values[i]};
      error += double{left[i]} * double{left[i]};
    }
    CHECK(chosen.loss.squared_norm == doctest::Approx(norm));
    CHECK(std::abs(chosen.loss.squared_error - error) <= 1e-9 * norm);
    CHECK(compression::add_top_k(bytes(left), chosen.encoded).is_ok());
    CHECK(left == values);
  }
}

TEST_CASE("nothing that is not finite is kept for later") {
  std::vector<float> values{kNan, kInfinity, -kInfinity, 2.0F};
  const Chosen chosen = choose(values, 1);
  compression::clear_top_k(bytes(values), chosen.encoded);
  CHECK(values == std::vector<float>{0.0F, 0.0F, 0.0F, 2.0F});
}

TEST_CASE("an index that there is not is refused before anything is added") {
  std::vector<float> values{1.0F, 2.0F};
  Chosen chosen = choose(values, 2);
  const std::uint32_t wrong = 2;
  std::memcpy(chosen.encoded.data() + 4, &wrong, 4);
  std::vector<float> sum{0.0F, 0.0F};
  const Status status = compression::add_top_k(bytes(sum), chosen.encoded);
  CHECK(status.code() == StatusCode::kDataLoss);
  CHECK(status.message() == "top-k has an element 2 of 2: members' buffers differ");
  CHECK(sum == std::vector<float>{0.0F, 0.0F});
}

TEST_CASE("infinities of both signs add up to the same NaN everywhere") {
  std::vector<float> sum{0.0F};
  for (const float value : {kInfinity, -kInfinity, kNan}) {
    CHECK(compression::add_top_k(bytes(sum), choose({value}, 1).encoded).is_ok());
  }
  CHECK(std::bit_cast<std::uint32_t>(sum[0]) == 0x7fc0'0000U);
}

TEST_CASE("how many a fraction is") {
  CHECK(compression::top_k_count(0, 0.5) == 0);
  CHECK(compression::top_k_count(1, 1e-9) == 1);
  CHECK(compression::top_k_count(1'000, 0.01) == 10);
  CHECK(compression::top_k_count(1'001, 0.01) == 11);
  CHECK(compression::top_k_count(1'000, 1.0) == 1'000);
}
