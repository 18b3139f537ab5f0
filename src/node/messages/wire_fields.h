// Numbers and bits in the payloads that nodes write themselves: little endian.
#pragma once

#include <cstddef>
#include <vector>

#include "square/buffer.h"

namespace square::wire {

inline constexpr std::size_t kBitsPerByte = 8;

template <typename Number>
void put(std::vector<std::byte>& out, Number value) {
  for (std::size_t i = 0; i < sizeof(Number); ++i, value >>= 8U)
    out.push_back(static_cast<std::byte>(value & 0xffU));
}

// Precondition: the bytes are there.
template <typename Number>
Number get(const std::vector<std::byte>& in, std::size_t at) {
  Number value = 0;
  for (std::size_t i = sizeof(Number); i-- > 0;) value = (value << 8U) | std::to_integer<Number>(in[at + i]);
  return value;
}

constexpr std::size_t bytes_for(std::size_t bits) { return (bits + kBitsPerByte - 1) / kBitsPerByte; }

inline void put_bits(std::vector<std::byte>& out, const std::vector<bool>& bits) {
  const std::size_t at = out.size();
  out.resize(at + bytes_for(bits.size()));
  for (std::size_t i = 0; i < bits.size(); ++i) {
    if (bits[i]) out[at + i / kBitsPerByte] |= std::byte{1} << (i % kBitsPerByte);
  }
}

inline std::vector<bool> get_bits(const std::vector<std::byte>& in, std::size_t at, std::size_t count) {
  std::vector<bool> bits(count);
  for (std::size_t i = 0; i < count; ++i) {
    bits[i] = (in[at + i / kBitsPerByte] & (std::byte{1} << (i % kBitsPerByte))) != std::byte{0};
  }
  return bits;
}

inline std::vector<std::byte> flatten(const Buffer& payload) {
  std::vector<std::byte> bytes(payload.size_bytes());
  payload.copy_to(bytes.data());
  return bytes;
}

}  // namespace square::wire
