// Encoder, recoder and decoder over all fields: what comes out is what went in, or an error.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>

#include "coding/floats.h"
#include "square/decoder.h"
#include "square/encoder.h"
#include "square/recoder.h"

using namespace square;
using namespace square::test;

namespace {

using Bytes = std::vector<std::byte>;

Bytes draw_bytes(std::mt19937_64& chance, std::size_t count) {
  Bytes bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(chance());
  return bytes;
}

Bytes draw_floats(std::mt19937_64& chance, std::size_t count) {
  Bytes bytes(count * sizeof(float));
  std::normal_distribution<float> draw;
  for (std::size_t i = 0; i < count; ++i) {
    const float value = draw(chance);
    std::memcpy(bytes.data() + i * sizeof(float), &value, sizeof(float));
  }
  return bytes;
}

std::size_t draw_length(std::mt19937_64& chance) {
  constexpr std::size_t kEdges[] = {0, 1, 63, 64, 65};
  return chance() % 2 == 0 ? kEdges[chance() % std::size(kEdges)] : chance() % 5000;
}

Encoder encoder_of(const Bytes& data, std::uint32_t blocks, FieldKind field, std::uint64_t number = 0) {
  Result<Encoder> made = Encoder::make({number, field, blocks}, data);
  REQUIRE(made.is_ok());
  return *std::move(made);
}

// As it would come over a link.
CodedBlock sent(const CodedBlock& block) {
  Bytes bytes(to_bytes(block).size_bytes());
  to_bytes(block).copy_to(bytes.data());
  const Result<CodedBlock> parsed = parse_coded_block(Buffer::copy_of(bytes));
  REQUIRE_MESSAGE(parsed.is_ok(), parsed.status().to_string());
  CHECK(parsed->generation == block.generation);
  CHECK(parsed->coefficients == block.coefficients);
  return *parsed;
}

// A sum of some of `blocks`; nothing if there is nothing left of it.
std::optional<CodedBlock> mixed(std::mt19937_64& chance, const std::vector<CodedBlock>& blocks) {
  std::vector<CodedBlock> some;
  std::vector<double> coefficients;
  for (std::size_t i = 0; i < 1 + chance() % 3; ++i) {
    some.push_back(blocks[chance() % blocks.size()]);
    coefficients.push_back(static_cast<double>(1 + chance() % 255));
  }
  Result<CodedBlock> made = recode(some, coefficients);
  if (made.is_ok()) return *made;
  CHECK(made.status().message().find("no coefficient but 0") != std::string::npos);
  return std::nullopt;
}

// From the encoder over up to five nodes that mix what they have.
void round_trip(std::uint64_t drawn) {
  std::mt19937_64 chance(drawn);
  const FieldKind field = chance() % 2 == 0 ? FieldKind::kGf256 : FieldKind::kGf65536;
  const Bytes data = draw_bytes(chance, draw_length(chance));
  const auto count = static_cast<std::uint32_t>(1 + chance() % 12);
  Encoder encoder = encoder_of(data, count, field, drawn);
  Bytes decoded(data.size(), std::byte{0xee});
  Result<Decoder> decoder = Decoder::make(encoder.generation(), decoded);
  REQUIRE(decoder.is_ok());

  const std::size_t hops = chance() % 6;
  std::vector<CodedBlock> pool;
  for (std::uint32_t i = 0; i < count + 2; ++i) pool.push_back(sent(encoder.next()));
  for (std::size_t hop = 0; hop < hops; ++hop) {
    std::vector<CodedBlock> next;
    for (std::size_t i = 0; i < pool.size() + 1; ++i) {
      if (std::optional<CodedBlock> made = mixed(chance, pool)) next.push_back(sent(*made));
    }
    if (!next.empty()) pool = std::move(next);
  }
  std::ranges::shuffle(pool, chance);
  for (const CodedBlock& block : pool) REQUIRE(decoder->add(block).is_ok());
  if (decoder->rank() < count) {
    CHECK(decoder->finish().message() ==
          "not yet decodable: rank " + std::to_string(decoder->rank()) + " of " + std::to_string(count));
    // The source sends what is missing.
    while (decoder->rank() < count) REQUIRE(decoder->add(encoder.next()).is_ok());
  }
  REQUIRE(decoder->finish().is_ok());
  CHECK_MESSAGE(decoded == data, "SQUARE_SEED=", drawn);
}

}  // namespace

// 20,000 of them: under 10 s; a million in `make test-long`, fewer under a sanitizer.
TEST_CASE("data survives any mixing over finite fields, bit by bit") {
  const char* const seeds = std::getenv("SQUARE_SEEDS");
  const std::uint64_t rounds = seeds == nullptr ? 20'000 : 50 * std::strtoull(seeds, nullptr, 10);
  for (std::uint64_t i = 0; i < rounds; ++i) round_trip(seed() + i);
}

