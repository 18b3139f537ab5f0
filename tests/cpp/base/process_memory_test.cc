#include "square/process_memory.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

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

namespace {

std::size_t resident_bytes() {
  std::ifstream pages("/proc/self/statm");
  std::size_t all = 0;
  std::size_t resident = 0;
  pages >> all >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

#if !defined(__SANITIZE_THREAD__)
TEST_CASE("what a thread has freed goes back to the kernel") {
  constexpr std::size_t kPiece = 8 << 10;
  constexpr std::size_t kPieces = 10'000;
  std::unique_ptr<char[]> last;  // behind all that is freed
  std::thread([&] {
    std::vector<std::unique_ptr<char[]>> pieces;
    for (std::size_t i = 0; i < kPieces; ++i) pieces.push_back(std::make_unique<char[]>(kPiece));
    last = std::make_unique<char[]>(kPiece);
  }).join();
  const std::size_t before = resident_bytes();
  CHECK(trim_process_memory() == kCanTune);
  if (kCanTune) CHECK(resident_bytes() + kPieces * kPiece / 2 < before);
}
#endif
