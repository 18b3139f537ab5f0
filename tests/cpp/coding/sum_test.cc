// Sums of operands that come in one piece or in many.
#include "coding/sum.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <span>

#include "coding/floats.h"

using namespace square;
using namespace square::test;

TEST_CASE("add: slices that end anywhere give the sum of the whole") {
  std::mt19937_64 random(seed());
  for (int round = 0; round < 50; ++round) {
    const std::size_t count = 1 + random() % 10'000;
    const auto a = normal_floats(random, count, 1e3F);
    const auto b = normal_floats(random, count, 1e3F);
    const auto c = normal_floats(random, count, 1e3F);
    Buffer slices;
    const auto bytes = std::as_bytes(std::span(c));
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t run = std::min<std::size_t>(bytes.size() - at, 1 + random() % 5'000);
      slices.append({nullptr, bytes.data() + at, run});
      at += run;
    }
    std::vector<float> expected(count);
    for (std::size_t i = 0; i < count; ++i) expected[i] = (a[i] + b[i]) + c[i];
    const auto* a_bytes = reinterpret_cast<const std::byte*>(a.data());
    std::vector<float> out(count);
    const Reduction sum{ElementType::kFloat32, ReduceOp::kSum};
    add(std::as_writable_bytes(std::span(out)),
        {{a_bytes, nullptr}, {reinterpret_cast<const std::byte*>(b.data()), nullptr}, {nullptr, &slices}},
        sum);
    CHECK(out == expected);
    // In place of the second operand.
    std::vector<float> in_place = b;
    const auto* own = reinterpret_cast<const std::byte*>(in_place.data());
    add(std::as_writable_bytes(std::span(in_place)), {{a_bytes, nullptr}, {own, nullptr}, {nullptr, &slices}},
        sum);
    CHECK(in_place == expected);
  }
}
