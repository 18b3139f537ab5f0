// What comes over a link as frames, and over a gateway's socket as messages: whatever the bytes, an answer or
// an error. libFuzzer; `make fuzz` runs it over tests/fuzz/corpus/frames.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "gateway/frame.h"
#include "square/frame.h"

namespace {

using namespace square;

void require(bool holds) {
  if (!holds) std::abort();
}

std::vector<std::byte> bytes_of(const Buffer& buffer) {
  std::vector<std::byte> bytes(buffer.size_bytes());
  buffer.copy_to(bytes.data());
  return bytes;
}

// A frame that is taken is written as the bytes that it was read from.
void parse_frames(std::span<const std::byte> bytes) {
  Buffer message = Buffer::copy_of(bytes);
  while (message.size_bytes() > 0) {
    const std::vector<std::byte> before = bytes_of(message);
    const auto frame = take_frame(message);
    if (!frame.is_ok()) return require(bytes_of(message) == before);
    const auto header = encode_header(*frame);
    const std::vector<std::byte> payload = bytes_of(frame->payload);
    require(before.size() == header.size() + payload.size() + message.size_bytes());
    require(std::ranges::equal(header, std::span(before).first(header.size())));
    require(std::ranges::equal(payload, std::span(before).subspan(header.size(), payload.size())));
  }
}

// The same of a header whose checksums are right: the fuzzer would hardly ever guess them.
void parse_sealed_frame(std::span<const std::byte> bytes) {
  Frame frame;
  if (bytes.size() < sizeof(frame.header.offset_bytes) + 16) return;
  const auto number = [&](std::size_t at) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < 8; ++i) value |= std::to_integer<std::uint64_t>(bytes[at + i]) << (8 * i);
    return value;
  };
  frame.header.type = static_cast<FrameType>(number(0) & 0xffU);
  frame.header.call = static_cast<std::uint16_t>(number(0) >> 8U);
  frame.header.element_type = static_cast<std::uint8_t>(number(0) >> 24U);
  frame.header.offset_bytes = number(8) >> 16U;
  frame.header.total_bytes = number(16) >> 16U;
  frame.header.block_bytes = static_cast<std::uint32_t>(number(16));
  frame.payload = Buffer::copy_of(bytes.subspan(24));
  const auto header = encode_header(frame);
  std::vector<std::byte> whole(header.begin(), header.end());
  whole.insert(whole.end(), bytes.begin() + 24, bytes.end());
  parse_frames(whole);
}

// A header that is taken claims no more than its type may, and says the same again.
void parse_message(std::span<const std::byte> bytes, bool is_sealed) {
  gateway::HeaderBytes head{};
  if (bytes.size() < head.size()) return;
  std::ranges::copy(bytes.first(head.size()), head.begin());
  const auto body = bytes.subspan(head.size());
  auto header = gateway::decode_header(head);
  if (!header.is_ok()) return;
  require(header->body_bytes <= gateway::max_body_bytes(header->type));
  require(!gateway::to_string(header->type).empty());
  if (header->body_bytes != body.size()) {
    if (!is_sealed) return;
    header->body_bytes = static_cast<std::uint32_t>(body.size());
  }
  const gateway::HeaderBytes right = gateway::encode_header(*header, body);
  require(gateway::check_body(right, body).is_ok());
  require(gateway::check_body(head, body).is_ok() == (right == head));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(1);
  switch (data[0] % 4) {
    case 0: parse_frames(bytes); break;
    case 1: parse_sealed_frame(bytes); break;
    case 2: parse_message(bytes, false); break;
    default: parse_message(bytes, true); break;
  }
  return 0;
}
