// What the kernel says of this process's TCP connections.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "collective/examination/json.h"
#include "square/units.h"

namespace square::examination {

// Looks at all connections now and then. Not thread-safe.
class ConnectionWatch {
 public:
  ConnectionWatch() { look(); }
  void look();
  // Those that were there at every look, by the address of the other end: what was acknowledged meanwhile,
  // what waited to be sent at every look, for how long the other end's window kept it.
  [[nodiscard]] Json end();

 private:
  struct Watched {
    std::uint64_t acknowledged_first = 0;
    std::uint64_t acknowledged_last = 0;
    std::uint64_t held_first_us = 0;
    std::uint64_t held_last_us = 0;
    std::size_t least_waiting = 0;
    int looks = 0;
    int last_look = 0;
  };
  // Of a connection: both its ends, for a descriptor may be another one's later.
  struct Ends {
    std::string own;
    std::string other;
    auto operator<=>(const Ends&) const = default;
  };

  std::map<Ends, Watched> watched_;
  int looks_ = 0;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace square::examination
