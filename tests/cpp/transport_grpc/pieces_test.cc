// Messages in pieces, and whole again.
#include "transport/grpc/pieces.h"

#include <doctest/doctest.h>

#include <random>

#include "recorder.h"
#include "transport/grpc/message.h"

using namespace square;
using namespace square::rpc;

namespace {

std::vector<std::byte> random_bytes(std::size_t count, std::mt19937_64& random) {
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

// A message of several slices.
grpc::ByteBuffer message_of(const std::vector<std::byte>& bytes, std::mt19937_64& random) {
  std::vector<grpc::Slice> slices;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t size = std::min(bytes.size() - at, 1 + static_cast<std::size_t>(random() % 5000));
    slices.emplace_back(bytes.data() + at, size);
    at += size;
  }
  return {slices.data(), slices.size()};
}

std::vector<std::byte> bytes_of(const Buffer& buffer) {
  std::vector<std::byte> bytes(buffer.size_bytes());
  buffer.copy_to(bytes.data());
  return bytes;
}

Buffer received(grpc::ByteBuffer message) { return from_message(message).value(); }

Buffer piece(std::size_t rest, std::size_t size) {
  std::vector<std::byte> bytes(kPieceHeaderBytes + size);
  const char* magic = "SQLP";
  for (std::size_t i = 0; i < 4; ++i) {
    bytes[i] = static_cast<std::byte>(magic[i]);
    bytes[4 + i] = static_cast<std::byte>(rest >> (8 * i));
  }
  return Buffer::copy_of(bytes);
}

}  // namespace

TEST_CASE("pieces of any size are the message again") {
  std::mt19937_64 random(square::testing::test_seed());
  OutgoingPieces outgoing;
  IncomingPieces incoming;
  for (int i = 0; i < 200; ++i) {
    const auto bytes = random_bytes(1 + random() % 40'000, random);
    outgoing.start(message_of(bytes, random));
    std::optional<Buffer> whole;
    while (!outgoing.is_empty()) {
      REQUIRE_FALSE(whole.has_value());
      const std::size_t most = 1 + random() % 20'000;
      grpc::ByteBuffer next = outgoing.take(most);
      CHECK(next.Length() <= most + kPieceHeaderBytes);
      whole = incoming.put(received(std::move(next))).value();
    }
    REQUIRE(whole.has_value());
    CHECK(bytes_of(*whole) == bytes);
  }
}

TEST_CASE("what fits goes whole, without a header") {
  std::mt19937_64 random(square::testing::test_seed());
  OutgoingPieces outgoing;
  outgoing.start(message_of(random_bytes(1000, random), random));
  CHECK(outgoing.take(1000).Length() == 1000);
  CHECK(outgoing.is_empty());
}

TEST_CASE("pieces that do not fit together are refused") {
  const auto refused = [](const std::vector<Buffer>& pieces) {
    IncomingPieces incoming;
    for (std::size_t i = 0; i + 1 < pieces.size(); ++i) REQUIRE(incoming.put(pieces[i]).is_ok());
    return incoming.put(pieces.back()).status().code() == StatusCode::kDataLoss;
  };
  CHECK(refused({piece(100, 50), piece(20, 50)}));
  CHECK(refused({piece(100, 50), Buffer::copy_of(std::vector<std::byte>(100))}));
  CHECK(refused({piece(100, 50), piece(0, 150)}));
  CHECK(refused({piece(0, 0)}));
  CHECK(refused({piece(kMaxFrameBytes, 1)}));
  CHECK(refused({piece(0xffffffff, 1)}));
  CHECK(refused({piece(kMaxFrameBytes - 10, 10), piece(kMaxFrameBytes - 10, 0)}));
}

TEST_CASE("no piece is more than the largest message, however much room there is") {
  std::mt19937_64 random(square::testing::test_seed());
  const auto bytes = random_bytes(kMaxFrameBytes, random);
  for (const std::size_t less : {std::size_t{0}, std::size_t{1}, kPieceHeaderBytes, kPieceHeaderBytes + 1}) {
    OutgoingPieces outgoing;
    outgoing.start(message_of(bytes, random));
    while (!outgoing.is_empty()) CHECK(outgoing.take(kMaxFrameBytes - less).Length() <= kMaxFrameBytes);
  }
}
