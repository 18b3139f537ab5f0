#include "transport/grpc/control.h"

#include <fmt/format.h>
#include <grpcpp/support/slice.h>

#include <algorithm>
#include <array>
#include <span>

namespace square::rpc {
namespace {

// docs/wire.md draws it: magic, type, three zeros, value, CRC32C of what is before it.
using Bytes = std::array<std::byte, kControlBytes>;
constexpr std::array<std::byte, 4> kMagic = {std::byte{'S'}, std::byte{'Q'}, std::byte{'L'}, std::byte{'C'}};
constexpr std::size_t kTypeAt = 4;
constexpr std::size_t kValueAt = 8;
constexpr std::size_t kCrcAt = 16;

template <typename T>
void put(Bytes& bytes, std::size_t at, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) bytes[at + i] = static_cast<std::byte>(value >> (8 * i));
}

template <typename T>
T get(const Bytes& bytes, std::size_t at) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) value |= std::to_integer<T>(bytes[at + i]) << (8 * i);
  return value;
}

std::uint32_t checksum(const Bytes& bytes) { return crc32c(std::span(bytes).first(kCrcAt)); }

}  // namespace

grpc::ByteBuffer to_message(const Control& control) {
  Bytes bytes{};
  std::copy(kMagic.begin(), kMagic.end(), bytes.begin());
  bytes[kTypeAt] = static_cast<std::byte>(control.type);
  put<std::uint64_t>(bytes, kValueAt, control.value);
  put<std::uint32_t>(bytes, kCrcAt, checksum(bytes));
  const grpc::Slice slice(bytes.data(), bytes.size());
  return {&slice, 1};
}

bool is_control(const Buffer& message) {
  if (message.size_bytes() != kControlBytes) return false;
  Bytes bytes{};
  message.copy_to(bytes.data());
  return std::equal(kMagic.begin(), kMagic.end(), bytes.begin());
}

Result<Control> decode_control(const Buffer& message) {
  Bytes bytes{};
  message.copy_to(bytes.data());
  if (get<std::uint32_t>(bytes, kCrcAt) != checksum(bytes)) {
    return data_loss("a control message fails its checksum");
  }
  const auto type = std::to_integer<std::uint8_t>(bytes[kTypeAt]);
  if (type < static_cast<std::uint8_t>(ControlType::kPing) ||
      type > static_cast<std::uint8_t>(ControlType::kDelivered)) {
    return data_loss(fmt::format("a control message has the unknown type {}", type));
  }
  return Control{static_cast<ControlType>(type), get<std::uint64_t>(bytes, kValueAt)};
}

}  // namespace square::rpc
