// The loops that combine blocks over finite fields: one table for each set of instructions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "coding/instruction_set.h"

namespace square {

// Room for what the loops make of a coefficient.
template <typename Element>
struct alignas(32) TimesSpace {
  std::byte bytes[sizeof(Element) == 1 ? 32 : 128];
};

// Block i of `out` becomes the sum of matrix[i * columns + j] times block j of `in`. The blocks have `bytes`
// bytes, whole elements, and begin anywhere. Those of `out` overlap nothing.
template <typename Element>
struct Combination {
  const Element* matrix = nullptr;
  std::size_t rows = 0;
  std::size_t columns = 0;
  const std::byte* const* in = nullptr;
  std::byte* const* out = nullptr;
  std::size_t bytes = 0;
  TimesSpace<Element>* space = nullptr;  // rows * columns of them
};

struct GaloisLoops {
  void (*combine_gf256)(const Combination<std::uint8_t>& task) = nullptr;
  void (*combine_gf65536)(const Combination<std::uint16_t>& task) = nullptr;
};

// `set` is one of available_instruction_sets(). All give the same bytes.
const GaloisLoops& galois_loops(InstructionSet set);

// What galois_loops() chooses from. The portable ones are the reference: an element at a time, by logarithms.
extern const GaloisLoops kPortableGaloisLoops;
#if defined(__x86_64__)
extern const GaloisLoops kAvx2GaloisLoops;
extern const GaloisLoops kGfniGaloisLoops;
#endif

}  // namespace square