TEST_CASE("any K of the first blocks decode") {
  std::mt19937_64 chance(seed());
  for (const FieldKind field : {FieldKind::kGf256, FieldKind::kGf65536}) {
    for (int round = 0; round < 200; ++round) {
      const auto count = static_cast<std::uint32_t>(1 + chance() % 20);
      const Bytes data = draw_bytes(chance, 1 + chance() % 400);
      Encoder encoder = encoder_of(data, count, field);
      std::vector<CodedBlock> blocks;
      for (std::uint32_t i = 0; i < 2 * count + 3; ++i) blocks.push_back(encoder.next());
      std::ranges::shuffle(blocks, chance);
      Bytes decoded(data.size());
      Result<Decoder> decoder = Decoder::make(encoder.generation(), decoded);
      for (std::uint32_t i = 0; i < count; ++i) CHECK(*decoder->add(blocks[i]));
      REQUIRE(decoder->finish().is_ok());
      CHECK_MESSAGE(decoded == data, to_string(field), ", SQUARE_SEED=", seed());
    }
  }
}

TEST_CASE("the first sum adds the blocks as they are") {
  const Bytes data(64, std::byte{7});
  Encoder encoder = encoder_of(data, 4, FieldKind::kGf256);
  for (int i = 0; i < 4; ++i) CHECK(encoder.next().systematic_index() == static_cast<std::uint32_t>(i));
  CHECK(encoder.next().coefficients == std::vector<double>{1, 1, 1, 1});
}

TEST_CASE("floats come back nearly as they were, and say so where they cannot be coded") {
  std::mt19937_64 chance(seed());
  for (int round = 0; round < 300; ++round) {
    const auto count = static_cast<std::uint32_t>(2 + chance() % 6);
    const Bytes data = draw_floats(chance, count * (16 + chance() % 500));
    Encoder encoder = encoder_of(data, count, FieldKind::kFloat32, round);
    REQUIRE(encoder.generation().field == FieldKind::kFloat32);
    std::vector<CodedBlock> blocks;
    for (std::uint32_t i = 0; i < count + 4; ++i) blocks.push_back(sent(encoder.next()));
    // Two of the blocks themselves are lost.
    blocks.erase(blocks.begin(), blocks.begin() + 2);
    Bytes decoded(data.size());
    Result<Decoder> decoder = Decoder::make(encoder.generation(), decoded);
    for (const CodedBlock& block : blocks) REQUIRE(decoder->add(block).is_ok());
    // Where they would lose too many digits, others do not.
    for (int i = 0; i < 50 && decoder->rank() < count; ++i)
      REQUIRE(decoder->add(sent(encoder.next())).is_ok());
    REQUIRE_MESSAGE(decoder->finish().is_ok(), "SQUARE_SEED=", seed());
    for (std::size_t at = 0; at < data.size(); at += sizeof(float)) {
      float was;
      float is;
      std::memcpy(&was, data.data() + at, sizeof(float));
      std::memcpy(&is, decoded.data() + at, sizeof(float));
      REQUIRE(std::abs(was - is) < 1e-3F);
    }
  }
}

