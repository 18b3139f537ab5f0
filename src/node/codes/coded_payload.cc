#include "node/codes/coded_payload.h"

#include <algorithm>
#include <cstring>

#include "coding/codes/payload.h"
#include "coding/fields/field.h"

namespace square {
namespace {

constexpr std::size_t kChecksumBytes = 5;

}  // namespace

std::size_t checksum_bytes(const PlanCode& code) {
  return code.field == FieldKind::kFloat32 ? 0 : kChecksumBytes * code.blocks;
}

Buffer to_bytes(const CodedPayload& payload, const PlanCode& code) {
  const std::size_t size_bytes = checksum_bytes(code);
  if (size_bytes == 0) return payload.sum;
  NewPayload trailer(size_bytes);
  for (std::size_t block = 0; block < code.blocks; ++block) {
    std::byte* const at = trailer.data + kChecksumBytes * block;
    at[0] = static_cast<std::byte>(payload.checksums[block].has_value());
    const std::uint32_t checksum = payload.checksums[block].value_or(0);
    for (std::size_t i = 0; i < sizeof checksum; ++i) at[1 + i] = static_cast<std::byte>(checksum >> (8 * i));
  }
  Buffer whole = payload.sum;
  for (const Buffer::Slice& slice : trailer.buffer.slices()) whole.append(slice);
  return whole;
}

std::optional<CodedPayload> coded_payload_of(const Buffer& bytes, const PlanCode& code) {
  const std::size_t size_bytes = checksum_bytes(code);
  if (bytes.size_bytes() < size_bytes) return std::nullopt;
  const std::size_t sum_bytes = bytes.size_bytes() - size_bytes;
  if (sum_bytes % field_of(code.field).symbol_bytes() != 0) return std::nullopt;
  CodedPayload payload{bytes.range(0, sum_bytes), {}};
  std::vector<std::byte> trailer(size_bytes);
  bytes.suffix(sum_bytes).copy_to(trailer.data());
  for (std::size_t at = 0; at < size_bytes; at += kChecksumBytes) {
    std::uint32_t checksum = 0;
    for (std::size_t i = 0; i < sizeof checksum; ++i)
      checksum |= std::to_integer<std::uint32_t>(trailer[at + 1 + i]) << (8 * i);
    const bool is_known = trailer[at] != std::byte{0};
    payload.checksums.push_back(is_known ? std::optional(checksum) : std::nullopt);
  }
  return payload;
}

std::optional<CodedPayload> payload_of_frame(const Buffer& bytes, const PlanCode& code,
                                             std::optional<std::uint32_t> block) {
  if (!block) return coded_payload_of(bytes, code);
  CodedPayload payload{bytes, {}};
  if (code.field == FieldKind::kFloat32) return payload;
  payload.checksums.resize(code.blocks);
  payload.checksums[*block] = bytes.checksum();
  return payload;
}

std::optional<CodedPayload> sum_of_payloads(const PlanCode& code, const std::vector<double>& factors,
                                            const std::vector<CodedPayload>& payloads) {
  CodedPayload sum;
  std::vector<Buffer> blocks;
  for (const CodedPayload& payload : payloads) {
    blocks.push_back(payload.sum);
    sum.checksums.resize(payload.checksums.size());
    for (std::size_t block = 0; block < payload.checksums.size(); ++block) {
      std::optional<std::uint32_t>& known = sum.checksums[block];
      if (!known) known = payload.checksums[block];
      if (payload.checksums[block] && known != payload.checksums[block]) return std::nullopt;
    }
  }
  sum.sum = sum_of_payloads(code.field, factors, blocks);
  return sum;
}

Buffer padded(const Buffer& payload, std::size_t size_bytes) {
  const std::size_t has = payload.size_bytes();
  if (has == size_bytes && payload.slices().size() <= 1) return payload;
  NewPayload whole(size_bytes);
  payload.copy_to(whole.data);
  std::memset(whole.data + has, 0, size_bytes - has);
  return whole.buffer;
}

std::size_t common_length(FieldKind field, const std::vector<Buffer>& payloads) {
  std::size_t longest = 0;
  for (const Buffer& payload : payloads) longest = std::max(longest, payload.size_bytes());
  const std::size_t symbol = field_of(field).symbol_bytes();
  return (longest + symbol - 1) / symbol * symbol;
}

Buffer sum_of_payloads(FieldKind field, const std::vector<double>& factors,
                       const std::vector<Buffer>& payloads) {
  const std::size_t size_bytes = common_length(field, payloads);
  if (size_bytes == 0) return {};
  std::vector<Buffer> whole;
  std::vector<const std::byte*> in;
  CoefficientMatrix matrix = CoefficientMatrix::from_shape({1, payloads.size()});
  for (std::size_t i = 0; i < payloads.size(); ++i) {
    whole.push_back(padded(payloads[i], size_bytes));
    in.push_back(first_byte(whole.back()));
    matrix(0, i) = factors[i];
  }
  NewPayload sum(size_bytes);
  std::byte* const out = sum.data;
  field_of(field).combine(matrix, in, {&out, 1}, size_bytes);
  return sum.buffer;
}

}  // namespace square
