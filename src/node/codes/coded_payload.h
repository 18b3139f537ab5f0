// What a frame of a sum carries: the sum of multiples of blocks, and the checksums of those blocks.
//
// A sum's own checksum says that it came as it was sent, hop by hop. That it is the sum of the source's
// blocks only the blocks' checksums tell, once somebody has solved for them: so they travel along.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "square/buffer.h"
#include "square/field_kind.h"
#include "square/plan.h"

namespace square {

struct CodedPayload {
  Buffer sum;
  // By block of the generation: CRC32C, nothing where it is not in the sum. Empty of floats, which come back
  // rounded.
  std::vector<std::optional<std::uint32_t>> checksums;
};

// docs/wire.md draws it: the sum, then of each block one byte that says whether its checksum is known, and
// the checksum in four. `code` has the field and the number of blocks.
Buffer to_bytes(const CodedPayload& payload, const PlanCode& code);
// Nothing for bytes that are none. Shares them.
std::optional<CodedPayload> coded_payload_of(const Buffer& bytes, const PlanCode& code);
// So many bytes follow the sum.
std::size_t checksum_bytes(const PlanCode& code);

// Of a frame's payload: a sum, or block `block` of a generation as it is. Nothing for bytes that are neither.
std::optional<CodedPayload> payload_of_frame(const Buffer& bytes, const PlanCode& code,
                                             std::optional<std::uint32_t> block);

// The sum of multiples of all of them; nothing where two say different checksums of one block. Any thread.
std::optional<CodedPayload> sum_of_payloads(const PlanCode& code, const std::vector<double>& factors,
                                            const std::vector<CodedPayload>& payloads);

// In one piece of `size_bytes`, padded with zeros: the payload itself where it is so already. Precondition:
// not longer.
Buffer padded(const Buffer& payload, std::size_t size_bytes);

// The sum of multiples, as long as the longest, in whole symbols of the field; shorter ones count as padded
// with zeros. Any thread.
Buffer sum_of_payloads(FieldKind field, const std::vector<double>& factors,
                       const std::vector<Buffer>& payloads);

// The longest of them, rounded up to whole symbols.
std::size_t common_length(FieldKind field, const std::vector<Buffer>& payloads);

}  // namespace square
