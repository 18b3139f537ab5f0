#include "compression/kernels.h"

namespace square::compression {

bool has_avx2() {
#if defined(__x86_64__)
  static const bool has = __builtin_cpu_supports("avx2") != 0;
  return has;
#else
  return false;
#endif
}

const Kernels& kernels() {
#if defined(__x86_64__)
  if (has_avx2()) return avx2_kernels();
#endif
  return portable_kernels();
}

}  // namespace square::compression
