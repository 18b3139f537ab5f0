#include "square/frame.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <limits>
#include <random>
#include <string>
#include <vector>

using namespace square;

namespace {

constexpr std::size_t kPayloadBytesAt = 8;  // docs/wire.md
constexpr std::size_t kHeaderCrcAt = 92;

std::uint64_t test_seed() {
  const char* given = std::getenv("SQUARE_SEED");
  const std::uint64_t seed = given != nullptr ? std::stoull(given) : std::random_device{}();
  MESSAGE("SQUARE_SEED=" << seed);
  return seed;
}

std::vector<std::byte> random_bytes(std::mt19937_64& random, std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

FrameHeader some_header() {
  return {.type = FrameType::kAck,
          .epoch = Epoch(0x01020304),
          .origin = OriginTag(0xb4b3b2b1),
          .session = SessionId(0x05060708),
          .stream = StreamIndex(0x090a),
          .operation = OperationId(0x1112131415161718),
          .incarnation = 0x191a1b1c,
          .attempt = 0x21222324,
          .layout = Epoch(0xa4a3a2a1),
          .element_type = 0x91,
          .reduce_op = 0x92,
          .offset_bytes = 0x313233343536,
          .total_bytes = 0x414243444546,
          .block_bytes = 0x51525354,
          .stream_sequence = 0x6162636465666768,
          .hop_sequence = 0x7172737475767778,
          .link_sequence = 0x8182838485868788};
}

std::vector<std::byte> bytes_of(const Frame& frame) {
  const auto header = encode_header(frame);
  std::vector<std::byte> bytes(header.begin(), header.end());
  bytes.resize(header.size() + frame.payload.size_bytes());
  frame.payload.copy_to(bytes.data() + header.size());
  return bytes;
}

std::vector<std::byte> bytes_of(const Buffer& buffer) {
  std::vector<std::byte> bytes(buffer.size_bytes());
  buffer.copy_to(bytes.data());
  return bytes;
}

void put_u32(std::vector<std::byte>& bytes, std::size_t at, std::uint32_t value) {
  for (std::size_t i = 0; i < 4; ++i) bytes[at + i] = static_cast<std::byte>(value >> (8 * i));
}

// Makes the header's checksum true again after a change: a liar, not an accident.
void reseal(std::vector<std::byte>& bytes) {
  put_u32(bytes, kHeaderCrcAt, 0);
  put_u32(bytes, kHeaderCrcAt, crc32c(std::span(bytes).first(kFrameHeaderBytes)));
}

// A message of one frame and nothing else.
Result<Frame> decode_frame(Buffer message) {
  Result<Frame> frame = take_frame(message);
  if (frame.is_ok() && message.size_bytes() > 0) return data_loss("there is something behind the frame");
  return frame;
}

void check_rejected(const std::vector<std::byte>& bytes) {
  const auto frame = decode_frame(Buffer::copy_of(bytes));
  REQUIRE_FALSE(frame.is_ok());
  REQUIRE(frame.status().code() == StatusCode::kDataLoss);
}

}  // namespace

TEST_CASE("a frame's header is laid out as docs/wire.md draws it") {
  Frame frame{some_header(), Buffer::copy_of(std::vector<std::byte>(3, std::byte{0xAA}))};
  frame.header.is_sealed = true;
  const auto header = encode_header(frame);
  const std::string expected =
      "5351465205850a09"  // magic, layout 5, type 5 and sealed, stream
      "03000000"          // payload bytes
      "0403020108070605"  // epoch, session
      "1c1b1a19"          // incarnation
      "2423222154535251"  // attempt, block bytes
      "1817161514131211"  // operation
      "363534333231"      // offset
      "464544434241"      // total
      "b1b2b3b4"          // origin
      "6867666564636261"  // stream sequence
      "7877767574737271"  // hop sequence
      "8887868584838281"  // link sequence
      "91920000a1a2a3a4"  // element type, operation, zeros, layout
      ;
  std::string hex;
  for (std::size_t i = 0; i < 88; ++i) {
    constexpr char kDigits[] = "0123456789abcdef";
    hex += kDigits[std::to_integer<unsigned>(header[i]) >> 4U];
    hex += kDigits[std::to_integer<unsigned>(header[i]) & 0xfU];
  }
  CHECK(hex == expected);
}

TEST_CASE("a frame comes back as it was, however its message is cut into slices") {
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 200; ++round) {
    Frame frame{some_header(), Buffer::copy_of(random_bytes(random, random() % 3000))};
    frame.header.type = static_cast<FrameType>(1 + random() % 6);
    frame.header.is_sealed = random() % 2 == 0;
    frame.header.is_audited = random() % 2 == 0;
    frame.header.hop_sequence = random();
    const auto bytes = bytes_of(frame);
    Buffer message;
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t run = std::min<std::size_t>(1 + random() % 200, bytes.size() - at);
      const Buffer piece = Buffer::copy_of(std::span(bytes).subspan(at, run));
      message.append(piece.slices().front());
      at += run;
    }
    const auto decoded = decode_frame(message);
    REQUIRE(decoded.is_ok());
    REQUIRE(decoded.status().is_ok());
    auto copy = decoded;
    REQUIRE(copy->header == frame.header);
    REQUIRE(bytes_of(copy->payload) == bytes_of(frame.payload));
  }
}

