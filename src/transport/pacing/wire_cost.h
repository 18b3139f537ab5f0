// What a frame costs on the wire, counted as a kernel's shaper counts it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace square {

// Bits of one frame with `payload_bytes`: its header, gRPC's message prefix, HTTP/2 DATA
// frame headers (RFC 9113, 16 KiB frames), and TCP/IP and Ethernet headers of the
// packets at MTU 9000 (design: emulated links).
double wire_bits(std::size_t payload_bytes);

// Bytes of a gRPC message in the byte stream that TCP carries.
std::size_t stream_bytes_of_message(std::size_t message_bytes);

// Bits on the wire of so much of that stream, in full packets.
double stream_bits(std::uint64_t stream_bytes);

// Bits that go back for such a frame without anybody's asking: TCP acknowledgements and an
// HTTP/2 WINDOW_UPDATE.
double receipt_bits(std::size_t payload_bytes);

}  // namespace square
