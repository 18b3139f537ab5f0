#include "square/process_memory.h"

#include <doctest/doctest.h>

#include <cstdlib>

using namespace square;

TEST_CASE("the allocator of this platform can be tuned") {
#ifdef __GLIBC__
  CHECK(tune_process_memory());
#else
  tune_process_memory();
#endif
}
