// With AVX2: called only where has_avx2().
#include "compression/kernels_loops.h"

namespace square::compression {

const Kernels& avx2_kernels() { return kLoops; }

}  // namespace square::compression
