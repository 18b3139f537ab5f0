#include "node/sum.h"

#include <algorithm>
#include <array>
#include <cstdint>
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

// Bytes of a link begin anywhere, so elements are loaded and stored as bytes.
template <typename Element>
void add_tile(std::byte* out, const std::byte* a, const std::byte* b, std::size_t size) {
  for (std::size_t at = 0; at < size; at += sizeof(Element)) {
    Element x;
    Element y;
    std::memcpy(&x, a + at, sizeof(Element));
    std::memcpy(&y, b + at, sizeof(Element));
    x = static_cast<Element>(x + y);
    std::memcpy(out + at, &x, sizeof(Element));
  }
}

using AddTile = void (*)(std::byte*, const std::byte*, const std::byte*, std::size_t);

// Signed integers wrap around: they are added as unsigned ones.
AddTile add_tile_of(ElementType type) {
  switch (type) {
    case ElementType::kFloat32: return add_tile<float>;
    case ElementType::kFloat64: return add_tile<double>;
    case ElementType::kInt32: return add_tile<std::uint32_t>;
    case ElementType::kInt64: return add_tile<std::uint64_t>;
    case ElementType::kBytes: break;
  }
  return nullptr;
}

}  // namespace

void add(std::span<std::byte> out, const std::vector<Operand>& operands, Reduction reduction) {
  const AddTile add_two = add_tile_of(reduction.type);
  SQUARE_CHECK(add_two != nullptr && !operands.empty(), "a sum has a type and operands");
  std::vector<Reader> readers(operands.begin(), operands.end());
  alignas(64) Tile left;
  alignas(64) Tile right;
  for (std::size_t at = 0; at < out.size(); at += kTileBytes) {
    const std::size_t size = std::min(kTileBytes, out.size() - at);
    const std::byte* sum = readers.front().next(size, left);
    for (std::size_t i = 1; i < readers.size(); ++i) {
      // The last addition goes to its place; until then an operand that is `out` is whole.
      std::byte* to = i + 1 == readers.size() ? out.data() + at : left.data();
      add_two(to, sum, readers[i].next(size, right), size);
      sum = to;
    }
    if (sum != out.data() + at) std::memcpy(out.data() + at, sum, size);
  }
}

}  // namespace square
