#include "node/sums/sum_messages.h"

#include "node/messages/wire_fields.h"

namespace square {
namespace {

using wire::get;
using wire::put;

// number, flags, first_missing, numbers of bits, of blocks and of streams: 32 bits each; then the bits, and
// those of the streams; then for each block its number in 32 bits and its retry in 16.
constexpr std::size_t kRequestHeaderBytes = 24;
constexpr std::size_t kAgainBytes = 6;
static_assert(kMaxRequestBytes == kRequestHeaderBytes + kMaxSpreadBlocks / 8 + kMaxRequestedStreams / 8 +
                                      kAgainBytes * kMaxRequestedBlocks);
constexpr std::uint32_t kRequestDoneFlag = 1;
constexpr std::uint32_t kCalledFlag = 1;
constexpr std::uint32_t kBehindFlag = 2;
constexpr std::uint32_t kLostFlag = 4;

}  // namespace

Buffer encode_request(const SumRequest& request) {
  std::vector<std::byte> bytes;
  put(bytes, request.number);
  put(bytes, request.done ? kRequestDoneFlag : 0U);
  put(bytes, request.first_missing);
  put(bytes, static_cast<std::uint32_t>(request.bits.size()));
  put(bytes, static_cast<std::uint32_t>(request.again.size()));
  put(bytes, static_cast<std::uint32_t>(request.left.size()));
  wire::put_bits(bytes, request.bits);
  wire::put_bits(bytes, request.left);
  for (const auto& [block, retry] : request.again) {
    put(bytes, block);
    bytes.push_back(static_cast<std::byte>(retry & 0xffU));
    bytes.push_back(static_cast<std::byte>(retry >> 8U));
  }
  return Buffer::copy_of(bytes);
}

Result<SumRequest> decode_request(const Buffer& payload) {
  if (payload.size_bytes() < kRequestHeaderBytes) return data_loss("a request is too short");
  const std::vector<std::byte> bytes = wire::flatten(payload);
  const std::size_t bits = get<std::uint32_t>(bytes, 12);
  const std::size_t blocks = get<std::uint32_t>(bytes, 16);
  const std::size_t streams = get<std::uint32_t>(bytes, 20);
  if (bits > kMaxSpreadBlocks || blocks > kMaxRequestedBlocks || streams > kMaxRequestedStreams) {
    return data_loss("a request speaks of too much");
  }
  const std::size_t left_at = kRequestHeaderBytes + wire::bytes_for(bits);
  const std::size_t again_at = left_at + wire::bytes_for(streams);
  if (again_at + kAgainBytes * blocks != bytes.size()) {
    return data_loss("a request lies about its length");
  }
  SumRequest request;
  request.number = get<std::uint32_t>(bytes, 0);
  request.done = (get<std::uint32_t>(bytes, 4) & kRequestDoneFlag) != 0;
  request.first_missing = get<std::uint32_t>(bytes, 8);
  request.bits = wire::get_bits(bytes, kRequestHeaderBytes, bits);
  request.left = wire::get_bits(bytes, left_at, streams);
  for (std::size_t i = 0; i < blocks; ++i) {
    const std::size_t at = again_at + kAgainBytes * i;
    request.again.push_back({get<std::uint32_t>(bytes, at),
                             static_cast<std::uint16_t>(std::to_integer<unsigned>(bytes[at + 4]) |
                                                        std::to_integer<unsigned>(bytes[at + 5]) << 8U)});
  }
  return request;
}

Buffer encode_report(const SumReport& report) {
  std::vector<std::byte> bytes;
  put(bytes, report.contributor.value());
  put(bytes, report.number);
  put(bytes, (report.has_called ? kCalledFlag : 0U) | (report.is_behind ? kBehindFlag : 0U) |
                 (report.may_have_lost ? kLostFlag : 0U));
  put(bytes, report.position);
  return Buffer::copy_of(bytes);
}

Result<SumReport> decode_report(const Buffer& payload) {
  if (payload.size_bytes() != kReportBytes) return data_loss("a report has another length");
  const std::vector<std::byte> bytes = wire::flatten(payload);
  const auto flags = get<std::uint32_t>(bytes, 8);
  return SumReport{NodeId(get<std::uint32_t>(bytes, 0)), get<std::uint32_t>(bytes, 4),
                   (flags & kCalledFlag) != 0,           (flags & kBehindFlag) != 0,
                   get<std::uint32_t>(bytes, 12),        (flags & kLostFlag) != 0};
}

}  // namespace square
