// The loops of compression, compiled for what every processor has and for AVX2.
#pragma once

#include <cstddef>
#include <cstdint>

#include "coding/instruction_set.h"

namespace square::compression {

// What a compressed buffer leaves out: sums of squares.
struct Loss {
  double squared_norm = 0;
  double squared_error = 0;
};

// Members' buffers begin anywhere, so no loop needs aligned addresses. Buffers of one call do not
// overlap, unless a line says so. Counts are of elements. All tables give the same bits, but for the sums
// of squares.
struct Kernels {
  // float32 to bfloat16, to the nearest, of two to the even one; a NaN stays one. And back.
  Loss (*to_bfloat16)(std::byte* out, const std::byte* in, std::size_t count);
  void (*from_bfloat16)(std::byte* out, const std::byte* in, std::size_t count);

  // Blocks of `block` elements, the last one perhaps shorter; a scale for each, 4 bytes, and a code for
  // every element, 1 byte. int8_blocks.h says what they are.
  Loss (*to_int8)(std::byte* scales, std::byte* codes, const std::byte* in, std::size_t count,
                  std::size_t block);
  void (*from_int8)(std::byte* out, const std::byte* scales, const std::byte* codes, std::size_t count,
                    std::size_t block);
  void (*add_int8)(std::byte* sum, const std::byte* scales, const std::byte* codes, std::size_t count,
                   std::size_t block);
  // residual -= what is decoded; 0 where that is not finite.
  void (*subtract_int8)(std::byte* residual, const std::byte* scales, const std::byte* codes,
                        std::size_t count, std::size_t block);

  // sum += in; in float32.
  void (*add)(std::byte* sum, const std::byte* in, std::size_t count);
  // values /= divisor.
  void (*divide)(std::byte* values, std::size_t count, float divisor);
  // sum += factor * in; 0 where that is not finite.
  void (*add_scaled)(std::byte* sum, const std::byte* in, std::size_t count, float factor);
  // Zero in place of what is not finite.
  void (*clear_non_finite)(std::byte* values, std::size_t count);

  // Magnitudes are the bits of a float32 without its sign: as integers they are in the order of the
  // absolute values, infinity and then NaNs on top.
  double (*squared_norm)(const std::byte* in, std::size_t count);
  // Adds, for every value of the upper kMagnitudeBits bits of a magnitude, how many have it.
  void (*count_magnitudes)(std::uint32_t* counts, const std::byte* in, std::size_t count);
  // Writes the indices of the elements with a magnitude of at least `least`, ascending, at most `room`, and
  // returns how many there are.
  std::size_t (*find_large)(std::uint32_t* indices, std::size_t room, const std::byte* in, std::size_t count,
                            std::uint32_t least);
};

inline constexpr unsigned kMagnitudeBits = 11;  // the exponent and three bits of the fraction
inline constexpr std::size_t kMagnitudeBins = std::size_t{1} << kMagnitudeBits;
inline constexpr unsigned kMagnitudeShift = 31 - kMagnitudeBits;

// With the fastest instructions that this processor has. Thread-safe, and so is everything in it.
const Kernels& kernels();
// With those of `set`, one of available_instruction_sets().
const Kernels& kernels(InstructionSet set);

// The tables that kernels() chooses from.
const Kernels& portable_kernels();
#if defined(__x86_64__)
const Kernels& avx2_kernels();
#endif

}  // namespace square::compression
