#include "coding/fields/float_loops.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>
#include <xtensor/xadapt.hpp>
#include <xtensor/xnoalias.hpp>

namespace square {
namespace {

// Blocks that one pass reads. With more the compiler gives up to tell apart what overlaps, and takes minutes.
constexpr std::size_t kMostTerms = 4;
// What several passes add to stays in the first-level cache.
constexpr std::size_t kTileFloats = 2048;
using Tile = std::array<float, kTileFloats>;

auto view(const float* data, std::size_t count) {
  return xt::adapt(data, count, xt::no_ownership(), std::array<std::size_t, 1>{count});
}
auto view(float* data, std::size_t count) {
  return xt::adapt(data, count, xt::no_ownership(), std::array<std::size_t, 1>{count});
}

// One fused expression over all terms: nothing is written but the sum. `adds`: to what is there.
template <std::size_t... kTerm>
[[gnu::always_inline]] inline void sum_terms(const float* coefficients, const float* const* in, float* out,
                                             std::size_t count, bool adds, std::index_sequence<kTerm...>) {
  auto sum = view(out, count);
  if (adds) {
    xt::noalias(sum) = (sum + ... + (coefficients[kTerm] * view(in[kTerm], count)));
  } else {
    xt::noalias(sum) = (... + (coefficients[kTerm] * view(in[kTerm], count)));
  }
}

template <std::size_t... kLess>
[[gnu::always_inline]] inline void sum_some(std::size_t terms, const float* coefficients,
                                            const float* const* in, float* out, std::size_t count, bool adds,
                                            std::index_sequence<kLess...>) {
  static_cast<void>(
      ((terms == kLess + 1 &&
        (sum_terms(coefficients, in, out, count, adds, std::make_index_sequence<kLess + 1>()), true)) ||
       ...));
}

using SumSome = void (*)(std::size_t terms, const float* coefficients, const float* const* in, float* out,
                         std::size_t count, bool adds);

void sum_portable(std::size_t terms, const float* coefficients, const float* const* in, float* out,
                  std::size_t count, bool adds) {
  sum_some(terms, coefficients, in, out, count, adds, std::make_index_sequence<kMostTerms>());
}

// Under the address sanitizer the compiler takes two minutes for it.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)
#define SQUARE_FLOATS_BY_AVX2
#endif

#if defined(SQUARE_FLOATS_BY_AVX2)
// The whole expression is inlined here and so made of AVX2: what the linker keeps of xtensor stays portable.
[[gnu::target("avx2"), gnu::flatten]] void sum_avx2(std::size_t terms, const float* coefficients,
                                                    const float* const* in, float* out, std::size_t count,
                                                    bool adds) {
  sum_some(terms, coefficients, in, out, count, adds, std::make_index_sequence<kMostTerms>());
}
#endif

SumSome choose([[maybe_unused]] InstructionSet set) {
#if defined(SQUARE_FLOATS_BY_AVX2)
  if (set != InstructionSet::kPortable) return sum_avx2;
#endif
  return sum_portable;
}

bool is_aligned(const std::byte* data) {
  return reinterpret_cast<std::uintptr_t>(data) % alignof(float) == 0;
}

}  // namespace

void combine_floats(std::span<const float> coefficients, std::span<const std::byte* const> in, std::byte* out,
                    std::size_t count, InstructionSet set) {
  const SumSome sum = choose(set);
  if (in.empty()) std::memset(out, 0, count * sizeof(float));
  std::array<Tile, kMostTerms> copies;
  Tile summed;
  for (std::size_t at = 0; at < count && !in.empty(); at += kTileFloats) {
    const std::size_t floats = std::min(kTileFloats, count - at);
    std::byte* const place = out + at * sizeof(float);
    float* const to = is_aligned(out) ? reinterpret_cast<float*>(place) : summed.data();
    for (std::size_t first = 0; first < in.size(); first += kMostTerms) {
      const std::size_t terms = std::min(kMostTerms, in.size() - first);
      std::array<const float*, kMostTerms> from{};
      for (std::size_t i = 0; i < terms; ++i) {
        const std::byte* const block = in[first + i] + at * sizeof(float);
        from[i] = reinterpret_cast<const float*>(block);
        if (is_aligned(block)) continue;
        std::memcpy(copies[i].data(), block, floats * sizeof(float));
        from[i] = copies[i].data();
      }
      sum(terms, coefficients.data() + first, from.data(), to, floats, first > 0);
    }
    if (!is_aligned(out)) std::memcpy(place, summed.data(), floats * sizeof(float));
  }
}

}  // namespace square
