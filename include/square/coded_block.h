// Blocks of linear codes: what an Encoder makes, a Recoder mixes and a Decoder solves.
//
// A generation is a run of bytes cut into K blocks of one length, the last ones padded with zeros. A coded
// block is a sum of multiples of them over a field, and says of which: any K coded blocks whose rows of
// coefficients do not depend on one another give the data back. A block that is one of the K as it is, is
// called systematic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "square/buffer.h"
#include "square/field_kind.h"
#include "square/status.h"

namespace square {

inline constexpr std::uint32_t kMostGenerationBlocks = 256;
inline constexpr std::uint64_t kMostGenerationBytes = std::uint64_t{1} << 40U;

// What all blocks of one run of bytes have in common.
struct Generation {
  std::uint64_t number = 0;  // the caller's own
  FieldKind field = FieldKind::kGf256;
  std::uint32_t blocks = 1;  // K
  std::uint64_t data_bytes = 0;

  // The length of a block: data_bytes / K, rounded up to whole symbols of the field.
  [[nodiscard]] std::uint64_t block_bytes() const;
  // How much of the data block `index` has: less than block_bytes() of the last ones. Precondition: below
  // `blocks`.
  [[nodiscard]] std::uint64_t bytes_of(std::uint32_t index) const;
  friend bool operator==(const Generation&, const Generation&) = default;
};
// "generation 7 (4 blocks of 1024 bytes over gf256)".
std::string to_string(const Generation& generation);
// Errors: INVALID_ARGUMENT for no blocks or more than kMostGenerationBlocks, more than kMostGenerationBytes,
// a field that there is not, or floats that are not whole ones.
Status check_generation(const Generation& generation);

struct CodedBlock {
  Generation generation;
  // One for each of the K blocks, numbers of the field.
  std::vector<double> coefficients;
  // block_bytes() of it; of a systematic block bytes_of() its index.
  Buffer payload;

  // Which of the K blocks it is; nothing if it is a sum.
  [[nodiscard]] std::optional<std::uint32_t> systematic_index() const;
};
// Errors: as check_generation(), and INVALID_ARGUMENT for another number of coefficients than K, one that is
// none of the field, nothing but zeros, or a payload of another length.
Status check_coded_block(const CodedBlock& block);

// A header, the coefficients and the payload, which is shared, not copied; docs/coding.md draws it.
// Precondition: check_coded_block() is OK.
Buffer to_bytes(const CodedBlock& block);
// The payload is shared with `bytes`. Errors: DATA_LOSS for bytes that are cut off, too many or were changed;
// INVALID_ARGUMENT for another version, and as check_coded_block().
Result<CodedBlock> parse_coded_block(const Buffer& bytes);

}  // namespace square
