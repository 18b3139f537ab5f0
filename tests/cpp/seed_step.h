#pragma once

#include <cstdint>

namespace square::test {

// From one seed to the next in tests that take seconds: sanitizers make each take twenty times as long. Prime
// to what tests derive from the number of a case.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr std::uint64_t kSeedStep = 11;
#else
inline constexpr std::uint64_t kSeedStep = 1;
#endif

}  // namespace square::test
