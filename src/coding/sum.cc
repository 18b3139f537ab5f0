#include "coding/sum.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"

namespace square {
namespace {

// Partial sums stay in the first-level cache.
constexpr std::size_t kTileBytes = std::size_t{8} << 10U;
using Tile = std::array<std::byte, kTileBytes>;

// Reads an operand from front to back, a tile at a time.
class Reader {
 public:
  explicit Reader(const Operand& operand) : operand_(operand) {}

  // The next `size` bytes; gathered in `space` where they are not in one piece.
  const std::byte* next(std::size_t size, Tile& space) {
    if (operand_.data != nullptr) {
      const std::byte* here = operand_.data + position_;
      position_ += size;
      return here;
    }
    const auto& slices = operand_.slices->slices();
    while (position_ == slices[slice_].size_bytes) next_slice();
    if (slices[slice_].size_bytes - position_ >= size) {
      const std::byte* here = slices[slice_].data + position_;
      position_ += size;
      return here;
    }
    for (std::size_t filled = 0; filled < size;) {
      const std::size_t run = std::min(size - filled, slices[slice_].size_bytes - position_);
      std::memcpy(space.data() + filled, slices[slice_].data + position_, run);
      filled += run;
      position_ += run;
      if (position_ == slices[slice_].size_bytes && filled < size) next_slice();
    }
    return space.data();
  }

 private:
  void next_slice() {
    ++slice_;
    position_ = 0;
  }

  const Operand& operand_;
  std::size_t slice_ = 0;
  std::size_t position_ = 0;
};

}  // namespace

void add(std::span<std::byte> out, const std::vector<Operand>& operands, const Arithmetic& arithmetic,
         std::uint32_t divisor) {
  SQUARE_CHECK(arithmetic.fold != nullptr && !operands.empty(), "a sum has an arithmetic and operands");
  std::vector<Reader> readers(operands.begin(), operands.end());
  alignas(64) Tile left;
  alignas(64) Tile right;
  alignas(64) Tile pieces;
  const auto load = [&](Reader& reader, std::size_t elements, Tile& to) {
    if (arithmetic.load == nullptr) return reader.next(elements * arithmetic.element_bytes, to);
    arithmetic.load(to.data(), reader.next(elements * arithmetic.element_bytes, pieces), elements);
    return static_cast<const std::byte*>(to.data());
  };
  const bool divides = arithmetic.divide != nullptr && divisor > 1;
  const std::size_t count = out.size() / arithmetic.element_bytes;
  const std::size_t tile = kTileBytes / arithmetic.computed_bytes;
  for (std::size_t at = 0; at < count; at += tile) {
    const std::size_t elements = std::min(tile, count - at);
    const std::size_t computed = elements * arithmetic.computed_bytes;
    std::byte* const here = out.data() + at * arithmetic.element_bytes;
    // What is last goes to its place; until then an operand that is `out` is whole.
    std::byte* const last = arithmetic.store == nullptr ? here : left.data();
    const std::byte* sum = load(readers.front(), elements, left);
    for (std::size_t i = 1; i < readers.size(); ++i) {
      std::byte* const to = i + 1 == readers.size() ? last : left.data();
      arithmetic.fold(to, sum, load(readers[i], elements, right), computed);
      sum = to;
    }
    if (divides) {
      arithmetic.divide(last, sum, computed, divisor);
      sum = last;
    }
    if (arithmetic.store != nullptr) {
      arithmetic.store(here, sum, elements);
    } else if (sum != here) {
      std::memcpy(here, sum, computed);
    }
  }
}

void add(std::span<std::byte> out, const std::vector<Operand>& operands, Reduction reduction,
         std::uint32_t divisor) {
  add(out, operands, arithmetic_of(reduction), divisor);
}

}  // namespace square
