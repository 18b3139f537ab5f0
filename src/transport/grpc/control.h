// What the two ends of a link tell one another beside frames.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>

#include "square/buffer.h"
#include "square/status.h"

namespace square::rpc {

enum class ControlType : std::uint8_t {
  kPing = 1,       // tail to head: answer with a pong of this number
  kPong = 2,       // head to tail
  kDelivered = 3,  // head to tail: so much of the numbered frames has been put in order
};

struct Control {
  ControlType type = ControlType::kPing;
  std::uint64_t value = 0;
};

inline constexpr std::size_t kControlBytes = 20;

grpc::ByteBuffer to_message(const Control& control);

// Whether a message is meant to be one of these: a frame is longer and begins differently.
bool is_control(const Buffer& message);
// Precondition: is_control(). Errors: DATA_LOSS for a wrong type or checksum.
Result<Control> decode_control(const Buffer& message);

}  // namespace square::rpc
