// With the instructions that every processor of this kind has.
#include "coding/sum_kernels_loops.h"

namespace square {

Arithmetic portable_arithmetic(Reduction reduction) { return choose_arithmetic(reduction); }

}  // namespace square
