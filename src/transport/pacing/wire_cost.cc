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

// In the byte stream that TCP carries.
constexpr std::size_t stream_bytes(std::size_t payload_bytes) {
  const std::size_t message = kMessagePrefixBytes + kFrameHeaderBytes + payload_bytes;
  return message + kHttp2HeaderBytes * pieces(message, kHttp2FrameBytes);
}

}  // namespace

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
