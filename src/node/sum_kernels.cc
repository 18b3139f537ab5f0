#include "node/sum_kernels.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace square {
namespace {

bool find_avx2() {
#if defined(__x86_64__)
  // Not every compiler knows F16C by name; where there is AVX2, the system keeps its registers.
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
#else
  return false;
#endif
}

}  // namespace

bool has_avx2_arithmetic() {
  static const bool has = find_avx2();
  return has;
}

Arithmetic arithmetic_of(Reduction reduction) {
#if defined(__x86_64__)
  if (has_avx2_arithmetic()) return avx2_arithmetic(reduction);
#endif
  return portable_arithmetic(reduction);
}

}  // namespace square
