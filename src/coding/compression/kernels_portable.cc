// With the instructions that every processor of this kind has.
#include "coding/compression/kernels_loops.h"

namespace square::compression {

const Kernels& portable_kernels() { return kLoops; }

}  // namespace square::compression
