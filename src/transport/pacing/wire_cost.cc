#include "transport/pacing/wire_cost.h"

#include "square/frame.h"
#include "square/units.h"

namespace square {
namespace {

constexpr std::size_t kMessagePrefixBytes = 5;
constexpr std::size_t kHttp2FrameBytes = std::size_t{16} << 10U;
constexpr std::size_t kHttp2HeaderBytes = 9;
// IPv4 20, TCP with timestamps 32, Ethernet 14.
constexpr std::size_t kPacketHeaderBytes = 66;
constexpr std::size_t kSegmentBytes = 9000 - 52;
// Every other one (RFC 9293, 3.8.6.3), but kernels merge packets of a burst before TCP sees them.
constexpr std::size_t kSegmentsPerAck = 4;
constexpr std::size_t kWindowUpdateBytes = kHttp2HeaderBytes + 4;

constexpr std::size_t pieces(std::size_t total, std::size_t piece) { return (total + piece - 1) / piece; }

std::size_t stream_bytes(std::size_t payload_bytes) {
  return stream_bytes_of_message(kFrameHeaderBytes + payload_bytes);
}

}  // namespace

std::size_t stream_bytes_of_message(std::size_t message_bytes) {
  const std::size_t message = kMessagePrefixBytes + message_bytes;
  return message + kHttp2HeaderBytes * pieces(message, kHttp2FrameBytes);
}

double stream_bits(std::uint64_t stream_bytes) {
  constexpr double kWirePart = 1.0 + static_cast<double>(kPacketHeaderBytes) / kSegmentBytes;
  return kBitsPerByte * kWirePart * static_cast<double>(stream_bytes);
}

double wire_bits(std::size_t payload_bytes) {
  const std::size_t stream = stream_bytes(payload_bytes);
  const std::size_t wire = stream + kPacketHeaderBytes * pieces(stream, kSegmentBytes);
  return kBitsPerByte * static_cast<double>(wire);
}

double receipt_bits(std::size_t payload_bytes) {
  const std::size_t packets = pieces(stream_bytes(payload_bytes), kSegmentBytes);
  const std::size_t wire = kWindowUpdateBytes + kPacketHeaderBytes * (1 + pieces(packets, kSegmentsPerAck));
  return kBitsPerByte * static_cast<double>(wire);
}

}  // namespace square
