#include "square/process_memory.h"

#include <doctest/doctest.h>

#include <cstdlib>

using namespace square;

// The address sanitizer brings an allocator of its own, without such settings.
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__)
constexpr bool kCanTune = true;
#else
constexpr bool kCanTune = false;
#endif

TEST_CASE("the allocator can be tuned where it has the settings") {
  CHECK(tune_process_memory() == kCanTune);
}