TEST_CASE("halves are coded as float32, and lose nothing that they have") {
  std::mt19937_64 chance(seed());
  for (const ElementType type : {ElementType::kFloat16, ElementType::kBfloat16}) {
    // Of exponents that are near one another: float32 has digits to lose that halves do not have.
    Bytes data = draw_bytes(chance, 2 * 12'345);
    for (std::size_t at = 1; at < data.size(); at += 2)
      data[at] = (data[at] & std::byte{0x83}) | std::byte{0x38};
    Result<Encoder> encoder = Encoder::make({7, FieldKind::kFloat32, 5, type}, data);
    REQUIRE(encoder.is_ok());
    CHECK(encoder->generation().field == FieldKind::kFloat32);
    CHECK(encoder->generation().data_bytes == 2 * data.size());
    Bytes decoded(data.size());
    Result<Decoder> decoder = Decoder::make(encoder->generation(), decoded, type);
    REQUIRE(decoder.is_ok());
    for (int i = 0; i < 2; ++i) static_cast<void>(encoder->next());  // lost
    for (int i = 0; i < 50 && decoder->rank() < 5; ++i) REQUIRE(decoder->add(sent(encoder->next())).is_ok());
    REQUIRE_MESSAGE(decoder->finish().is_ok(), "SQUARE_SEED=", seed());
    CHECK_MESSAGE(decoded == data, "SQUARE_SEED=", seed());
    CHECK_FALSE(Decoder::make(encoder->generation(), decoded).is_ok());
    // Infinity: as they are.
    data[0] = std::byte{0};
    data[1] = type == ElementType::kFloat16 ? std::byte{0x7c} : std::byte{0x7f};
    if (type == ElementType::kBfloat16) data[0] = std::byte{0x80};
    encoder = Encoder::make({8, FieldKind::kFloat32, 5, type}, data);
    CHECK(encoder->generation().field == FieldKind::kGf256);
    CHECK(encoder->generation().data_bytes == data.size());
    decoder = Decoder::make(encoder->generation(), decoded, type);
    REQUIRE(decoder.is_ok());
    static_cast<void>(encoder->next());
    for (int i = 0; i < 5; ++i) REQUIRE(decoder->add(sent(encoder->next())).is_ok());
    REQUIRE(decoder->finish().is_ok());
    CHECK(decoded == data);
  }
  CHECK_FALSE(Encoder::make({0, FieldKind::kFloat32, 2, ElementType::kFloat64}, Bytes(64)).is_ok());
  CHECK_FALSE(Encoder::make({0, FieldKind::kFloat32, 2, ElementType::kFloat16}, Bytes(63)).is_ok());
}

TEST_CASE("a sum that floats cannot be solved with counts as nothing new") {
  std::mt19937_64 chance(seed());
  const Bytes data = draw_floats(chance, 64);
  Encoder encoder = encoder_of(data, 2, FieldKind::kFloat32);
  Bytes decoded(data.size());
  Result<Decoder> decoder = Decoder::make(encoder.generation(), decoded);
  CHECK(*decoder->add(*encoder.coded(std::vector<double>{1, 1})));
  CHECK_FALSE(*decoder->add(*encoder.coded(std::vector<double>{1, 1 + 1.0 / 1024})));
  CHECK(decoder->finish().message() == "not yet decodable: rank 1 of 2");
  CHECK(*decoder->add(*encoder.coded(std::vector<double>{1, -1})));
  CHECK(decoder->finish().is_ok());
}

TEST_CASE("floats that sums would spoil are coded as bytes, and every NaN stays what it is") {
  std::mt19937_64 chance(seed());
  const auto with = [&](std::size_t index, float value) {
    Bytes data = draw_floats(chance, 64);
    std::memcpy(data.data() + index * sizeof(float), &value, sizeof(float));
    return data;
  };
  Bytes scales = draw_floats(chance, 64);
  for (std::size_t i = 0; i < 32; ++i) {
    const float small = 1e-6F;
    std::memcpy(scales.data() + i * sizeof(float), &small, sizeof(float));
  }
  const auto all = [&](float value) {
    Bytes data(64 * sizeof(float));
    for (std::size_t i = 0; i < 64; ++i) std::memcpy(data.data() + i * sizeof(float), &value, sizeof(float));
    return data;
  };
  for (const Bytes& data : {with(3, kInfinity), with(63, kNan), with(17, -kNan), with(0, 1e9F), scales,
                            all(-kLargest), all(kDenormal)}) {
    Encoder encoder = encoder_of(data, 2, FieldKind::kFloat32);
    CHECK(encoder.generation().field == FieldKind::kGf256);
    Bytes decoded(data.size());
    Result<Decoder> decoder = Decoder::make(encoder.generation(), decoded);
    static_cast<void>(encoder.next());
    for (int i = 0; i < 2; ++i) CHECK(*decoder->add(sent(encoder.next())));
    REQUIRE(decoder->finish().is_ok());
    CHECK(decoded == data);
  }
}

TEST_CASE("a recoder keeps what is new and mixes it") {
  std::mt19937_64 chance(seed());
  const Bytes data = draw_bytes(chance, 1000);
  Encoder encoder = encoder_of(data, 5, FieldKind::kGf256, 3);
  Result<Recoder> recoder = Recoder::make(encoder.generation());
  CHECK(recoder->next().status().code() == StatusCode::kFailedPrecondition);
  CHECK_FALSE(Recoder::make({0, FieldKind::kGf256, 0, 0}).is_ok());
  for (std::uint32_t i = 0; i < 5; ++i) {
    const CodedBlock block = encoder.next();
    CHECK(*recoder->add(block));
    CHECK_FALSE(*recoder->add(block));
    CHECK(recoder->rank() == i + 1);
  }
  Encoder other = encoder_of(data, 5, FieldKind::kGf256, 4);
  CHECK_FALSE(recoder->add(other.next()).is_ok());
  Bytes decoded(data.size());
  Result<Decoder> decoder = Decoder::make(encoder.generation(), decoded);
  // Random sums of five over 256 elements depend on one another once in 250 times.
  for (int i = 0; i < 10; ++i) REQUIRE(decoder->add(sent(*recoder->next(17))).is_ok());
  REQUIRE(decoder->finish().is_ok());
  CHECK(decoded == data);
  CHECK(recoder->coded(std::vector<double>{0, 0, 1, 0, 0})->systematic_index() == 2);
}

TEST_CASE("bad blocks are errors, and change nothing") {
  std::mt19937_64 chance(seed());
  const Bytes data = draw_bytes(chance, 100);
  Encoder encoder = encoder_of(data, 3, FieldKind::kGf256);
  Bytes decoded(data.size());
  Result<Decoder> decoder = Decoder::make(encoder.generation(), decoded);
  const auto refused = [&](const CodedBlock& block, const char* because) {
    const auto added = decoder->add(block);
    REQUIRE_FALSE(added.is_ok());
    CHECK(added.status().code() == StatusCode::kInvalidArgument);
    CHECK_MESSAGE(added.status().message().find(because) != std::string::npos, added.status().message());
    CHECK(decoder->rank() == 0);
  };
  CodedBlock block = *encoder.coded(std::vector<double>{1, 2, 3});
  CodedBlock bad = block;
  bad.coefficients.push_back(1);
  refused(bad, "4 coefficients");
  bad = block;
  bad.coefficients[1] = 256;
  refused(bad, "no number");
  bad.coefficients = {0, 0, 0};
  refused(bad, "nothing in it");
  bad = block;
  bad.payload = bad.payload.range(0, 5);
  refused(bad, "5 bytes, not 34");
  bad = block;
  bad.generation.number = 9;
  refused(bad, "generation 9");
  CHECK_FALSE(encoder.coded(std::vector<double>{0, 0, 0}).is_ok());
  CHECK_FALSE(encoder.coded(std::vector<double>{1, 2}).is_ok());
  CHECK_FALSE(encoder.coded(std::vector<double>{1, 0.5, 2}).is_ok());
  CHECK_FALSE(Encoder::make({0, FieldKind::kGf256, 0}, data).is_ok());
  CHECK_FALSE(Encoder::make({0, FieldKind::kGf256, 257}, data).is_ok());
  CHECK_FALSE(Encoder::make({0, static_cast<FieldKind>(9), 2}, data).is_ok());
  CHECK_FALSE(Encoder::make({0, FieldKind::kFloat32, 2}, std::span(data).first(99)).is_ok());
  CHECK_FALSE(Decoder::make(encoder.generation(), std::span(decoded).first(99)).is_ok());
  CHECK_FALSE(recode({}, {}).is_ok());
  const std::vector<CodedBlock> two{block, block};
  CHECK_FALSE(recode(two, std::vector<double>{1}).is_ok());
  CHECK_FALSE(recode(two, std::vector<double>{1, -1}).is_ok());
  // The same twice is nothing over bytes.
  CHECK_FALSE(recode(two, std::vector<double>{1, 1}).is_ok());
  // More blocks than K, and the same again, are no errors: there is nothing new in them.
  CHECK(*decoder->add(block));
  CHECK_FALSE(*decoder->add(block));
  for (int i = 0; i < 3; ++i) REQUIRE(decoder->add(encoder.next()).is_ok());
  CHECK(decoder->rank() == 3);
  CHECK_FALSE(*decoder->add(encoder.next()));
  REQUIRE(decoder->finish().is_ok());
  CHECK(decoded == data);
}

TEST_CASE("any change of a block's bytes is noticed") {
  std::mt19937_64 chance(seed());
  const Bytes data = draw_bytes(chance, 50);
  for (const FieldKind field : {FieldKind::kGf256, FieldKind::kGf65536}) {
    Encoder encoder = encoder_of(data, 4, field);
    for (int number = 0; number < 6; ++number) {
      const Buffer whole = to_bytes(encoder.next());
      Bytes bytes(whole.size_bytes());
      whole.copy_to(bytes.data());
      for (std::size_t at = 0; at < bytes.size(); ++at) {
        Bytes changed = bytes;
        changed[at] ^= static_cast<std::byte>(1U << (chance() % 8));
        CHECK_FALSE(parse_coded_block(Buffer::copy_of(changed)).is_ok());
        CHECK_FALSE(parse_coded_block(Buffer::copy_of(std::span(bytes).first(at))).is_ok());
      }
      bytes.push_back(std::byte{0});
      CHECK_FALSE(parse_coded_block(Buffer::copy_of(bytes)).is_ok());
    }
  }
}
