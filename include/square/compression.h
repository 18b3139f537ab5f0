// How an all-reduce of float32 sends less than it is given. docs/compression.md has the formulas.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "square/status.h"

namespace square {

enum class CompressionKind : std::uint8_t {
  kNone = 0,
  kBfloat16 = 1,  // every element rounded to bfloat16, and added as such
  kInt8 = 2,      // blocks of 8-bit integers with one float32 scale each
  kTopK = 3,      // only the largest elements, with their indices
};

// What one call does; all members must say the same. A value, checked by check_compression().
struct Compression {
  CompressionKind kind = CompressionKind::kNone;
  // Of int8: elements that share a scale.
  std::uint32_t block = kDefaultBlock;
  // Of top-k: the part of the elements that is sent, rounded up to whole ones.
  double fraction = kDefaultFraction;
  // Of int8 and top-k: what was not sent is kept in a residual of the caller's, and added to what the
  // next call is given. Without it top-k forgets most of every gradient.
  bool error_feedback = false;

  static constexpr std::uint32_t kDefaultBlock = 256;
  static constexpr std::uint32_t kLeastBlock = 16;
  static constexpr std::uint32_t kLargestBlock = 65'536;
  static constexpr double kDefaultFraction = 0.01;

  static Compression bfloat16() { return {CompressionKind::kBfloat16}; }
  static Compression int8(std::uint32_t elements = kDefaultBlock, bool feedback = false) {
    return {CompressionKind::kInt8, elements, kDefaultFraction, feedback};
  }
  static Compression top_k(double part = kDefaultFraction, bool feedback = true) {
    return {CompressionKind::kTopK, kDefaultBlock, part, feedback};
  }
  friend bool operator==(const Compression&, const Compression&) = default;
};

// Errors: INVALID_ARGUMENT for a block or a fraction out of bounds, or error feedback that the kind
// does not have; it says what may be.
Status check_compression(const Compression& compression);
// "none", "bf16", "int8", "int8:128", "int8:256:feedback", "top-k", "top-k:0.01",
// "top-k:0.01:no-feedback". Errors: INVALID_ARGUMENT with the texts that there are.
Result<Compression> parse_compression(std::string_view text);
// What parse_compression() reads back as the same value.
std::string to_string(const Compression& compression);

// What compression did to what one member gave, in one call or, added up, in several.
struct CompressionReport {
  std::uint64_t calls = 0;
  std::uint64_t bytes_before = 0;  // of the elements
  std::uint64_t bytes_after = 0;   // of what stands for them
  // Sums of squares: of what this member should have sent, residual included, and of what of that it did
  // not send. A NaN if it had one.
  double squared_norm = 0;
  double squared_error = 0;

  // How many times fewer bytes; 1 where there were none.
  [[nodiscard]] double ratio() const;
  // The L2 norm of what was not sent, over that of what should have been; 0 where that is 0.
  [[nodiscard]] double relative_error() const;
  CompressionReport& operator+=(const CompressionReport& other);
};

}  // namespace square
