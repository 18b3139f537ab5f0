#include "coding/codes/halves.h"

#include "coding/sum_kernels.h"

namespace square {
namespace {

constexpr std::size_t kHalfBytes = 2;

Arithmetic conversions_of(ElementType type) { return arithmetic_of({type, ReduceOp::kSum}); }

}  // namespace

bool is_half(ElementType type) { return type == ElementType::kFloat16 || type == ElementType::kBfloat16; }

std::vector<std::byte> widened(ElementType type, std::span<const std::byte> halves) {
  std::vector<std::byte> floats(halves.size() / kHalfBytes * sizeof(float));
  conversions_of(type).load(floats.data(), halves.data(), halves.size() / kHalfBytes);
  return floats;
}

void narrow(ElementType type, std::span<const std::byte> floats, std::span<std::byte> halves) {
  conversions_of(type).store(halves.data(), floats.data(), halves.size() / kHalfBytes);
}

}  // namespace square
