#include "node/messages/answers.h"

#include <algorithm>
#include <cstring>

#include "node/messages/wire_fields.h"

namespace square {
namespace {

// destination, flags, first_missing, numbers of bits and of streams: 32 bits each; then
// the bits; then for each stream its index in 16 bits and the sequence in 48.
constexpr std::size_t kAckHeaderBytes = 20;
constexpr std::size_t kSeenBytes = 8;
static_assert(kMaxAcknowledgementBytes == kAckHeaderBytes + kMaxSpreadBlocks / 8 + kSeenBytes * kMaxStreams);
constexpr unsigned kSequenceBits = 48;
constexpr std::uint32_t kDoneFlag = 1;
constexpr std::uint32_t kAcceptingFlag = 2;
constexpr std::uint32_t kAwaitedFlag = 4;
constexpr std::uint32_t kForgedFlag = 8;

using wire::bytes_for;
using wire::flatten;
using wire::get;
using wire::put;

bool is_whole(const std::vector<std::byte>& bytes) {
  if (bytes.size() < kAckHeaderBytes) return false;
  const std::size_t bits = get<std::uint32_t>(bytes, 12);
  const std::size_t streams = get<std::uint32_t>(bytes, 16);
  return bits <= kMaxSpreadBlocks && streams <= kMaxStreams &&
         kAckHeaderBytes + bytes_for(bits) + kSeenBytes * streams == bytes.size();
}

}  // namespace

Buffer encode_acknowledgement(const Acknowledgement& ack) {
  std::vector<std::byte> bytes;
  bytes.reserve(kAckHeaderBytes + bytes_for(ack.bits.size()) + kSeenBytes * ack.seen.size());
  put(bytes, ack.destination.value());
  put(bytes, (ack.done ? kDoneFlag : 0U) | (ack.accepting ? kAcceptingFlag : 0U) |
                 (ack.awaited ? kAwaitedFlag : 0U) | (ack.forged ? kForgedFlag : 0U));
  put(bytes, ack.first_missing);
  put(bytes, static_cast<std::uint32_t>(ack.bits.size()));
  put(bytes, static_cast<std::uint32_t>(ack.seen.size()));
  wire::put_bits(bytes, ack.bits);
  for (const auto& [stream, sequence] : ack.seen) {
    put(bytes, std::uint64_t{stream.value()} << kSequenceBits | sequence);
  }
  return Buffer::copy_of(bytes);
}

bool is_routine(const Buffer& acknowledgement) {
  const std::vector<std::byte> bytes = flatten(acknowledgement);
  return is_whole(bytes) && get<std::uint32_t>(bytes, 4) == kAcceptingFlag;
}

Result<Acknowledgement> decode_acknowledgement(const Buffer& payload) {
  const std::vector<std::byte> bytes = flatten(payload);
  if (!is_whole(bytes)) return data_loss("an acknowledgement lies about its length");
  const std::size_t bits = get<std::uint32_t>(bytes, 12);
  const std::size_t streams = get<std::uint32_t>(bytes, 16);
  Acknowledgement ack;
  ack.destination = NodeId(get<std::uint32_t>(bytes, 0));
  const auto flags = get<std::uint32_t>(bytes, 4);
  ack.done = (flags & kDoneFlag) != 0;
  ack.accepting = (flags & kAcceptingFlag) != 0;
  ack.awaited = (flags & kAwaitedFlag) != 0;
  ack.forged = (flags & kForgedFlag) != 0;
  ack.first_missing = get<std::uint32_t>(bytes, 8);
  ack.bits = wire::get_bits(bytes, kAckHeaderBytes, bits);
  for (std::size_t i = 0; i < streams; ++i) {
    const auto word = get<std::uint64_t>(bytes, kAckHeaderBytes + bytes_for(bits) + kSeenBytes * i);
    ack.seen.push_back({StreamIndex(static_cast<std::uint16_t>(word >> kSequenceBits)),
                        word & ((std::uint64_t{1} << kSequenceBits) - 1)});
  }
  return ack;
}

Buffer encode_abort(const Status& cause) {
  std::vector<std::byte> bytes;
  put(bytes, static_cast<std::uint32_t>(cause.code()));
  const auto text =
      std::as_bytes(std::span(cause.message()).first(std::min(cause.message().size(), kMaxAbortTextBytes)));
  bytes.insert(bytes.end(), text.begin(), text.end());
  return Buffer::copy_of(bytes);
}

std::optional<Status> decode_abort(const Buffer& payload) {
  if (payload.size_bytes() < 4 || payload.size_bytes() > kMaxAbortBytes) return std::nullopt;
  const std::vector<std::byte> bytes = flatten(payload);
  const std::uint32_t code = get<std::uint32_t>(bytes, 0);
  if (code == 0 || code > static_cast<std::uint32_t>(StatusCode::kUnauthenticated)) {
    return std::nullopt;
  }
  std::string text(bytes.size() - 4, '\0');
  std::memcpy(text.data(), bytes.data() + 4, text.size());
  std::ranges::replace_if(
      text, [](char letter) { return static_cast<unsigned char>(letter) < 0x20 || letter == 0x7f; }, ' ');
  return Status(static_cast<StatusCode>(code), std::move(text));
}

}  // namespace square
