#include "square/frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace square {
namespace {

// docs/wire.md draws this layout; the offsets below are that picture.
constexpr std::array<std::byte, 4> kMagic = {std::byte{'S'}, std::byte{'Q'}, std::byte{'F'}, std::byte{'R'}};
constexpr std::uint8_t kWireVersion = 5;
// The type has the other bits.
constexpr std::uint8_t kSealedBit = 0x80;
constexpr std::uint8_t kAuditedBit = 0x40;
constexpr std::uint8_t kTypeBits = 0x3f;

enum Offset : std::size_t {
  kMagicAt = 0,
  kVersionAt = 4,
  kTypeAt = 5,
  kStreamAt = 6,
  kPayloadBytesAt = 8,
  kEpochAt = 12,
  kSessionAt = 16,
  kIncarnationAt = 20,
  kAttemptAt = 24,
  kBlockBytesAt = 28,
  kOperationAt = 32,
  kOffsetBytesAt = 40,
  kTotalBytesAt = 46,
  kOriginAt = 52,
  kStreamSequenceAt = 56,
  kHopSequenceAt = 64,
  kLinkSequenceAt = 72,
  kElementTypeAt = 80,
  kReduceOpAt = 81,
  kCallAt = 82,
  kLayoutAt = 84,
  kPayloadCrcAt = 88,
  kHeaderCrcAt = 92,
};
static_assert(kHeaderCrcAt + sizeof(std::uint32_t) == kFrameHeaderBytes);

// Positions in a buffer take six bytes.
constexpr std::size_t kPositionBytes = 6;

using HeaderBytes = std::array<std::byte, kFrameHeaderBytes>;

template <typename T>
void put(HeaderBytes& header, std::size_t at, T value, std::size_t bytes = sizeof(T)) {
  for (std::size_t i = 0; i < bytes; ++i) {
    header[at + i] = static_cast<std::byte>(static_cast<std::uint64_t>(value) >> (8 * i));
  }
}

template <typename T>
T get(const HeaderBytes& header, std::size_t at, std::size_t bytes = sizeof(T)) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i) {
    value |= std::to_integer<std::uint64_t>(header[at + i]) << (8 * i);
  }
  return static_cast<T>(value);
}

// The checksum of a header whose own checksum counts as zero.
std::uint32_t header_crc(HeaderBytes header) {
  put<std::uint32_t>(header, kHeaderCrcAt, 0);
  return crc32c(header);
}

// Precondition: the message holds at least a header.
HeaderBytes first_bytes(const Buffer& message) {
  HeaderBytes header;
  std::size_t filled = 0;
  for (const Buffer::Slice& slice : message.slices()) {
    const std::size_t run = std::min(slice.size_bytes, header.size() - filled);
    std::memcpy(header.data() + filled, slice.data, run);
    filled += run;
    if (filled == header.size()) break;
  }
  return header;
}

bool is_known(std::uint8_t type) {
  return type >= static_cast<std::uint8_t>(FrameType::kBlock) &&
         type <= static_cast<std::uint8_t>(FrameType::kReport);
}

// Everything but the payload's bytes. The header's checksum comes before its fields: a
// damaged header must not be explained by a field that the damage made up.
Status check_header(const HeaderBytes& header, std::size_t message_bytes) {
  if (!std::equal(kMagic.begin(), kMagic.end(), header.begin() + kMagicAt)) {
    return data_loss("a message does not begin as a Square frame does");
  }
  if (get<std::uint32_t>(header, kHeaderCrcAt) != header_crc(header)) {
    return data_loss("a frame's header fails its checksum");
  }
  if (const auto version = get<std::uint8_t>(header, kVersionAt); version != kWireVersion) {
    return data_loss(fmt::format("a frame has layout {}, this node reads {}", version, kWireVersion));
  }
  if (const std::uint8_t type = get<std::uint8_t>(header, kTypeAt) & kTypeBits; !is_known(type)) {
    return data_loss(fmt::format("a frame has the unknown type {}", type));
  }
  const std::size_t payload_bytes = get<std::uint32_t>(header, kPayloadBytesAt);
  if (payload_bytes > kMaxPayloadBytes) {
    return data_loss(fmt::format("a frame claims a payload of {} bytes, the limit is {}", payload_bytes,
                                 kMaxPayloadBytes));
  }
  if (payload_bytes > message_bytes - kFrameHeaderBytes) {
    return data_loss(fmt::format("a frame claims a payload of {} bytes and has {}", payload_bytes,
                                 message_bytes - kFrameHeaderBytes));
  }
  return Status::ok();
}

}  // namespace

