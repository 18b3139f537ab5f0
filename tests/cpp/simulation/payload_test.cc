#include "simulation/payload.h"

#include <doctest/doctest.h>

#include <vector>

using namespace square;
using simulation::Payload;

TEST_CASE("a payload knows its bytes, and every other one") {
  for (const std::size_t size : {0U, 1U, 7U, 8U, 1'001U}) {
    CAPTURE(size);
    const Payload payload(1, 2, size);
    std::vector<std::byte> bytes(size);
    payload.fill(bytes);
    CHECK(payload.is_filled(bytes));
    for (std::size_t i = 0; i < size; i += 13) {
      bytes[i] ^= std::byte{4};
      CHECK_FALSE(payload.is_filled(bytes));
      bytes[i] ^= std::byte{4};
    }
    if (size >= 8) CHECK_FALSE(Payload(1, 3, size).is_filled(bytes));
    if (size >= 8) CHECK_FALSE(Payload(2, 2, size).is_filled(bytes));
  }
}

TEST_CASE("what ranks give adds up to the sum, in floats or in bytes") {
  for (const std::size_t size : {4'000U, 4'001U}) {
    CAPTURE(size);
    constexpr std::uint32_t kRanks = 5;
    const Payload payload(1, 2, size);
    std::vector<std::byte> sum(size);
    std::vector<std::byte> term(size);
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      payload.fill_term(term, rank);
      if (size % 4 == 0) {
        auto* const to = reinterpret_cast<float*>(sum.data());
        for (std::size_t i = 0; i < size / 4; ++i) to[i] += reinterpret_cast<const float*>(term.data())[i];
      } else {
        for (std::size_t i = 0; i < size; ++i)
          sum[i] =
              static_cast<std::byte>(std::to_integer<unsigned>(sum[i]) + std::to_integer<unsigned>(term[i]));
      }
    }
    CHECK(payload.is_sum(sum, kRanks));
    CHECK_FALSE(payload.is_sum(sum, kRanks - 1));
    sum[size - 1] ^= std::byte{1};
    CHECK_FALSE(payload.is_sum(sum, kRanks));
  }
}
