// What lies between a process and its gateway on the wire: a header, then a body.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/protocol_versions.h"
#include "square/status.h"

namespace square::gateway {

// CONTRIBUTING.md says when each is raised. Messages of a type that the other does not know end the
// attachment, so a side sends only those of the version that both speak.
inline constexpr std::uint32_t kGatewayProtocolVersion = 4;
inline constexpr std::uint32_t kOldestGatewayProtocol = 4;
// Of this process.
ProtocolVersions gateway_versions();

inline constexpr std::size_t kHeaderBytes = 32;
// Data is cut into chunks of this size at the most; the last one may be smaller.
inline constexpr std::size_t kMaxChunkBytes = std::size_t{1} << 20U;
// The body of any other message. A group of thousands of members fits.
inline constexpr std::size_t kMaxMessageBytes = std::size_t{1} << 20U;
// Before a process is known.
inline constexpr std::size_t kMaxHelloBytes = std::size_t{8} << 10U;

// The values are the wire's.
enum class MessageType : std::uint8_t {
  kHello = 1,       // process: GatewayHello
  kWelcome = 2,     // gateway: GatewayWelcome
  kRegister = 3,    // process: GatewayRegister
  kRegistered = 4,  // gateway: GatewayRegistered
  kPost = 5,        // process: GatewayPost
  kAdmitted = 6,    // gateway: there is room, send the input
  kStaged = 7,      // process: GatewayStaged
  kChunk = 8,       // both: raw bytes of input or output
  kCancel = 9,      // process
  kOutcome = 10,    // gateway: GatewayStatus; the operation is over
  kHeartbeat = 11,  // both
  kGoodbye = 12,    // process: leaves in order
  kClosing = 13,    // gateway: GatewayStatus; the last message
  kFail = 14,       // process: GatewayFail
  kWatch = 15,      // process: GatewayWatch
  kArrived = 16,    // gateway: GatewayStatus; the operation has begun, or never will
  kClose = 17,      // process: GatewayClose
};

struct Header {
  MessageType type = MessageType::kHeartbeat;
  // Which request or operation of this attachment: the process counts both from 1.
  std::uint64_t number = 0;
  // Of a chunk in its input or output; otherwise 0.
  std::uint64_t offset_bytes = 0;
  std::uint32_t body_bytes = 0;
};

using HeaderBytes = std::array<std::byte, kHeaderBytes>;

// The checksum covers the header and `body`.
HeaderBytes encode_header(const Header& header, std::span<const std::byte> body);

// Errors: DATA_LOSS for what is no header. Says nothing about the checksum.
Result<Header> decode_header(const HeaderBytes& bytes);

// Errors: DATA_LOSS, also for a body of another length than the header says.
Status check_body(const HeaderBytes& header, std::span<const std::byte> body);

// How long the body may be. Checked before anything is allocated for it.
std::size_t max_body_bytes(MessageType type);

std::string_view to_string(MessageType type);

}  // namespace square::gateway
