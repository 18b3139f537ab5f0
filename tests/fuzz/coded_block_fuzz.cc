// What comes over a network as a coded block, or as the sum of a code: whatever the bytes, an answer or an
// error. libFuzzer; `make fuzz` runs it over tests/fuzz/corpus/coded_block.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "node/codes/coded_payload.h"
#include "square/coded_block.h"
#include "square/decoder.h"

namespace {

using namespace square;

constexpr std::uint64_t kMostData = std::uint64_t{1} << 20U;  // what the fuzzer's own memory has room for

void require(bool holds) {
  if (!holds) std::abort();
}

std::vector<std::byte> bytes_of(const Buffer& buffer) {
  std::vector<std::byte> bytes(buffer.size_bytes());
  buffer.copy_to(bytes.data());
  return bytes;
}

// A block that is taken says the same again, and a decoder takes it or says why not.
void parse_block(std::span<const std::byte> bytes) {
  const auto block = parse_coded_block(Buffer::copy_of(bytes));
  if (!block.is_ok()) return;
  require(check_coded_block(*block).is_ok());
  // Not always in the same bytes: a sum of one block alone is written as that block.
  const auto again = parse_coded_block(to_bytes(*block));
  require(again.is_ok() && again->coefficients == block->coefficients &&
          bytes_of(again->payload) == bytes_of(block->payload));
  if (block->generation.data_bytes > kMostData) return;
  std::vector<std::byte> data(block->generation.data_bytes);
  auto decoder = Decoder::make(block->generation, data);
  require(decoder.is_ok());
  const auto is_new = decoder->add(*block);
  require(is_new.is_ok());
  (void)decoder->finish();
}

// The same of a block whose checksum is right: the fuzzer would hardly ever guess one.
void parse_sealed_block(std::span<const std::byte> bytes) {
  constexpr std::size_t kChecksumAt = 36;
  constexpr std::size_t kHeaderBytes = 40;
  if (bytes.size() < kHeaderBytes) return;
  std::vector<std::byte> sealed(bytes.begin(), bytes.end());
  const auto all = std::span<const std::byte>(sealed);
  const std::uint32_t checksum = crc32c(all.subspan(kHeaderBytes), crc32c(all.first(kChecksumAt)));
  for (std::size_t i = 0; i < 4; ++i) sealed[kChecksumAt + i] = static_cast<std::byte>(checksum >> (8 * i));
  parse_block(sealed);
}

void parse_sum(std::span<const std::byte> bytes) {
  if (bytes.size() < 2) return;
  PlanCode code;
  code.field = static_cast<FieldKind>(1 + std::to_integer<unsigned>(bytes[0]) % 3);
  code.blocks = 1 + std::to_integer<unsigned>(bytes[1]) % 40;
  const auto payload = coded_payload_of(Buffer::copy_of(bytes.subspan(2)), code);
  if (!payload) return;
  require(payload->checksums.empty() || payload->checksums.size() == code.blocks);
  const auto sum = sum_of_payloads(code, {1.0, 2.0}, {*payload, *payload});
  require(sum.has_value() && sum->sum.size_bytes() == payload->sum.size_bytes());
  require(coded_payload_of(to_bytes(*sum, code), code).has_value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  switch (data[0] % 3) {
    case 0: parse_block(bytes); break;
    case 1: parse_sealed_block(bytes); break;
    default: parse_sum(bytes); break;
  }
  return 0;
}