std::array<std::byte, kFrameHeaderBytes> encode_header(const Frame& frame) {
  SQUARE_CHECK(frame.payload.size_bytes() <= kMaxPayloadBytes, "a payload is past kMaxPayloadBytes");
  const FrameHeader& fields = frame.header;
  HeaderBytes header{};
  std::copy(kMagic.begin(), kMagic.end(), header.begin() + kMagicAt);
  put<std::uint8_t>(header, kVersionAt, kWireVersion);
  put<std::uint8_t>(header, kTypeAt,
                    static_cast<std::uint8_t>(fields.type) | (fields.is_sealed ? kSealedBit : 0) |
                        (fields.is_audited ? kAuditedBit : 0));
  put<std::uint32_t>(header, kPayloadBytesAt, static_cast<std::uint32_t>(frame.payload.size_bytes()));
  put<std::uint32_t>(header, kEpochAt, fields.epoch.value());
  put<std::uint32_t>(header, kSessionAt, fields.session.value());
  put<std::uint16_t>(header, kStreamAt, fields.stream.value());
  put<std::uint32_t>(header, kIncarnationAt, fields.incarnation);
  put<std::uint32_t>(header, kAttemptAt, fields.attempt);
  put<std::uint32_t>(header, kBlockBytesAt, fields.block_bytes);
  put<std::uint64_t>(header, kOperationAt, fields.operation.value());
  put<std::uint64_t>(header, kOffsetBytesAt, fields.offset_bytes, kPositionBytes);
  put<std::uint64_t>(header, kTotalBytesAt, fields.total_bytes, kPositionBytes);
  put<std::uint32_t>(header, kOriginAt, fields.origin.value());
  put<std::uint64_t>(header, kStreamSequenceAt, fields.stream_sequence);
  put<std::uint64_t>(header, kHopSequenceAt, fields.hop_sequence);
  put<std::uint64_t>(header, kLinkSequenceAt, fields.link_sequence);
  put<std::uint8_t>(header, kElementTypeAt, fields.element_type);
  put<std::uint8_t>(header, kReduceOpAt, fields.reduce_op);
  put<std::uint16_t>(header, kCallAt, fields.call);
  put<std::uint32_t>(header, kLayoutAt, fields.layout.value());
  put<std::uint32_t>(header, kPayloadCrcAt, frame.payload.checksum());
  put<std::uint32_t>(header, kHeaderCrcAt, header_crc(header));
  return header;
}

Result<Frame> take_frame(Buffer& message) {
  if (message.size_bytes() < kFrameHeaderBytes) {
    return data_loss(fmt::format("a message of {} bytes is shorter than a frame's header of {}",
                                 message.size_bytes(), kFrameHeaderBytes));
  }
  const HeaderBytes header = first_bytes(message);
  SQUARE_RETURN_IF_ERROR(check_header(header, message.size_bytes()));

  Frame frame;
  const auto type = get<std::uint8_t>(header, kTypeAt);
  frame.header.type = static_cast<FrameType>(type & kTypeBits);
  frame.header.is_sealed = (type & kSealedBit) != 0;
  frame.header.is_audited = (type & kAuditedBit) != 0;
  frame.header.epoch = Epoch(get<std::uint32_t>(header, kEpochAt));
  frame.header.session = SessionId(get<std::uint32_t>(header, kSessionAt));
  frame.header.stream = StreamIndex(get<std::uint16_t>(header, kStreamAt));
  frame.header.incarnation = get<std::uint32_t>(header, kIncarnationAt);
  frame.header.attempt = get<std::uint32_t>(header, kAttemptAt);
  frame.header.block_bytes = get<std::uint32_t>(header, kBlockBytesAt);
  frame.header.operation = OperationId(get<std::uint64_t>(header, kOperationAt));
  frame.header.offset_bytes = get<std::uint64_t>(header, kOffsetBytesAt, kPositionBytes);
  frame.header.total_bytes = get<std::uint64_t>(header, kTotalBytesAt, kPositionBytes);
  frame.header.origin = OriginTag(get<std::uint32_t>(header, kOriginAt));
  frame.header.stream_sequence = get<std::uint64_t>(header, kStreamSequenceAt);
  frame.header.hop_sequence = get<std::uint64_t>(header, kHopSequenceAt);
  frame.header.link_sequence = get<std::uint64_t>(header, kLinkSequenceAt);
  frame.header.element_type = get<std::uint8_t>(header, kElementTypeAt);
  frame.header.reduce_op = get<std::uint8_t>(header, kReduceOpAt);
  frame.header.call = get<std::uint16_t>(header, kCallAt);
  frame.header.layout = Epoch(get<std::uint32_t>(header, kLayoutAt));
  frame.payload = message.range(kFrameHeaderBytes, get<std::uint32_t>(header, kPayloadBytesAt));
  const auto checksum = get<std::uint32_t>(header, kPayloadCrcAt);
  if (checksum != crc32c(frame.payload)) {
    return data_loss(fmt::format("the payload of session {}, operation {}, offset {} fails its checksum",
                                 frame.header.session.value(), frame.header.operation.value(),
                                 frame.header.offset_bytes));
  }
  frame.payload.remember_checksum(checksum);
  message = message.suffix(kFrameHeaderBytes + frame.payload.size_bytes());
  return frame;
}

}  // namespace square
