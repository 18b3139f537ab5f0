// With AVX2 and F16C: chosen only where InstructionSet::kAvx2 is available.
#include "coding/sum_kernels_loops.h"

namespace square {

Arithmetic avx2_arithmetic(Reduction reduction) { return choose_arithmetic(reduction); }

}  // namespace square
