#include "transport/grpc/padding.h"

#include <grpcpp/support/slice.h>

#include <algorithm>
#include <array>

namespace square::rpc {
namespace {

constexpr std::array<std::byte, 4> kPaddingMagic = {std::byte{'S'}, std::byte{'Q'}, std::byte{'P'},
                                                    std::byte{'D'}};

const std::array<std::byte, kPaddingBytes>& padding_pattern() {
  static const auto kBytes = [] {
    std::array<std::byte, kPaddingBytes> made{};
    std::copy(kPaddingMagic.begin(), kPaddingMagic.end(), made.begin());
    return made;
  }();
  return kBytes;
}

}  // namespace

grpc::ByteBuffer padding(std::size_t most_bytes) {
  const std::size_t size = std::clamp(most_bytes, kMinPaddingBytes, kPaddingBytes);
  const grpc::Slice slice(padding_pattern().data(), size, grpc::Slice::STATIC_SLICE);
  return {&slice, 1};
}

bool is_padding(const Buffer& message) {
  if (message.size_bytes() < kMinPaddingBytes) return false;
  std::array<std::byte, kPaddingMagic.size()> begin{};
  message.range(0, begin.size()).copy_to(begin.data());
  return begin == kPaddingMagic;
}

}  // namespace square::rpc
