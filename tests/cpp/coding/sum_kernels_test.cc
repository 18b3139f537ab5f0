// Every type of elements and every operation, against a reference that adds one element at a time.
#include "coding/sum_kernels.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "coding/floats.h"
#include "coding/sum.h"

using namespace square;
using namespace square::test;

namespace {

constexpr int kTypes = 13;
constexpr int kOperations = 8;
// Of sum.cc: sizes around it are the ones that may go wrong.
constexpr std::size_t kTileBytes = std::size_t{8} << 10U;

std::vector<Reduction> all_reductions() {
  std::vector<Reduction> all;
  for (int type = 1; type <= kTypes; ++type) {
    for (int op = 1; op <= kOperations; ++op) {
      const Reduction reduction{static_cast<ElementType>(type), static_cast<ReduceOp>(op)};
      if (check_reduction(reduction).is_ok()) all.push_back(reduction);
    }
  }
  return all;
}

std::vector<Arithmetic> arithmetics(Reduction reduction) {
  std::vector<Arithmetic> all;
  for (const InstructionSet set : available_instruction_sets()) all.push_back(arithmetic_of(reduction, set));
  return all;
}

// A small floating point format, by its definition: exponents below `least` are subnormal.
struct Format {
  int fraction_bits;
  int exponent_bits;
  int least;
  [[nodiscard]] std::uint32_t infinity() const { return ((1U << exponent_bits) - 1) << fraction_bits; }
};
constexpr Format kHalf{10, 5, -14};
constexpr Format kBrain{7, 8, -126};

float decode(const Format& format, std::uint16_t bits) {
  const bool is_negative = (bits & 0x8000U) != 0;
  const std::uint32_t magnitude = bits & 0x7fffU;
  if (magnitude >= format.infinity()) {
    const std::uint32_t fraction = (magnitude - format.infinity()) << (23 - format.fraction_bits);
    return std::bit_cast<float>((is_negative ? 0xff80'0000U : 0x7f80'0000U) | fraction);
  }
  const auto exponent = static_cast<int>(magnitude >> format.fraction_bits);
  const std::uint32_t fraction = magnitude & ((1U << format.fraction_bits) - 1);
  const double scaled = exponent == 0 ? fraction : fraction + (1U << format.fraction_bits);
  const double value = std::ldexp(scaled, format.least + std::max(exponent, 1) - 1 - format.fraction_bits);
  return static_cast<float>(is_negative ? -value : value);
}

// To the nearest, of two to the even one; a NaN keeps the upper part of its fraction and is quiet.
std::uint16_t encode(const Format& format, float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 31U << 15U;
  if (std::isnan(value)) {
    const std::uint32_t fraction = (bits & 0x7f'ffffU) >> (23 - format.fraction_bits);
    const std::uint32_t quiet = 1U << (format.fraction_bits - 1);
    return static_cast<std::uint16_t>(sign | format.infinity() | fraction | quiet);
  }
  std::uint32_t magnitude = format.infinity();
  if (std::isfinite(value)) {
    const int exponent = value == 0 ? format.least : std::max(std::ilogb(value), format.least);
    const double steps = std::nearbyint(std::ldexp(std::abs(double{value}), format.fraction_bits - exponent));
    magnitude = (static_cast<std::uint32_t>(exponent - format.least) << format.fraction_bits) +
                static_cast<std::uint32_t>(steps);
    magnitude = std::min(magnitude, format.infinity());
  }
  return static_cast<std::uint16_t>(sign | magnitude);
}

template <typename Float>
Float reduce_floats(ReduceOp op, const std::vector<Float>& values, double divisor) {
  Float result = values.front();
  for (std::size_t i = 1; i < values.size(); ++i) {
    const Float next = values[i];
    switch (op) {
      case ReduceOp::kProduct: result *= next; break;
      case ReduceOp::kMin:
        if (std::isnan(next) || (!std::isnan(result) && next <= result)) result = next;
        break;
      case ReduceOp::kMax:
        if (std::isnan(next) || (!std::isnan(result) && next >= result)) result = next;
        break;
      default: result += next; break;
    }
  }
  return op == ReduceOp::kAverage ? result / static_cast<Float>(divisor) : result;
}

template <typename Integer>
Integer reduce_integers(ReduceOp op, const std::vector<Integer>& values) {
  Integer result = values.front();
  for (std::size_t i = 1; i < values.size(); ++i) {
    const auto a = static_cast<std::uint64_t>(result);
    const auto b = static_cast<std::uint64_t>(values[i]);
    switch (op) {
      case ReduceOp::kSum: result = static_cast<Integer>(a + b); break;
      case ReduceOp::kProduct: result = static_cast<Integer>(a * b); break;
      case ReduceOp::kMin: result = std::min(result, values[i]); break;
      case ReduceOp::kMax: result = std::max(result, values[i]); break;
      case ReduceOp::kBitwiseAnd: result = static_cast<Integer>(a & b); break;
      case ReduceOp::kBitwiseOr: result = static_cast<Integer>(a | b); break;
      default: result = static_cast<Integer>(a ^ b); break;
    }
  }
  return result;
}

std::uint8_t reduce_bools(ReduceOp op, const std::vector<std::uint8_t>& values) {
  const auto trues = values.size() - static_cast<std::size_t>(std::ranges::count(values, 0));
  switch (op) {
    case ReduceOp::kProduct:
    case ReduceOp::kMin:
    case ReduceOp::kBitwiseAnd: return trues == values.size() ? 1 : 0;
    case ReduceOp::kBitwiseXor: return trues % 2;
    default: return trues > 0 ? 1 : 0;
  }
}

using Bytes = std::vector<std::byte>;

template <typename Element>
std::vector<Element> column(const std::vector<Bytes>& operands, std::size_t index) {
  std::vector<Element> values(operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i)
    std::memcpy(&values[i], operands[i].data() + index * sizeof(Element), sizeof(Element));
  return values;
}

template <typename Element, typename Reduce>
Bytes by_element(const std::vector<Bytes>& operands, const Reduce& reduce) {
  Bytes out(operands.front().size());
  for (std::size_t i = 0; i < out.size() / sizeof(Element); ++i) {
    const Element result = reduce(column<Element>(operands, i));
    std::memcpy(out.data() + i * sizeof(Element), &result, sizeof(Element));
  }
  return out;
}

template <typename Float>
Bytes reference_floats(ReduceOp op, const std::vector<Bytes>& operands, double divisor) {
  return by_element<Float>(operands, [&](const auto& values) { return reduce_floats(op, values, divisor); });
}

template <typename Integer>
Bytes reference_integers(ReduceOp op, const std::vector<Bytes>& operands) {
  return by_element<Integer>(operands, [&](const auto& values) { return reduce_integers(op, values); });
}

Bytes reference_small(const Format& format, ReduceOp op, const std::vector<Bytes>& operands, double divisor) {
  return by_element<std::uint16_t>(operands, [&](const std::vector<std::uint16_t>& values) {
    std::vector<float> wide;
    for (const std::uint16_t value : values) wide.push_back(decode(format, value));
    return encode(format, reduce_floats(op, wide, divisor));
  });
}

Bytes reference(Reduction reduction, const std::vector<Bytes>& operands, double divisor) {
  const ReduceOp op = reduction.op;
  switch (reduction.type) {
    case ElementType::kFloat16: return reference_small(kHalf, op, operands, divisor);
    case ElementType::kBfloat16: return reference_small(kBrain, op, operands, divisor);
    case ElementType::kFloat32: return reference_floats<float>(op, operands, divisor);
    case ElementType::kFloat64: return reference_floats<double>(op, operands, divisor);
    case ElementType::kInt8: return reference_integers<std::int8_t>(op, operands);
    case ElementType::kUint8: return reference_integers<std::uint8_t>(op, operands);
    case ElementType::kInt16: return reference_integers<std::int16_t>(op, operands);
    case ElementType::kUint16: return reference_integers<std::uint16_t>(op, operands);
    case ElementType::kInt32: return reference_integers<std::int32_t>(op, operands);
    case ElementType::kUint32: return reference_integers<std::uint32_t>(op, operands);
    case ElementType::kInt64: return reference_integers<std::int64_t>(op, operands);
    case ElementType::kUint64: return reference_integers<std::uint64_t>(op, operands);
    default:
      return by_element<std::uint8_t>(operands, [&](const auto& values) { return reduce_bools(op, values); });
  }
}

template <typename Element>
bool is_nan_at(const Bytes& bytes, std::size_t at) {
  Element element;
  std::memcpy(&element, bytes.data() + at, sizeof(Element));
  return std::isnan(element);
}

bool is_nan(ElementType type, const Bytes& bytes, std::size_t at) {
  std::uint16_t small = 0;
  std::memcpy(&small, bytes.data() + at, std::min(sizeof(small), bytes.size() - at));
  switch (type) {
    case ElementType::kFloat32: return is_nan_at<float>(bytes, at);
    case ElementType::kFloat64: return is_nan_at<double>(bytes, at);
    case ElementType::kFloat16: return (small & 0x7fffU) > kHalf.infinity();
    case ElementType::kBfloat16: return (small & 0x7fffU) > kBrain.infinity();
    default: return false;
  }
}

// The same bits; which of two NaNs wins is the processor's choice.
bool is_same(ElementType type, const Bytes& one, const Bytes& other) {
  const std::size_t size = element_bytes(type);
  for (std::size_t at = 0; at < one.size(); at += size) {
    if (std::equal(one.data() + at, one.data() + at + size, other.data() + at)) continue;
    if (!is_nan(type, one, at) || !is_nan(type, other, at)) return false;
  }
  return one.size() == other.size();
}

template <typename Float>
void put_ordinary(std::mt19937_64& random, std::byte* at) {
  const auto value = static_cast<Float>((static_cast<double>(random() % 4'001) - 2'000) / 64);
  std::memcpy(at, &value, sizeof(Float));
}

// Any bits, or, of floating point, often numbers of a usual size.
Bytes random_elements(std::mt19937_64& random, ElementType type, std::size_t count) {
  const std::size_t size = element_bytes(type);
  Bytes bytes(count * size);
  for (std::size_t i = 0; i < count; ++i) {
    std::byte* const at = bytes.data() + i * size;
    const std::uint64_t any = random() % 16 == 0 ? 0 : random();
    std::memcpy(at, &any, size);
    if (random() % 4 == 0) continue;
    float ordinary = 0;
    put_ordinary<float>(random, reinterpret_cast<std::byte*>(&ordinary));
    const std::uint16_t small = encode(type == ElementType::kFloat16 ? kHalf : kBrain, ordinary);
    if (type == ElementType::kFloat32) put_ordinary<float>(random, at);
    if (type == ElementType::kFloat64) put_ordinary<double>(random, at);
    if (type == ElementType::kFloat16 || type == ElementType::kBfloat16) std::memcpy(at, &small, 2);
    if (type == ElementType::kBool) *at &= std::byte{1};
  }
  return bytes;
}

std::size_t random_count(std::mt19937_64& random, std::size_t element) {
  const std::size_t tile = kTileBytes / element;
  switch (random() % 6) {
    case 0: return tile / 2 + random() % 3 - 1;
    case 1: return tile + random() % 3 - 1;
    case 2: return 2 * tile + random() % 40;
    default: return random() % 70;
  }
}

// Bytes at any address.
struct Placed {
  Bytes space;
  std::size_t offset;
  Placed(std::mt19937_64& random, const Bytes& bytes) : space(bytes.size() + 64), offset(random() % 64) {
    std::ranges::copy(bytes, data());
  }
  std::byte* data() { return space.data() + offset; }
};

Buffer cut(std::mt19937_64& random, const std::byte* data, std::size_t size) {
  Buffer slices;
  const std::size_t longest = random() % 2 == 0 ? 7 : 6'000;
  for (std::size_t at = 0; at < size;) {
    const std::size_t run = std::min<std::size_t>(size - at, random() % longest);
    slices.append({nullptr, data + at, run});
    at += run;
  }
  return slices;
}

// Some operands in place, some in slices; the result in a place of its own or over one of them.
bool adds_right(std::mt19937_64& random, Reduction reduction, const Arithmetic& arithmetic,
                std::size_t operand_count) {
  const std::size_t count = random_count(random, element_bytes(reduction.type));
  const auto divisor = static_cast<std::uint32_t>(1 + random() % 9);
  std::vector<Bytes> values;
  std::vector<Placed> places;
  for (std::size_t i = 0; i < operand_count; ++i) {
    values.push_back(random_elements(random, reduction.type, count));
    places.emplace_back(random, values.back());
  }
  const Bytes expected = reference(reduction, values, divisor);
  std::vector<Buffer> slices(operand_count);
  std::vector<Operand> operands;
  Placed apart(random, Bytes(expected.size()));
  std::byte* out = apart.data();
  for (std::size_t i = 0; i < operand_count; ++i) {
    if (random() % 2 == 0) {
      slices[i] = cut(random, places[i].data(), expected.size());
      operands.push_back({nullptr, &slices[i]});
    } else {
      operands.push_back({places[i].data(), nullptr});
      if (random() % 2 == 0) out = places[i].data();
    }
  }
  add({out, expected.size()}, operands, arithmetic, divisor);
  return is_same(reduction.type, Bytes(out, out + expected.size()), expected);
}

// All values of a type of 16 bits, loaded and stored again.
void check_every_value(ElementType type, const Format& format) {
  constexpr std::size_t kValues = 65'536;
  std::vector<std::uint16_t> values(kValues);
  for (std::size_t i = 0; i < kValues; ++i) values[i] = static_cast<std::uint16_t>(i);
  std::vector<float> wide(kValues);
  std::vector<std::uint16_t> back(kValues);
  for (const Arithmetic& arithmetic : arithmetics({type, ReduceOp::kSum})) {
    // Not a whole number of vectors, and the rest by itself.
    for (const std::size_t first : {kValues - 3, std::size_t{3}}) {
      arithmetic.load(reinterpret_cast<std::byte*>(wide.data()), reinterpret_cast<std::byte*>(values.data()),
                      first);
      arithmetic.load(reinterpret_cast<std::byte*>(wide.data() + first),
                      reinterpret_cast<std::byte*>(values.data() + first), kValues - first);
      arithmetic.store(reinterpret_cast<std::byte*>(back.data()), reinterpret_cast<std::byte*>(wide.data()),
                       kValues);
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < kValues; ++i) {
        const float expected = decode(format, values[i]);
        const bool is_loaded = std::isnan(expected) ? std::isnan(wide[i])
                                                    : std::bit_cast<std::uint32_t>(wide[i]) ==
                                                          std::bit_cast<std::uint32_t>(expected);
        if (!is_loaded || back[i] != encode(format, expected)) ++wrong;
      }
      CHECK(wrong == 0);
    }
  }
}

// What lies between any two neighbours, and just beside the middle.
void check_every_rounding(ElementType type, const Format& format) {
  std::vector<float> values;
  for (std::uint32_t bits = 0; bits < format.infinity(); ++bits) {
    const float low = decode(format, static_cast<std::uint16_t>(bits));
    const double next = bits + 1 == format.infinity()
                            ? 2.0 * low - decode(format, static_cast<std::uint16_t>(bits - 1))
                            : decode(format, static_cast<std::uint16_t>(bits + 1));
    const auto middle = static_cast<float>((low + next) / 2);
    for (const float value : {low, std::nextafter(middle, 0.0F), middle,
                              std::nextafter(middle, std::numeric_limits<float>::infinity())}) {
      values.push_back(value);
      values.push_back(-value);
    }
  }
  std::mt19937_64 random(seed());
  for (int i = 0; i < 100'000; ++i)
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
  std::vector<std::uint16_t> stored(values.size());
  for (const Arithmetic& arithmetic : arithmetics({type, ReduceOp::kSum})) {
    arithmetic.store(reinterpret_cast<std::byte*>(stored.data()), reinterpret_cast<std::byte*>(values.data()),
                     values.size());
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < values.size(); ++i) wrong += stored[i] == encode(format, values[i]) ? 0 : 1;
    CHECK(wrong == 0);
  }
}

}  // namespace

TEST_CASE("every type and operation adds as one element at a time does") {
  const std::vector<Reduction> all = all_reductions();
  CHECK(all.size() == 4 * 5 + 9 * 7);
  const std::uint64_t drawn = seed();
  std::mt19937_64 random(drawn);
  for (const Reduction reduction : all) {
    for (const Arithmetic& arithmetic : arithmetics(reduction)) {
      for (std::size_t round = 0; round < 25; ++round) {
        const bool is_right = adds_right(random, reduction, arithmetic, 1 + round % 5);
        CHECK_MESSAGE(is_right, to_string(reduction), ", ", 1 + round % 5, " operands, SQUARE_SEED=", drawn);
      }
    }
  }
}

TEST_CASE("float16 and bfloat16 are loaded and stored as they are defined, every value and every rounding") {
  check_every_value(ElementType::kFloat16, kHalf);
  check_every_value(ElementType::kBfloat16, kBrain);
  check_every_rounding(ElementType::kFloat16, kHalf);
  check_every_rounding(ElementType::kBfloat16, kBrain);
}

TEST_CASE("what is added at one node is rounded once") {
  const auto half = [](float value) { return encode(kHalf, value); };
  // 2048 + 1 is 2048 in a float16, each time.
  const std::vector<std::uint16_t> values{half(2048), half(1), half(1)};
  std::vector<Operand> operands;
  for (const std::uint16_t& value : values)
    operands.push_back({reinterpret_cast<const std::byte*>(&value), nullptr});
  std::uint16_t sum = 0;
  add(std::as_writable_bytes(std::span(&sum, 1)), operands, {ElementType::kFloat16, ReduceOp::kSum});
  CHECK(decode(kHalf, sum) == 2050);
  // Past the largest float16 on the way only.
  const std::vector<std::uint16_t> large{half(60'000), half(60'000)};
  operands = {{reinterpret_cast<const std::byte*>(large.data()), nullptr},
              {reinterpret_cast<const std::byte*>(large.data() + 1), nullptr}};
  add(std::as_writable_bytes(std::span(&sum, 1)), operands, {ElementType::kFloat16, ReduceOp::kAverage}, 2);
  CHECK(decode(kHalf, sum) == 60'000);
}

TEST_CASE("what does not go together is refused by name") {
  const auto message = [](ElementType type, ReduceOp op) { return check_reduction({type, op}).message(); };
  CHECK(message(ElementType::kInt32, ReduceOp::kAverage).find("average of int32") == 0);
  CHECK(message(ElementType::kInt32, ReduceOp::kAverage).find("use \"sum\"") != std::string::npos);
  CHECK(message(ElementType::kBool, ReduceOp::kAverage).find("average of bool") == 0);
  CHECK(message(ElementType::kBfloat16, ReduceOp::kBitwiseXor).find("xor of bfloat16") == 0);
  CHECK(message(ElementType::kBytes, ReduceOp::kSum).find("bytes cannot be added") != std::string::npos);
  CHECK(message(ElementType::kFloat32, ReduceOp::kNone).find("operation is missing") != std::string::npos);
  for (int value = 0; value < 256; ++value) {
    const bool is_type = value >= 1 && value <= kTypes;
    const bool is_operation = value >= 1 && value <= kOperations;
    CHECK(check_reduction({static_cast<ElementType>(value), ReduceOp::kSum}).is_ok() == is_type);
    const auto op = static_cast<ReduceOp>(value);
    CHECK((check_reduction({ElementType::kFloat32, op}).is_ok() ||
           check_reduction({ElementType::kUint8, op}).is_ok()) == is_operation);
    if (is_type)
      CHECK(*parse_element_type(to_string(static_cast<ElementType>(value))) ==
            static_cast<ElementType>(value));
    if (is_operation) CHECK(*parse_reduce_op(to_string(op)) == op);
  }
  CHECK(parse_element_type("bytes").status().message().find("float16, bfloat16") != std::string::npos);
  CHECK(parse_reduce_op("none").status().message().find("sum, product") != std::string::npos);
}
