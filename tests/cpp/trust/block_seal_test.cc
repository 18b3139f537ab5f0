// Blocks that are sealed: what opens, and what does not.
#include "trust/block_seal.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <random>
#include <set>
#include <string>
#include <vector>

using namespace square;
using namespace square::trust;

namespace {

GroupKeyPtr key_of(int seed) {
  GroupKey::Bytes bytes;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(seed + static_cast<int>(i));
  return std::make_shared<const GroupKey>(bytes);
}

SealedCargo some_cargo() { return {"job#7", "fra", 11, 5, 42, 3, 100'000, 8'192}; }

std::vector<std::byte> flat(const Buffer& buffer) {
  std::vector<std::byte> bytes(buffer.size_bytes());
  buffer.copy_to(bytes.data());
  return bytes;
}

Buffer random_buffer(std::mt19937_64& random, std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return Buffer::copy_of(bytes);
}

std::uint64_t seed() {
  const char* text = std::getenv("SQUARE_SEED");
  return text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
}

}  // namespace

TEST_CASE("what was sealed opens, in whatever pieces it comes, and sealing it again gives the same bytes") {
  std::mt19937_64 random(seed());
  MESSAGE("seed " << seed());
  const BlockCipher source(*key_of(1), some_cargo(), BlockCipher::draw_salt());
  const BlockOpener opener(key_of(1), some_cargo());
  CHECK_FALSE(opener.seal_again(0, Buffer()).has_value());
  for (std::size_t block = 0; block < 50; ++block) {
    const Buffer data = random_buffer(random, random() % 5'000);
    const Buffer sealed = source.seal(block, data);
    REQUIRE(sealed.size_bytes() == data.size_bytes() + kSealBytes);
    const std::size_t cut = random() % (sealed.size_bytes() + 1);
    Buffer pieces;
    for (const Buffer& part : {sealed.range(0, cut), sealed.suffix(cut)}) {
      for (const Buffer::Slice& slice : part.slices()) pieces.append(slice);
    }
    const auto opened = opener.open(block, pieces);
    REQUIRE(opened.has_value());
    CHECK(flat(*opened) == flat(data));
    CHECK(flat(opener.seal_again(block, data).value()) == flat(sealed));
  }
}

TEST_CASE("a bit that changed anywhere, another length and another block do not open") {
  std::mt19937_64 random(seed());
  MESSAGE("seed " << seed());
  const BlockCipher source(*key_of(1), some_cargo(), BlockCipher::draw_salt());
  const BlockOpener opener(key_of(1), some_cargo());
  const Buffer sealed = source.seal(9, random_buffer(random, 300));
  for (std::size_t bit = 0; bit < 8 * sealed.size_bytes(); ++bit) {
    std::vector<std::byte> changed = flat(sealed);
    changed[bit / 8] ^= std::byte{1} << (bit % 8);
    REQUIRE_FALSE(opener.open(9, Buffer::copy_of(changed)).has_value());
  }
  for (std::size_t size = 0; size < sealed.size_bytes(); ++size)
    REQUIRE_FALSE(opener.open(9, sealed.range(0, size)).has_value());
  CHECK_FALSE(opener.open(8, sealed).has_value());
  CHECK(opener.open(9, sealed).has_value());
}

TEST_CASE("nothing of another group, source, process, session, operation, layout, size or key opens") {
  const Buffer data = Buffer::copy_of(std::vector<std::byte>(64, std::byte{7}));
  const SealedCargo right = some_cargo();
  std::vector<SealedCargo> others(8, right);
  others[0].group = "job#8";
  others[1].source = "lon";
  others[2].incarnation += 1;
  others[3].session += 1;
  others[4].operation += 1;
  others[5].layout += 1;
  others[6].total_bytes += 1;
  others[7].block_bytes *= 2;
  const BlockOpener opener(key_of(1), right);
  for (const SealedCargo& other : others) {
    const BlockCipher source(*key_of(1), other, BlockCipher::draw_salt());
    CHECK_FALSE(opener.open(0, source.seal(0, data)).has_value());
  }
  const BlockCipher stranger(*key_of(2), right, BlockCipher::draw_salt());
  CHECK_FALSE(opener.open(0, stranger.seal(0, data)).has_value());
  // Names that run into one another are others.
  SealedCargo shifted = right;
  shifted.group = "job#7f";
  shifted.source = "ra";
  const BlockCipher moved(*key_of(1), shifted, BlockCipher::draw_salt());
  CHECK_FALSE(opener.open(0, moved.seal(0, data)).has_value());
}

TEST_CASE("a source that begins anew seals alike things differently, and both open") {
  const Buffer data = Buffer::copy_of(std::vector<std::byte>(64, std::byte{7}));
  const BlockOpener opener(key_of(1), some_cargo());
  std::set<std::vector<std::byte>> seen;
  for (int round = 0; round < 20; ++round) {
    const BlockCipher source(*key_of(1), some_cargo(), BlockCipher::draw_salt());
    const Buffer sealed = source.seal(0, data);
    CHECK(seen.insert(flat(sealed)).second);
    CHECK(flat(opener.open(0, sealed).value()) == flat(data));
  }
}
