// Loops that take turns, and how long each took: what the benchmarks of kernels share.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace square::benchmarks {

struct Options {
  std::size_t mib = 64;
  std::size_t rounds = 9;
  bool json = false;
};

// No: one that there is not.
inline bool read_options(int count, char** words, Options& options) {
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    if (word == "--json") {
      options.json = true;
    } else if ((word == "--mib" || word == "--rounds") && i + 1 < count) {
      (word == "--mib" ? options.mib : options.rounds) = std::max(1UL, std::stoul(words[++i]));
    } else {
      return false;
    }
  }
  return true;
}

struct Loop {
  std::string name;
  std::function<void()> run;
  std::vector<double> seconds{};
  [[nodiscard]] double median() const {
    std::vector<double> sorted = seconds;
    std::ranges::sort(sorted);
    return sorted[sorted.size() / 2];
  }
};

inline void take_turns(std::vector<Loop>& loops, std::size_t rounds) {
  for (std::size_t round = 0; round <= rounds; ++round) {
    for (Loop& loop : loops) {
      const auto begin = std::chrono::steady_clock::now();
      loop.run();
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
      if (round > 0) loop.seconds.push_back(taken.count());  // the first one touches the memory
    }
  }
}

}  // namespace square::benchmarks
