// What a seed decides.
#pragma once

#include <cstddef>
#include <random>
#include <vector>

#include "square/units.h"

namespace square::test {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}

  std::uint64_t number() { return random_(); }
  std::size_t below(std::size_t end) { return static_cast<std::size_t>(random_() % end); }
  bool one_in(std::size_t many) { return below(many) == 0; }
  double between(double least, double most) {
    return least + (most - least) * (static_cast<double>(random_() >> 11U) / 9007199254740992.0);
  }
  Duration between(Duration least, Duration most) {
    return from_seconds(between(to_seconds(least), to_seconds(most)));
  }
  template <typename T>
  const T& one_of(const std::vector<T>& things) {
    return things[below(things.size())];
  }
  std::mt19937_64& generator() { return random_; }

 private:
  std::mt19937_64 random_;
};

}  // namespace square::test
