#include "ps/data/parts.h"

#include <fmt/format.h>

#include <cstring>

#include "square/buffer.h"

namespace square::ps {
namespace {

constexpr std::uint64_t kMagic = 0x5351'5053'5041'5254;  // "SQPSPART"

// As it is on the wire, little-endian as all machines that Square runs on.
struct WireHead {
  std::uint64_t magic = kMagic;
  std::uint64_t version = 0;
  std::uint64_t maker = 0;
  std::uint64_t first = 0;
  std::uint32_t checksum = 0;
  std::uint32_t spare = 0;
};
static_assert(sizeof(WireHead) == kPartHeadBytes);

}  // namespace

std::span<float> payload_of(std::span<std::byte> message) {
  static_assert(kPartHeadBytes % alignof(float) == 0);
  const std::span<std::byte> payload = message.subspan(kPartHeadBytes);
  return {reinterpret_cast<float*>(payload.data()), payload.size() / sizeof(float)};
}

std::size_t part_bytes(std::size_t elements, ElementType type) {
  return kPartHeadBytes + elements * (type == ElementType::kBfloat16 ? 2 : 4);
}

void seal(std::span<std::byte> message, const PartHead& head) {
  const WireHead wire{kMagic, head.version, head.maker, head.first, crc32c(message.subspan(kPartHeadBytes)),
                      0};
  std::memcpy(message.data(), &wire, sizeof wire);
}

Status check_part(std::span<const std::byte> message, const PartHead& expected) {
  WireHead wire;
  std::memcpy(&wire, message.data(), sizeof wire);
  if (wire.magic != kMagic || wire.version != expected.version || wire.maker != expected.maker ||
      wire.first != expected.first) {
    return data_loss(fmt::format(
        "a part of version {} (maker {:x}) from element {} came where one of version {} (maker {:x}) from {} "
        "was expected",
        wire.version, wire.maker, wire.first, expected.version, expected.maker, expected.first));
  }
  const std::uint32_t checksum = crc32c(message.subspan(kPartHeadBytes));
  if (checksum == wire.checksum) return {};
  return data_loss(fmt::format("a part from element {} has the checksum {:08x}, not {:08x}", wire.first,
                               checksum, wire.checksum));
}

}  // namespace square::ps
