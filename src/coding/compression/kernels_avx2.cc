// With AVX2 and F16C: chosen only where InstructionSet::kAvx2 is available.
#include "coding/compression/kernels_loops.h"

namespace square::compression {

const Kernels& avx2_kernels() { return kLoops; }

}  // namespace square::compression
