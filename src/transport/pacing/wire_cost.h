// What a frame costs on the wire, counted as a kernel's shaper counts it.
#pragma once

#include <cstddef>

namespace square {

// Bits of one frame with `payload_bytes`: its header, gRPC's message prefix, HTTP/2 DATA
// frame headers (RFC 9113, 16 KiB frames), and TCP/IP and Ethernet headers of the
// packets at MTU 9000 (design: emulated links).
double wire_bits(std::size_t payload_bytes);

// Bits that go back for such a frame without anybody's asking: TCP acknowledgements and an
// HTTP/2 WINDOW_UPDATE.
double receipt_bits(std::size_t payload_bytes);

}  // namespace square
