// Blocks of 8-bit integers, by every table of kernels against the definition.
#include "coding/compression/int8_blocks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

#include "coding/floats.h"

using namespace square;
using namespace square::test;
using compression::Int8Layout;
using compression::Loss;

namespace {

struct Encoded {
  std::vector<float> scales;
  std::vector<std::int8_t> codes;
  friend bool operator==(const Encoded& a, const Encoded& b) {
    return bits(a.scales) == bits(b.scales) && a.codes == b.codes;
  }
};

// One element at a time, rounding by the library.
Encoded reference(const std::vector<float>& values, std::size_t block) {
  Encoded encoded;
  for (std::size_t at = 0; at < values.size(); at += block) {
    const std::size_t end = std::min(values.size(), at + block);
    float largest = 0;
    bool is_finite = true;
    for (std::size_t i = at; i < end; ++i) {
      largest = std::max(largest, std::abs(values[i]));
      is_finite = is_finite && std::isfinite(values[i]);
    }
    float scale = std::max(largest / 127.0F, 0x1p-126F);
    if (std::isinf(127.0F * scale)) scale = std::nextafter(scale, 0.0F);
    if (!is_finite) scale = kNan;
    encoded.scales.push_back(scale);
    for (std::size_t i = at; i < end; ++i)
      encoded.codes.push_back(is_finite ? static_cast<std::int8_t>(std::nearbyint(values[i] / scale))
                                        : std::int8_t{0});
  }
  return encoded;
}

Encoded encode(const Kernels& kernels, const std::vector<float>& values, std::size_t block,
               Loss* loss = nullptr) {
  const Int8Layout layout{values.size(), block};
  Encoded encoded{std::vector<float>(layout.blocks()), std::vector<std::int8_t>(values.size())};
  const Loss got =
      kernels.to_int8(bytes(encoded.scales).data(), std::as_writable_bytes(std::span(encoded.codes)).data(),
                      bytes(values).data(), values.size(), block);
  if (loss != nullptr) *loss = got;
  return encoded;
}

std::vector<float> decode(const Kernels& kernels, const Encoded& encoded, std::size_t block) {
  std::vector<float> values(encoded.codes.size());
  kernels.from_int8(bytes(values).data(), bytes(encoded.scales).data(),
                    std::as_bytes(std::span(encoded.codes)).data(), values.size(), block);
  return values;
}

std::vector<std::vector<float>> inputs(std::mt19937_64& random) {
  std::vector<std::vector<float>> all;
  for (const std::size_t count : {0, 1, 15, 16, 17, 255, 256, 257, 1'000, 4'099}) {
    all.push_back(normal_floats(random, count));
    all.push_back(any_finite(random, count));
  }
  all.push_back(std::vector<float>(300, 0.0F));
  all.push_back(std::vector<float>(300, -0.0F));
  all.push_back(std::vector<float>(300, kDenormal));
  all.push_back(std::vector<float>(300, kLargest));
  all.push_back(std::vector<float>(300, -kLargest));
  std::vector<float> halfway;  // a scale of 1
  for (int i = -254; i <= 254; ++i) halfway.push_back(0.5F * static_cast<float>(i));
  all.push_back(halfway);
  return all;
}

}  // namespace

TEST_CASE("codes and scales are those of the definition") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (const std::vector<float>& values : inputs(random)) {
    for (const std::size_t block : {16, 17, 128, 256, 65'536}) {
      const Encoded expected = reference(values, block);
      for (const Table& table : tables()) {
        CAPTURE(to_string(table.set));
        CAPTURE(values.size());
        CAPTURE(block);
        CHECK(encode(*table.kernels, values, block) == expected);
      }
    }
  }
}

TEST_CASE("what comes back is finite, and within half a step of what was given") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (const std::vector<float>& values : inputs(random)) {
    const std::size_t block = 256;
    for (const Table& table : tables()) {
      CAPTURE(to_string(table.set));
      const Encoded encoded = encode(*table.kernels, values, block);
      const std::vector<float> back = decode(*table.kernels, encoded, block);
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double step = encoded.scales[i / block];
        const double left = std::abs(double{values[i]} - double{back[i]});
        if (!std::isfinite(back[i]) || left > step * (0.5 + 1e-4)) ++wrong;
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("a block with an infinity or a NaN comes back as NaNs, its neighbours as they were") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (const float odd : {kInfinity, -kInfinity, kNan}) {
    std::vector<float> values = normal_floats(random, 3 * 64);
    values[64 + 63] = odd;
    for (const Table& table : tables()) {
      CAPTURE(to_string(table.set));
      Loss loss;
      const std::vector<float> back = decode(*table.kernels, encode(*table.kernels, values, 64, &loss), 64);
      CHECK(std::isnan(loss.squared_norm));
      CHECK(std::isnan(loss.squared_error));
      CHECK(std::all_of(back.begin() + 64, back.begin() + 128, [](float v) { return std::isnan(v); }));
      CHECK(std::all_of(back.begin(), back.begin() + 64, [](float v) { return std::isfinite(v); }));
      CHECK(std::all_of(back.begin() + 128, back.end(), [](float v) { return std::isfinite(v); }));
    }
  }
}

TEST_CASE("sums, residuals and losses agree with what is decoded") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  const std::size_t block = 100;
  std::vector<float> values = normal_floats(random, 2'345, 1e20F);
  for (const Table& table : tables()) {
    CAPTURE(to_string(table.set));
    Loss loss;
    const Encoded encoded = encode(*table.kernels, values, block, &loss);
    const std::vector<float> back = decode(*table.kernels, encoded, block);
    const std::vector<float> before = normal_floats(random, values.size(), 1e20F);
    std::vector<float> sum = before;
    std::vector<float> residual = values;
    residual[3] = kInfinity;
    const std::byte* codes = std::as_bytes(std::span(encoded.codes)).data();
    table.kernels->add_int8(bytes(sum).data(), bytes(encoded.scales).data(), codes, sum.size(), block);
    table.kernels->subtract_int8(bytes(residual).data(), bytes(encoded.scales).data(), codes, residual.size(),
                                 block);
    double norm = 0;
    double error = 0;
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      norm += double{values[i]} * double{values[i]};
      error += std::pow(double{values[i]} - double{back[i]}, 2);
      if (sum[i] != before[i] + back[i]) ++wrong;
      if (residual[i] != (i == 3 ? 0.0F : values[i] - back[i])) ++wrong;
    }
    CHECK(wrong == 0);
    CHECK(loss.squared_norm == doctest::Approx(norm).epsilon(1e-4));
    CHECK(loss.squared_error == doctest::Approx(error).epsilon(1e-4));
  }
}

TEST_CASE("shards are whole blocks, in order, and make up the whole") {
  for (const std::size_t count : {0, 1, 99, 100, 101, 250, 1'234}) {
    for (std::size_t shards = 1; shards <= 7; ++shards) {
      const Int8Layout layout{count, 100};
      std::size_t next = 0;
      std::size_t fewest = count;
      std::size_t most = 0;
      for (std::size_t index = 0; index < shards; ++index) {
        const compression::Shard shard = compression::shard_of(layout, shards, index);
        CHECK(shard.first == next);
        CHECK((shard.first % 100 == 0 || shard.first == count));
        next += shard.count;
        fewest = std::min(fewest, shard.count);
        most = std::max(most, shard.count);
      }
      CHECK(next == count);
      CHECK(most - fewest <= 199);  // a block, and one that is shorter
    }
  }
}