TEST_CASE("frames of one message come one after the other, and what is damaged stays in place") {
  std::mt19937_64 random(test_seed());
  std::vector<std::vector<std::byte>> payloads;
  std::vector<std::byte> bytes;
  for (const std::size_t size : {0, 1, 700, 0, 8192}) {
    payloads.push_back(random_bytes(random, size));
    const auto more = bytes_of(Frame{some_header(), Buffer::copy_of(payloads.back())});
    bytes.insert(bytes.end(), more.begin(), more.end());
  }
  bytes.back() ^= std::byte{1};
  Buffer message = Buffer::copy_of(bytes);
  for (std::size_t i = 0; i + 1 < payloads.size(); ++i) {
    auto frame = take_frame(message);
    REQUIRE(frame.is_ok());
    CHECK(bytes_of(frame->payload) == payloads[i]);
  }
  CHECK(message.size_bytes() == kFrameHeaderBytes + 8192);
  CHECK(take_frame(message).status().code() == StatusCode::kDataLoss);
  CHECK(message.size_bytes() == kFrameHeaderBytes + 8192);
}

TEST_CASE("extreme fields and the largest payload survive") {
  Frame frame;
  frame.header = {.type = FrameType::kBlock,
                  .epoch = Epoch(std::numeric_limits<std::uint32_t>::max()),
                  .origin = OriginTag(std::numeric_limits<std::uint32_t>::max()),
                  .session = SessionId(std::numeric_limits<std::uint32_t>::max()),
                  .stream = StreamIndex(std::numeric_limits<std::uint16_t>::max()),
                  .operation = OperationId(std::numeric_limits<std::uint64_t>::max()),
                  .incarnation = std::numeric_limits<std::uint32_t>::max(),
                  .attempt = std::numeric_limits<std::uint32_t>::max(),
                  .offset_bytes = (std::uint64_t{1} << 48U) - 1,
                  .total_bytes = (std::uint64_t{1} << 48U) - 1,
                  .block_bytes = std::numeric_limits<std::uint32_t>::max(),
                  .stream_sequence = std::numeric_limits<std::uint64_t>::max(),
                  .hop_sequence = std::numeric_limits<std::uint64_t>::max()};
  frame.payload = Buffer::copy_of(std::vector<std::byte>(kMaxPayloadBytes, std::byte{7}));
  auto decoded = decode_frame(Buffer::copy_of(bytes_of(frame)));
  REQUIRE(decoded.is_ok());
  CHECK(decoded->header == frame.header);
  CHECK(decoded->payload.size_bytes() == kMaxPayloadBytes);
}

TEST_CASE("the payload of a decoded frame shares the message's memory") {
  const Frame frame{some_header(), Buffer::copy_of(std::vector<std::byte>(100, std::byte{1}))};
  const Buffer message = Buffer::copy_of(bytes_of(frame));
  auto decoded = decode_frame(message);
  REQUIRE(decoded.is_ok());
  CHECK(decoded->payload.slices().front().data == message.slices().front().data + kFrameHeaderBytes);
}

TEST_CASE("every flipped bit is noticed") {
  const Frame frame{some_header(), Buffer::copy_of(std::vector<std::byte>(50, std::byte{0x5A}))};
  const auto intact = bytes_of(frame);
  for (std::size_t bit = 0; bit < intact.size() * 8; ++bit) {
    auto damaged = intact;
    damaged[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    CAPTURE(bit);
    check_rejected(damaged);
  }
}

TEST_CASE("every truncation and every surplus byte is noticed") {
  const Frame frame{some_header(), Buffer::copy_of(std::vector<std::byte>(50, std::byte{0x5A}))};
  const auto intact = bytes_of(frame);
  for (std::size_t size = 0; size < intact.size(); ++size) {
    check_rejected({intact.begin(), intact.begin() + static_cast<std::ptrdiff_t>(size)});
  }
  auto longer = intact;
  longer.push_back(std::byte{0});
  check_rejected(longer);
}

TEST_CASE("a header that lies under a true checksum is rejected") {
  const Frame frame{some_header(), Buffer::copy_of(std::vector<std::byte>(50, std::byte{0x5A}))};
  const auto intact = bytes_of(frame);
  auto same = intact;
  reseal(same);
  CHECK(same == intact);
  for (const std::uint32_t lie : {0U, 49U, 51U, 0x00100001U, 0xFFFFFFFFU, 0x80000000U}) {
    auto bytes = intact;
    put_u32(bytes, kPayloadBytesAt, lie);
    reseal(bytes);
    CAPTURE(lie);
    check_rejected(bytes);
  }
  const std::vector<std::pair<std::size_t, int>> lies = {{4, 0}, {4, 4}, {4, 6}, {5, 0}, {5, 9}, {5, 255}};
  for (const auto& [at, value] : lies) {
    auto bytes = intact;
    bytes[at] = static_cast<std::byte>(value);
    reseal(bytes);
    CAPTURE(at);
    CAPTURE(value);
    check_rejected(bytes);
  }
}

TEST_CASE("a payload past the limit is rejected even if everything else is true") {
  const Frame frame{some_header(), Buffer()};
  auto bytes = bytes_of(frame);
  bytes.resize(kFrameHeaderBytes + kMaxPayloadBytes + 1);
  put_u32(bytes, kPayloadBytesAt, kMaxPayloadBytes + 1);
  put_u32(bytes, 72, crc32c(std::span(bytes).subspan(kFrameHeaderBytes)));
  reseal(bytes);
  check_rejected(bytes);
}

TEST_CASE("random bytes are rejected") {
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 20'000; ++round) {
    auto bytes = random_bytes(random, random() % 300);
    if (round % 2 == 0 && bytes.size() >= kFrameHeaderBytes) {
      // Past the magic and the checksum, where a decoder might begin to believe.
      const auto header = encode_header(Frame{});
      std::copy(header.begin(), header.begin() + 4, bytes.begin());
      reseal(bytes);
    }
    check_rejected(bytes);
  }
}
