#include "coding/codes/redundancy.h"

#include <cmath>
#include <random>

#include "coding/fields/galois.h"

namespace square {
namespace {

// y_j = j, x_i = K + i: 1 / (x_i + y_j), times the column's x_0 + y_j.
template <typename Element>
std::vector<double> cauchy_row(std::uint32_t blocks, std::uint64_t number) {
  std::vector<double> row(blocks);
  for (std::uint32_t j = 0; j < blocks; ++j) {
    const auto first = static_cast<Element>(blocks ^ j);
    const auto here = static_cast<Element>((blocks + number) ^ j);
    row[j] = Galois<Element>::multiply(first, Galois<Element>::inverse(here));
  }
  return row;
}

// The same on every machine, as the distributions of the standard library are not.
double draw(FieldKind field, std::mt19937_64& chance) {
  switch (field) {
    case FieldKind::kGf256: return static_cast<double>(chance() % 256);
    case FieldKind::kGf65536: return static_cast<double>(chance() % 65'536);
    // Of magnitude 1/2 to 1 and either sign, in steps that a float32 has: no block counts for little.
    case FieldKind::kFloat32: {
      const double magnitude = 0.5 + static_cast<double>(chance() % 1024) / 2048;
      return chance() % 2 == 0 ? magnitude : -magnitude;
    }
  }
  return 0;
}

}  // namespace

std::vector<double> random_coefficients(const Generation& generation, std::size_t count,
                                        std::uint64_t number) {
  std::seed_seq seed{generation.number, generation.number >> 32U, number, number >> 32U};
  std::mt19937_64 chance(seed);
  std::vector<double> row(count);
  bool is_zero = true;
  while (is_zero) {
    for (double& coefficient : row) {
      coefficient = draw(generation.field, chance);
      is_zero = is_zero && coefficient == 0;
    }
  }
  return row;
}

std::vector<double> redundant_row(const Generation& generation, std::uint64_t number) {
  const std::uint32_t blocks = generation.blocks;
  if (generation.field == FieldKind::kGf256 && blocks + number < Gf256::kSize) {
    return cauchy_row<std::uint8_t>(blocks, number);
  }
  if (generation.field == FieldKind::kGf65536 && blocks + number < Gf65536::kSize) {
    return cauchy_row<std::uint16_t>(blocks, number);
  }
  return random_coefficients(generation, blocks, number);
}

}  // namespace square
