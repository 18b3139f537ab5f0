// What members of a simulated collective give: drawn by a seed, so that nobody need keep it to compare.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "square/reduction.h"

namespace square::simulation {

// Float32 where elements of it fill the buffer, else uint8: sums of whole numbers, exact.
Reduction sum_of(std::size_t size_bytes);

// The members' bytes of one collective.
class Payload {
 public:
  Payload(std::uint64_t seed, std::uint32_t collective, std::size_t size_bytes);

  [[nodiscard]] std::size_t size_bytes() const { return size_bytes_; }
  // Any bytes.
  void fill(std::span<std::byte> buffer) const;
  [[nodiscard]] bool is_filled(std::span<const std::byte> buffer) const;
  // What a rank adds.
  void fill_term(std::span<std::byte> buffer, std::uint32_t rank) const;
  // Whether it is what so many ranks add up to.
  [[nodiscard]] bool is_sum(std::span<const std::byte> buffer, std::uint32_t ranks) const;

 private:
  [[nodiscard]] std::uint64_t draw(std::uint64_t stream, std::uint64_t index) const;

  const std::uint64_t seed_;
  const std::size_t size_bytes_;
};

}  // namespace square::simulation
