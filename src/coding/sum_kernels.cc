#include "coding/sum_kernels.h"

namespace square {

Arithmetic arithmetic_of(Reduction reduction, [[maybe_unused]] InstructionSet set) {
#if defined(__x86_64__)
  if (set != InstructionSet::kPortable) return avx2_arithmetic(reduction);
#endif
  return portable_arithmetic(reduction);
}

Arithmetic arithmetic_of(Reduction reduction) { return arithmetic_of(reduction, fastest_instruction_set()); }

}  // namespace square
