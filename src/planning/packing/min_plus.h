// Sums and minima over rows of numbers, two at a time: compilers do not make vectors of
// minima by themselves as long as infinities count.
#pragma once

#include <cstddef>
#include <cstring>

namespace square::planning {

// Two numbers side by side, as every processor with 64 bits computes them.
typedef double NumberPair __attribute__((vector_size(16)));  // NOLINT(modernize-use-using)
inline constexpr std::size_t kPair = 2;

// Rows are padded to whole blocks of this many numbers.
inline constexpr std::size_t kRowBlock = 8;

inline constexpr std::size_t padded_row(std::size_t size) {
  return (size + kRowBlock - 1) / kRowBlock * kRowBlock;
}

inline NumberPair load_pair(const double* from) {
  NumberPair pair;
  std::memcpy(&pair, from, sizeof pair);
  return pair;
}

inline void store_pair(NumberPair pair, double* to) { std::memcpy(to, &pair, sizeof pair); }

inline NumberPair lesser(NumberPair a, NumberPair b) { return a < b ? a : b; }

// out[v] = min(out[v], row[v] + extra). The rows must not overlap.
inline void min_plus(double* __restrict out, const double* __restrict row, double extra, std::size_t padded) {
  for (std::size_t begin = 0; begin < padded; begin += kRowBlock) {
#pragma GCC unroll 4
    for (std::size_t v = begin; v < begin + kRowBlock; v += kPair) {
      store_pair(lesser(load_pair(row + v) + extra, load_pair(out + v)), out + v);
    }
  }
}

}  // namespace square::planning
