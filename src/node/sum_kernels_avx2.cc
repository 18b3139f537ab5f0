// With AVX2 and F16C: called only where has_avx2_arithmetic().
#include "node/sum_kernels_loops.h"

namespace square {

Arithmetic avx2_arithmetic(Reduction reduction) { return choose_arithmetic(reduction); }

}  // namespace square
