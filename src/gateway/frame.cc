#include "gateway/frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "square/buffer.h"

namespace square::gateway {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are copied as they lie");

// docs/gateway.md draws this layout.
constexpr std::array<std::byte, 4> kMagic = {std::byte{'S'}, std::byte{'Q'}, std::byte{'G'}, std::byte{'W'}};
constexpr std::uint8_t kLayout = 1;
constexpr std::size_t kLayoutAt = 4;
constexpr std::size_t kTypeAt = 5;
constexpr std::size_t kZerosAt = 6;
constexpr std::size_t kNumberAt = 8;
constexpr std::size_t kOffsetAt = 16;
constexpr std::size_t kBodyBytesAt = 24;
constexpr std::size_t kChecksumAt = 28;

template <typename T>
void put(HeaderBytes& header, std::size_t at, T value) {
  std::memcpy(header.data() + at, &value, sizeof value);
}

template <typename T>
T get(const HeaderBytes& header, std::size_t at) {
  T value;
  std::memcpy(&value, header.data() + at, sizeof value);
  return value;
}

std::uint32_t checksum(const HeaderBytes& header, std::span<const std::byte> body) {
  return crc32c(body, crc32c(std::span(header).first(kChecksumAt)));
}

}  // namespace

ProtocolVersions gateway_versions() {
  return versions_of_release(kOldestGatewayProtocol, kGatewayProtocolVersion);
}

HeaderBytes encode_header(const Header& header, std::span<const std::byte> body) {
  HeaderBytes bytes{};
  std::ranges::copy(kMagic, bytes.begin());
  put<std::uint8_t>(bytes, kLayoutAt, kLayout);
  put<std::uint8_t>(bytes, kTypeAt, static_cast<std::uint8_t>(header.type));
  put<std::uint64_t>(bytes, kNumberAt, header.number);
  put<std::uint64_t>(bytes, kOffsetAt, header.offset_bytes);
  put<std::uint32_t>(bytes, kBodyBytesAt, header.body_bytes);
  put<std::uint32_t>(bytes, kChecksumAt, checksum(bytes, body));
  return bytes;
}

Result<Header> decode_header(const HeaderBytes& bytes) {
  if (!std::equal(kMagic.begin(), kMagic.end(), bytes.begin())) {
    return data_loss("these bytes are not a message of Square's gateway");
  }
  if (const auto layout = get<std::uint8_t>(bytes, kLayoutAt); layout != kLayout) {
    return data_loss(fmt::format("a message of layout {}; this build speaks {}", layout, kLayout));
  }
  const auto type = get<std::uint8_t>(bytes, kTypeAt);
  if (type < static_cast<std::uint8_t>(MessageType::kHello) ||
      type > static_cast<std::uint8_t>(MessageType::kClose)) {
    return data_loss(fmt::format("a message of unknown type {}", type));
  }
  if (get<std::uint16_t>(bytes, kZerosAt) != 0) {
    return data_loss("a message whose header is not zero where its layout has zeros");
  }
  const Header header{static_cast<MessageType>(type), get<std::uint64_t>(bytes, kNumberAt),
                      get<std::uint64_t>(bytes, kOffsetAt), get<std::uint32_t>(bytes, kBodyBytesAt)};
  if (header.body_bytes > max_body_bytes(header.type)) {
    return data_loss(fmt::format("a {} message of {} bytes, where {} are allowed", to_string(header.type),
                                 header.body_bytes, max_body_bytes(header.type)));
  }
  return header;
}

Status check_body(const HeaderBytes& header, std::span<const std::byte> body) {
  const bool is_whole = get<std::uint32_t>(header, kBodyBytesAt) == body.size();
  if (is_whole && get<std::uint32_t>(header, kChecksumAt) == checksum(header, body)) return {};
  return data_loss("a message fails its checksum");
}

std::size_t max_body_bytes(MessageType type) {
  switch (type) {
    case MessageType::kHello: return kMaxHelloBytes;
    case MessageType::kChunk: return kMaxChunkBytes;
    case MessageType::kAdmitted:
    case MessageType::kCancel:
    case MessageType::kHeartbeat:
    case MessageType::kGoodbye: return 0;
    default: return kMaxMessageBytes;
  }
}

std::string_view to_string(MessageType type) {
  switch (type) {
    case MessageType::kHello: return "hello";
    case MessageType::kWelcome: return "welcome";
    case MessageType::kRegister: return "register";
    case MessageType::kRegistered: return "registered";
    case MessageType::kPost: return "post";
    case MessageType::kAdmitted: return "admitted";
    case MessageType::kStaged: return "staged";
    case MessageType::kChunk: return "chunk";
    case MessageType::kCancel: return "cancel";
    case MessageType::kOutcome: return "outcome";
    case MessageType::kHeartbeat: return "heartbeat";
    case MessageType::kGoodbye: return "goodbye";
    case MessageType::kClosing: return "closing";
    case MessageType::kFail: return "fail";
    case MessageType::kWatch: return "watch";
    case MessageType::kArrived: return "arrived";
    case MessageType::kClose: return "close";
  }
  return "unknown";
}

}  // namespace square::gateway
