#include "square/buffer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

using namespace square;

namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string text_of(const Buffer& buffer) {
  std::string text(buffer.size_bytes(), '\0');
  buffer.copy_to(reinterpret_cast<std::byte*>(text.data()));
  return text;
}

}  // namespace

TEST_CASE("the checksum is CRC32C") {
  // Check value of CRC-32/ISCSI in the catalogue of parametrised CRC algorithms.
  CHECK(crc32c(bytes_of("123456789")) == 0xE3069283U);
  Buffer chain = Buffer::copy_of(bytes_of("1234"));
  const Buffer rest = Buffer::copy_of(bytes_of("56789"));
  for (const auto& slice : rest.slices()) chain.append(slice);
  CHECK(crc32c(chain) == 0xE3069283U);
}

TEST_CASE("a suffix shares its owner") {
  bool released = false;
  {
    Buffer rest;
    {
      static const std::string text = "abcdef";
      std::shared_ptr<const void> owner(text.data(), [&](const void*) { released = true; });
      const Buffer whole(owner, bytes_of(text).data(), text.size());
      rest = whole.suffix(2);
    }
    CHECK_FALSE(released);
    CHECK(text_of(rest) == "cdef");
    CHECK(rest.suffix(4).size_bytes() == 0);
  }
  CHECK(released);
}

TEST_CASE("a checksum is remembered with the bytes, never without them") {
  const std::string text = "123456789";
  Buffer buffer = Buffer::copy_of(bytes_of(text));
  CHECK(buffer.checksum() == 0xE3069283U);
  buffer.remember_checksum();
  const Buffer copy = buffer;
  CHECK(copy.checksum() == 0xE3069283U);
  CHECK(buffer.checksum() == 0xE3069283U);
  // What is known is believed: who passes bytes on does not look at them again.
  Buffer received = Buffer::copy_of(bytes_of(text));
  received.remember_checksum(7);
  CHECK(Buffer(received).checksum() == 7);
  CHECK(received.range(0, 4).checksum() == crc32c(bytes_of("1234")));
  received.append(buffer.slices().front());
  CHECK(received.checksum() == crc32c(bytes_of("123456789123456789")));
}

TEST_CASE("a large copy writes every byte and none beside them, at any alignment") {
  constexpr std::size_t kBytes = (std::size_t{256} << 10U) + 4097;
  constexpr std::byte kUntouched{0xEE};
  std::vector<std::byte> source(kBytes);
  std::uint32_t state = 1;
  for (std::byte& value : source)
    value = static_cast<std::byte>((state = state * 1664525U + 1013904223U) >> 24U);
  // Slices as short as a byte and of no round length, at every place in a cache line.
  Buffer chain;
  for (std::size_t at = 0, length = 1; at < kBytes; at += length, length = 1 + (length * 7 + 13) % 16411) {
    chain.append({nullptr, source.data() + at, std::min(length, kBytes - at)});
  }
  REQUIRE(chain.size_bytes() == kBytes);
  for (std::size_t shift = 0; shift < 64; shift += 3) {
    std::vector<std::byte> destination(kBytes + 128, kUntouched);
    chain.copy_to(destination.data() + shift);
    const auto begin = destination.begin() + static_cast<std::ptrdiff_t>(shift);
    const auto end = begin + static_cast<std::ptrdiff_t>(kBytes);
    CHECK(std::equal(source.begin(), source.end(), begin));
    CHECK(std::all_of(destination.begin(), begin, [](std::byte value) { return value == kUntouched; }));
    CHECK(std::all_of(end, destination.end(), [](std::byte value) { return value == kUntouched; }));
  }
}
