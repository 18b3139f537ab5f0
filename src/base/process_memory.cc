#include "square/process_memory.h"

#include <cstdlib>  // says whether this is glibc

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace square {

bool tune_process_memory() {
#ifdef __GLIBC__
  // Larger than any buffer of a transfer: none is mapped on its own, none trimmed at once.
  constexpr int kThresholdBytes = 1 << 30;
  return mallopt(M_MMAP_THRESHOLD, kThresholdBytes) == 1 && mallopt(M_TRIM_THRESHOLD, kThresholdBytes) == 1;
#else
  return false;
#endif
}

bool trim_process_memory() {
#ifdef __GLIBC__
  return malloc_trim(0) == 1;
#else
  return false;
#endif
}

}  // namespace square
