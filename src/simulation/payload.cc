#include "simulation/payload.h"

#include <algorithm>
#include <cstring>

#include "base/mix.h"
#include "base/spending.h"

namespace square::simulation {
namespace {

constexpr std::size_t kWordBytes = sizeof(std::uint64_t);
// Whole numbers below it: their sums are exact in a float32, for up to 2^16 ranks.
constexpr std::uint64_t kTermValues = 256;
constexpr std::size_t kWordsPerLook = 1U << 16U;

// The increment of SplitMix64.
constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15U;

// Words of the buffer one after the other, the last perhaps shorter.
template <typename Buffer, typename Visit>
bool for_each_word(Buffer buffer, Visit&& visit) {
  for (std::size_t word = 0; word * kWordBytes < buffer.size(); ++word) {
    if (word % kWordsPerLook == 0) look_at_budget();
    const std::size_t begin = word * kWordBytes;
    if (!visit(word, buffer.subspan(begin, std::min(kWordBytes, buffer.size() - begin)))) return false;
  }
  return true;
}

template <typename Element>
Element term(std::uint64_t drawn) {
  return static_cast<Element>(drawn % kTermValues);
}

template <typename Element, typename Value>
void fill_elements(std::span<std::byte> buffer, Value&& value) {
  for (std::size_t i = 0; i * sizeof(Element) < buffer.size(); ++i) {
    if (i % kWordsPerLook == 0) look_at_budget();
    const Element element = value(i);
    std::memcpy(buffer.data() + i * sizeof(Element), &element, sizeof(Element));
  }
}

template <typename Element, typename Value>
bool are_elements(std::span<const std::byte> buffer, Value&& value) {
  for (std::size_t i = 0; i * sizeof(Element) < buffer.size(); ++i) {
    if (i % kWordsPerLook == 0) look_at_budget();
    const Element element = value(i);
    if (std::memcmp(buffer.data() + i * sizeof(Element), &element, sizeof(Element)) != 0) return false;
  }
  return true;
}

bool adds_floats(std::size_t size_bytes) { return sum_of(size_bytes).type == ElementType::kFloat32; }

}  // namespace

Reduction sum_of(std::size_t size_bytes) {
  const bool are_floats = size_bytes % sizeof(float) == 0;
  return {are_floats ? ElementType::kFloat32 : ElementType::kUint8, ReduceOp::kSum};
}

Payload::Payload(std::uint64_t seed, std::uint32_t collective, std::size_t size_bytes)
    : seed_(mix(seed + kGolden) ^ mix(collective)), size_bytes_(size_bytes) {}

std::uint64_t Payload::draw(std::uint64_t stream, std::uint64_t index) const {
  return mix(mix(seed_ + stream * kGolden) + index * kGolden);
}

void Payload::fill(std::span<std::byte> buffer) const {
  for_each_word(buffer, [&](std::uint64_t word, std::span<std::byte> bytes) {
    const std::uint64_t drawn = draw(0, word);
    std::memcpy(bytes.data(), &drawn, bytes.size());
    return true;
  });
}

bool Payload::is_filled(std::span<const std::byte> buffer) const {
  return for_each_word(buffer, [&](std::uint64_t word, std::span<const std::byte> bytes) {
    const std::uint64_t drawn = draw(0, word);
    return std::memcmp(bytes.data(), &drawn, bytes.size()) == 0;
  });
}

void Payload::fill_term(std::span<std::byte> buffer, std::uint32_t rank) const {
  if (adds_floats(size_bytes_))
    return fill_elements<float>(buffer, [&](std::size_t i) { return term<float>(draw(rank + 1, i)); });
  fill_elements<std::uint8_t>(buffer, [&](std::size_t i) { return term<std::uint8_t>(draw(rank + 1, i)); });
}

bool Payload::is_sum(std::span<const std::byte> buffer, std::uint32_t ranks) const {
  const auto sum = [&]<typename Element>(Element zero, std::size_t i) {
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
      zero = static_cast<Element>(zero + term<Element>(draw(rank + 1, i)));
    return zero;
  };
  if (adds_floats(size_bytes_))
    return are_elements<float>(buffer, [&](std::size_t i) { return sum(0.0F, i); });
  return are_elements<std::uint8_t>(buffer, [&](std::size_t i) { return sum(std::uint8_t{0}, i); });
}

}  // namespace square::simulation
