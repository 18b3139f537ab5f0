#include "square/buffer.h"

#include <doctest/doctest.h>

#include <cstring>
#include <string>

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
