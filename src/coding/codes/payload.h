// Payloads as the loops want them: in one piece and of the full length.
#pragma once

#include "square/coded_block.h"

namespace square {

// Errors: as check_coded_block(), and INVALID_ARGUMENT for a block of another generation.
Status check_block_of(const Generation& generation, const CodedBlock& block);

// Uninitialised memory of its own, and a Buffer that shows it.
struct NewPayload {
  explicit NewPayload(std::size_t size_bytes);
  std::byte* data;
  Buffer buffer;
};

// The payload itself where it is in one piece and full; else a copy, padded with zeros.
Buffer whole_payload(const CodedBlock& block);
// Precondition: in one piece, as whole_payload() gives it.
const std::byte* first_byte(const Buffer& whole);

}  // namespace square
