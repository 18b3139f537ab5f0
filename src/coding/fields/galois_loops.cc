#include "coding/fields/galois_loops.h"

#include <algorithm>
#include <cstring>

#include "coding/fields/galois.h"

namespace square {
namespace {

// What is summed up stays in the first-level cache.
constexpr std::size_t kTileBytes = std::size_t{8} << 10U;

template <typename Element>
void add_product(std::byte* out, const std::byte* in, Element factor, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += sizeof(Element)) {
    Element sum;
    Element element;
    std::memcpy(&sum, out + at, sizeof(Element));
    std::memcpy(&element, in + at, sizeof(Element));
    sum = Galois<Element>::add(sum, Galois<Element>::multiply(factor, element));
    std::memcpy(out + at, &sum, sizeof(Element));
  }
}

template <typename Element>
void combine(const Combination<Element>& task) {
  for (std::size_t at = 0; at < task.bytes; at += kTileBytes) {
    const std::size_t bytes = std::min(kTileBytes, task.bytes - at);
    for (std::size_t i = 0; i < task.rows; ++i) {
      std::memset(task.out[i] + at, 0, bytes);
      for (std::size_t j = 0; j < task.columns; ++j) {
        add_product(task.out[i] + at, task.in[j] + at, task.matrix[i * task.columns + j], bytes);
      }
    }
  }
}

}  // namespace

const GaloisLoops kPortableGaloisLoops{combine<std::uint8_t>, combine<std::uint16_t>};

const GaloisLoops& galois_loops([[maybe_unused]] InstructionSet set) {
#if defined(__x86_64__)
  if (set == InstructionSet::kGfni) return kGfniGaloisLoops;
  if (set == InstructionSet::kAvx2) return kAvx2GaloisLoops;
#endif
  return kPortableGaloisLoops;
}

}  // namespace square
