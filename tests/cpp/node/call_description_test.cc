// What members called, as one value.
#include "node/messages/call_description.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

using namespace square;

namespace {

const CallDescription kRing{{CallKind::kRingAllReduce, 6},
                            {ElementType::kFloat32, ReduceOp::kSum},
                            0x1112131415161718,
                            0x21222324,
                            {}};

CallDescription compressed(Compression compression) {
  return {
      {CallKind::kCompressedAllReduce, 0}, {ElementType::kFloat32, ReduceOp::kAverage}, 400, 3, compression};
}

std::string hex(const CallDescriptionBytes& bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes) {
    text += kDigits[std::to_integer<unsigned>(byte) >> 4U];
    text += kDigits[std::to_integer<unsigned>(byte) & 0xfU];
  }
  return text;
}

Status compare(const CallDescription& one, const CallDescription& other) {
  return compare_calls({"rank 1", one}, {"rank 0", other});
}

}  // namespace

TEST_CASE("a description is laid out as docs/wire.md draws it") {
  CHECK(hex(encode(kRing)) ==
        "06a0"              // call 6, kind 10
        "0101"              // float32, sum
        "24232221"          // group size
        "1817161514131211"  // bytes
        "0000000000000000"  // no compression
        "0000000000000000");
  CHECK(hex(encode(compressed(Compression::int8(256)))) ==
        "00b0010503000000"
        "9001000000000000"
        "0200000000010000"
        "0000000000000000");
  CHECK(hex(encode(compressed(Compression::top_k(0.25)))) ==
        "00b0010503000000"
        "9001000000000000"
        "0300000000000000"
        "000000000000d03f");
}

TEST_CASE("what is decoded is what was encoded, of any bytes") {
  std::mt19937_64 random(11);
  for (int round = 0; round < 2'000; ++round) {
    CallDescriptionBytes bytes;
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    bytes[16] = static_cast<std::byte>(random() % 5);
    const CallDescription decoded = decode_call_description(bytes);
    const CallDescriptionBytes again = encode(decoded);
    CHECK(std::equal(bytes.begin(), bytes.begin() + 17, again.begin()));
    CHECK(encode(decode_call_description(again)) == again);
    CHECK_FALSE(to_string(decoded).empty());
  }
}

TEST_CASE("members that differ are told what both called, in one form") {
  CHECK(compare(kRing, kRing).is_ok());
  CallDescription other = kRing;
  other.size_bytes = 400;
  other.group_size = 0;
  CHECK(compare(kRing, other).message() ==
        "members must call the same: rank 1 called ring all_reduce (call 7 of the group) of "
        "1230066625199609624 bytes of float32 (sum) in a group of 555885348, rank 0 called ring all_reduce "
        "(call 7 of the group) of 400 bytes of float32 (sum)");
  CHECK(compare(kRing, other).code() == StatusCode::kInvalidArgument);
  const auto differs = [](auto&& change) {
    CallDescription changed = kRing;
    change(changed);
    return !compare(kRing, changed).is_ok() && !compare(changed, kRing).is_ok();
  };
  CHECK(differs([](CallDescription& it) { it.call.kind = CallKind::kAllReduce; }));
  CHECK(differs([](CallDescription& it) { it.call.number = 7; }));
  CHECK(differs([](CallDescription& it) { it.reduction.op = ReduceOp::kMax; }));
  CHECK(differs([](CallDescription& it) { it.reduction.type = ElementType::kInt32; }));
  CHECK(differs([](CallDescription& it) { ++it.size_bytes; }));
  CHECK(differs([](CallDescription& it) { ++it.group_size; }));
  CHECK(differs([](CallDescription& it) { it.compression = Compression::bfloat16(); }));
}

TEST_CASE("of a compression only what its kind uses is compared, and not whether a residual is kept") {
  const auto same = [](Compression one, Compression other) {
    return compare(compressed(one), compressed(other)).is_ok();
  };
  CHECK(same(Compression::int8(256), Compression::int8(256, true)));
  CHECK_FALSE(same(Compression::int8(256), Compression::int8(128)));
  CHECK(same(Compression::top_k(0.1), Compression::top_k(0.1, false)));
  CHECK_FALSE(same(Compression::top_k(0.1), Compression::top_k(0.2)));
  CHECK_FALSE(same(Compression::top_k(), Compression::int8()));
  Compression odd = Compression::bfloat16();
  odd.block = 7;
  odd.fraction = 0.5;
  CHECK(same(Compression::bfloat16(), odd));
  CHECK(
      compare(compressed(Compression::int8(256, true)), compressed(Compression::top_k(0.1, false)))
          .message() ==
      "members must call the same: rank 1 called compressed all_reduce (call 1 of the group) of 400 bytes of "
      "float32 (average) as int8:256 in a group of 3, rank 0 called compressed all_reduce (call 1 of the "
      "group) of 400 bytes of float32 (average) as top-k:0.1 in a group of 3");
}
