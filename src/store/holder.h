// Which process holds a store, and whether it has ended for sure.
#pragma once

#include <cstdint>
#include <string>

#include "square/clock.h"

namespace square::store {

// Who waits for a store looks this often whether it is free.
inline constexpr Duration kHolderWatchStep = std::chrono::milliseconds(100);

struct Holder {
  std::int64_t process = 0;  // 0: nobody
  std::int64_t started = 0;  // when, by the kernel's count: another process may get the number
  std::string place;         // this start of this kernel, and where in it process numbers are counted
  std::string host;

  friend bool operator==(const Holder&, const Holder&) = default;
};

// The calling process.
Holder this_process();

// Known to have ended, or nobody: of a process in another place nothing is known.
bool has_ended(const Holder& holder);

}  // namespace square::store
