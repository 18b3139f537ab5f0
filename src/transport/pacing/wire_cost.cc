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

constexpr std::size_t pieces(std::size_t total, std::size_t piece) { return (total + piece - 1) / piece; }

}  // namespace

double wire_bits(std::size_t payload_bytes) {
  const std::size_t message = kMessagePrefixBytes + kFrameHeaderBytes + payload_bytes;
  const std::size_t stream = message + kHttp2HeaderBytes * pieces(message, kHttp2FrameBytes);
  const std::size_t wire = stream + kPacketHeaderBytes * pieces(stream, kSegmentBytes);
  return kBitsPerByte * static_cast<double>(wire);
}

}  // namespace square
