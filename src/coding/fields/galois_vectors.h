// The loops over vectors, compiled once for each way to multiply: included by the files of those and by
// nobody else. Nothing here may be seen outside its file, nor call an inline function of the standard
// library: the linker would keep one copy of it, perhaps for another processor.
//
// Times a constant is linear over the bits of an element. A `Times` is how one constant is applied to all
// elements of a vector, a `Parts` what of a vector can be shared by several constants.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "coding/fields/galois.h"
#include "coding/fields/galois_loops.h"

namespace square {
namespace {

using Vector = __m256i;
constexpr std::size_t kVectorBytes = sizeof(Vector);
// Inputs of so many bytes are read again by each group of rows: 32 of them stay in the second-level cache.
constexpr std::size_t kTileBytes = std::size_t{4} << 10U;
// Rows that are computed at once, so that an input is loaded once for all of them: as many as there are
// registers.
constexpr std::size_t kMostRows = 4;

inline Vector load(const std::byte* at) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)); }
inline void store(std::byte* at, Vector value) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(at), value); }
inline Vector swap_bytes_of_pairs(Vector value) {
  const __m128i swap = _mm_set_epi8(14, 15, 12, 13, 10, 11, 8, 9, 6, 7, 4, 5, 2, 3, 0, 1);
  return _mm256_shuffle_epi8(value, _mm256_broadcastsi128_si256(swap));
}
// Of each pair the first byte of one and the second of the other.
inline Vector blend_pairs(Vector first, Vector second) {
  return _mm256_blendv_epi8(first, second, _mm256_set1_epi16(static_cast<short>(0xff00)));
}

// The products of a constant with the elements of one bit each.
template <typename Element>
struct Products {
  explicit Products(Element constant) {
    for (Element& product : of_bit) {
      product = constant;
      const unsigned carried = (constant >> (8 * sizeof(Element) - 1)) * kPolynomial<Element>;
      constant = static_cast<Element>((unsigned{constant} << 1U) ^ carried);
    }
  }
  // Of an element of the few bits `bits`, which begin at bit `first`.
  [[nodiscard]] Element of(unsigned bits, std::size_t first) const {
    Element sum = 0;
    for (std::size_t i = first; bits != 0; ++i, bits >>= 1U) {
      if ((bits & 1U) != 0) sum = static_cast<Element>(sum ^ of_bit[i]);
    }
    return sum;
  }
  Element of_bit[8 * sizeof(Element)];
};

// Addition alone: all constants are 1.
struct Adding {
  using Element = std::uint8_t;
  struct Times {};
  using Parts = Vector;
  static Parts split(Vector value) { return value; }
  static Vector multiply(Parts parts, const Times&) { return parts; }
};

// Vectors from `from` on, kVectors at a time, of kRows rows.
template <typename Way, std::size_t kRows, std::size_t kVectors>
void combine_vectors(const typename Way::Times* times, std::size_t columns, const std::byte* const* in,
                     std::byte* const* out, std::size_t from) {
  Vector sums[kRows][kVectors];
  for (auto& row : sums) {
    for (Vector& sum : row) sum = _mm256_setzero_si256();
  }
  for (std::size_t j = 0; j < columns; ++j) {
    typename Way::Parts parts[kVectors];
    for (std::size_t v = 0; v < kVectors; ++v) parts[v] = Way::split(load(in[j] + from + v * kVectorBytes));
    for (std::size_t i = 0; i < kRows; ++i) {
      const typename Way::Times& by = times[i * columns + j];
      for (std::size_t v = 0; v < kVectors; ++v) {
        sums[i][v] = _mm256_xor_si256(sums[i][v], Way::multiply(parts[v], by));
      }
    }
  }
  for (std::size_t i = 0; i < kRows; ++i) {
    for (std::size_t v = 0; v < kVectors; ++v) store(out[i] + from + v * kVectorBytes, sums[i][v]);
  }
}

// What is less than a vector, by way of whole ones.
template <typename Way, std::size_t kRows>
void combine_rest(const typename Way::Times* times, std::size_t columns, const std::byte* const* in,
                  std::byte* const* out, std::size_t from, std::size_t bytes) {
  Vector sums[kRows];
  for (Vector& sum : sums) sum = _mm256_setzero_si256();
  alignas(kVectorBytes) std::byte space[kVectorBytes] = {};
  for (std::size_t j = 0; j < columns; ++j) {
    std::memcpy(space, in[j] + from, bytes);
    const typename Way::Parts parts = Way::split(load(space));
    for (std::size_t i = 0; i < kRows; ++i) {
      sums[i] = _mm256_xor_si256(sums[i], Way::multiply(parts, times[i * columns + j]));
    }
  }
  for (std::size_t i = 0; i < kRows; ++i) {
    store(space, sums[i]);
    std::memcpy(out[i] + from, space, bytes);
  }
}

template <typename Way, std::size_t kRows, std::size_t kVectors>
void combine_rows(const typename Way::Times* times, std::size_t columns, const std::byte* const* in,
                  std::byte* const* out, std::size_t from, std::size_t to) {
  for (; from + kVectors * kVectorBytes <= to; from += kVectors * kVectorBytes) {
    combine_vectors<Way, kRows, kVectors>(times, columns, in, out, from);
  }
  for (; from + kVectorBytes <= to; from += kVectorBytes) {
    combine_vectors<Way, kRows, 1>(times, columns, in, out, from);
  }
  if (from < to) combine_rest<Way, kRows>(times, columns, in, out, from, to - from);
}

template <typename Way>
void combine_group(std::size_t rows, const typename Way::Times* times, std::size_t columns,
                   const std::byte* const* in, std::byte* const* out, std::size_t from, std::size_t to) {
  switch (rows) {
    case 1: return combine_rows<Way, 1, 4>(times, columns, in, out, from, to);
    case 2: return combine_rows<Way, 2, 4>(times, columns, in, out, from, to);
    case 3: return combine_rows<Way, 3, 2>(times, columns, in, out, from, to);
    default: return combine_rows<Way, kMostRows, 2>(times, columns, in, out, from, to);
  }
}

template <typename Way>
void combine_tiles(const Combination<typename Way::Element>& task, const typename Way::Times* times) {
  const std::size_t tile = task.rows <= kMostRows ? task.bytes : kTileBytes;
  for (std::size_t at = 0; at < task.bytes; at += tile) {
    const std::size_t to = task.bytes - at < tile ? task.bytes : at + tile;
    for (std::size_t row = 0; row < task.rows; row += kMostRows) {
      const std::size_t rows = task.rows - row < kMostRows ? task.rows - row : kMostRows;
      combine_group<Way>(rows, times + row * task.columns, task.columns, task.in, task.out + row, at, to);
    }
  }
}

template <typename Way>
void combine(const Combination<typename Way::Element>& task) {
  using Element = typename Way::Element;
  static_assert(sizeof(typename Way::Times) <= sizeof(TimesSpace<Element>));
  const std::size_t count = task.rows * task.columns;
  bool only_adds = task.rows == 1;
  for (std::size_t i = 0; i < count && only_adds; ++i) only_adds = task.matrix[i] == 1;
  if (only_adds) {
    const auto* none = reinterpret_cast<const Adding::Times*>(task.space);
    return combine_group<Adding>(1, none, task.columns, task.in, task.out, 0, task.bytes);
  }
  auto* times = reinterpret_cast<typename Way::Times*>(task.space);
  for (std::size_t i = 0; i < count; ++i) times[i] = Way::times(task.matrix[i]);
  combine_tiles<Way>(task, times);
}

}  // namespace
}  // namespace square
