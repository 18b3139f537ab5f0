// What a probe sends: bytes that mean nothing.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstddef>

#include "square/buffer.h"

namespace square::rpc {

// One message of it: as little as keeps a fast connection full, for what is real waits behind it.
inline constexpr std::size_t kPaddingBytes = std::size_t{64} << 10U;
inline constexpr std::size_t kMinPaddingBytes = std::size_t{1} << 10U;

// A message of at most so many bytes, and of no more than kPaddingBytes.
grpc::ByteBuffer padding(std::size_t most_bytes);
// Whether a message is meant to be that: nobody answers it, and its end is the end of it.
bool is_padding(const Buffer& message);

}  // namespace square::rpc
