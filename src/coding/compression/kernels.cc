#include "coding/compression/kernels.h"

namespace square::compression {

const Kernels& kernels([[maybe_unused]] InstructionSet set) {
#if defined(__x86_64__)
  if (set != InstructionSet::kPortable) return avx2_kernels();
#endif
  return portable_kernels();
}

const Kernels& kernels() { return kernels(fastest_instruction_set()); }

}  // namespace square::compression
