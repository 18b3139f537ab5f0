// The loops of a reduce, for every type of elements and every operation.
#pragma once

#include <cstddef>

#include "coding/instruction_set.h"
#include "square/reduction.h"

namespace square {

// Bytes of a link begin anywhere, so no loop needs aligned addresses. `out` may be an operand, or
// else overlaps none.
using Fold = void (*)(std::byte* out, const std::byte* left, const std::byte* right, std::size_t bytes);
// Without an overlap.
using Convert = void (*)(std::byte* out, const std::byte* in, std::size_t elements);
// `out` may be `in`.
using Divide = void (*)(std::byte* out, const std::byte* in, std::size_t bytes, double divisor);

// How one reduction is computed. Elements that are not computed with as they are, are loaded
// into something that is: a float16 into a float32.
struct Arithmetic {
  std::size_t element_bytes = 1;
  std::size_t computed_bytes = 1;  // of an element once it is loaded
  Convert load = nullptr;          // none: computed with as it is
  Fold fold = nullptr;             // of loaded elements
  Divide divide = nullptr;         // of loaded elements; an average's only
  Convert store = nullptr;         // none: stored as computed
};

// With the fastest instructions that this processor has. Precondition: check_reduction() is OK. Thread-safe.
Arithmetic arithmetic_of(Reduction reduction);
// With those of `set`, one of available_instruction_sets(). All give the same bits, but for those of a NaN of
// two NaNs.
Arithmetic arithmetic_of(Reduction reduction, InstructionSet set);

// The tables that arithmetic_of() chooses from.
Arithmetic portable_arithmetic(Reduction reduction);
#if defined(__x86_64__)
Arithmetic avx2_arithmetic(Reduction reduction);
#endif

}  // namespace square
