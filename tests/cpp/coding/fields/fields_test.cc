// Fields against their definitions, and all sets of instructions against the portable loops.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>
#include <xtensor/xview.hpp>

#include "coding/fields/float_field.h"
#include "coding/fields/galois_field.h"
#include "coding/floats.h"

using namespace square;
using namespace square::test;

namespace {

using Blocks = std::vector<std::vector<std::byte>>;

// By the definition: polynomials over bits, modulo one of them.
std::uint32_t product_by_definition(std::uint32_t a, std::uint32_t b, std::uint32_t polynomial, int bits) {
  std::uint32_t product = 0;
  for (int i = 0; i < bits; ++i) {
    if ((b >> i & 1U) != 0) product ^= a << i;
  }
  for (int i = 2 * bits - 1; i >= bits; --i) {
    if ((product >> i & 1U) != 0) product ^= polynomial << (i - bits);
  }
  return product;
}

CoefficientMatrix draw_matrix(std::mt19937_64& chance, std::size_t rows, std::size_t columns, unsigned most) {
  CoefficientMatrix matrix = CoefficientMatrix::from_shape({rows, columns});
  // Half of the matrices have many zeros and ones, which loops treat apart.
  const unsigned limit = chance() % 2 == 0 ? 1 : most;
  for (double& element : matrix) element = static_cast<double>(chance() % (limit + 1ULL));
  return matrix;
}

Blocks draw_blocks(std::mt19937_64& chance, std::size_t count, std::size_t bytes) {
  Blocks blocks(count, std::vector<std::byte>(bytes));
  for (auto& block : blocks) {
    for (std::byte& byte : block) byte = static_cast<std::byte>(chance());
  }
  return blocks;
}

// The blocks from `skipped` bytes on, so that they begin anywhere.
std::vector<const std::byte*> inputs(const Blocks& blocks, std::size_t skipped) {
  std::vector<const std::byte*> starts;
  for (const auto& block : blocks) starts.push_back(block.data() + skipped);
  return starts;
}
std::vector<std::byte*> outputs(Blocks& blocks, std::size_t skipped) {
  std::vector<std::byte*> starts;
  for (auto& block : blocks) starts.push_back(block.data() + skipped);
  return starts;
}

struct Shape {
  std::size_t rows, columns, bytes, skipped;
};

Shape draw_shape(std::mt19937_64& chance, std::size_t symbol_bytes) {
  constexpr std::size_t kEdges[] = {0, 2, 30, 32, 34, 62, 64, 128, 4094, 4096, 8194};
  const std::size_t bytes = chance() % 2 == 0 ? kEdges[chance() % std::size(kEdges)] : chance() % 3000;
  return {1 + chance() % 10, 1 + chance() % 12, bytes / symbol_bytes * symbol_bytes, chance() % 5};
}

template <typename Element>
void check_scalars(std::uint32_t polynomial, std::mt19937_64& chance) {
  constexpr int kBits = 8 * sizeof(Element);
  for (int i = 0; i < 70'000; ++i) {
    const auto a = static_cast<Element>(i < 65'536 && kBits == 8 ? i >> 8 : chance());
    const auto b = static_cast<Element>(i < 65'536 && kBits == 8 ? i : chance());
    REQUIRE(Galois<Element>::multiply(a, b) == product_by_definition(a, b, polynomial, kBits));
    if (a != 0) REQUIRE(Galois<Element>::multiply(a, Galois<Element>::inverse(a)) == 1);
  }
}

template <typename Element>
void check_loops(std::uint64_t drawn) {
  std::mt19937_64 chance(drawn);
  const Shape shape = draw_shape(chance, sizeof(Element));
  const CoefficientMatrix matrix =
      draw_matrix(chance, shape.rows, shape.columns, std::numeric_limits<Element>::max());
  const Blocks in = draw_blocks(chance, shape.columns, shape.bytes + shape.skipped);
  const Blocks before = draw_blocks(chance, shape.rows, shape.bytes + shape.skipped + 40);
  Blocks expected;
  for (const InstructionSet set : available_instruction_sets()) {
    Blocks out = before;
    GaloisField<Element>(set).combine(matrix, inputs(in, shape.skipped), outputs(out, shape.skipped),
                                      shape.bytes);
    if (expected.empty()) expected = out;
    CHECK_MESSAGE(out == expected, to_string(set), ", SQUARE_SEED=", drawn);
  }
  for (std::size_t i = 0; i < shape.rows; ++i) {
    const auto bytes = static_cast<std::ptrdiff_t>(shape.skipped + shape.bytes);
    CHECK(std::equal(expected[i].begin() + bytes, expected[i].end(), before[i].begin() + bytes));
    if (shape.bytes < sizeof(Element)) continue;
    std::uint32_t sum = 0;
    for (std::size_t j = 0; j < shape.columns; ++j) {
      Element element;
      std::memcpy(&element, in[j].data() + shape.skipped, sizeof(Element));
      sum ^= Galois<Element>::multiply(element, static_cast<Element>(matrix(i, j)));
    }
    CHECK(std::memcmp(&sum, expected[i].data() + shape.skipped, sizeof(Element)) == 0);
  }
}

CoefficientMatrix product(const Field& field, const CoefficientMatrix& a, const CoefficientMatrix& b) {
  const std::size_t size = a.shape(0);
  CoefficientMatrix result = xt::zeros<double>({size, size});
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t j = 0; j < size; ++j) {
      for (std::size_t k = 0; k < size; ++k) {
        if (field.kind() == FieldKind::kFloat32) {
          result(i, j) += a(i, k) * b(k, j);
          continue;
        }
        const auto x = static_cast<std::uint16_t>(a(i, k));
        const auto y = static_cast<std::uint16_t>(b(k, j));
        const auto sum = static_cast<std::uint16_t>(result(i, j));
        if (field.kind() == FieldKind::kGf256) {
          result(i, j) = sum ^ Gf256::multiply(static_cast<std::uint8_t>(x), static_cast<std::uint8_t>(y));
        } else {
          result(i, j) = sum ^ Gf65536::multiply(x, y);
        }
      }
    }
  }
  return result;
}

}  // namespace

TEST_CASE("products and inverses are those of polynomials over bits") {
  std::mt19937_64 chance(seed());
  check_scalars<std::uint8_t>(0x11d, chance);
  check_scalars<std::uint16_t>(0x1100b, chance);
}

TEST_CASE("all sets of instructions combine blocks to the same bytes, and write no others") {
  for (std::uint64_t i = 0; i < 1000; ++i) {
    check_loops<std::uint8_t>(seed() + i);
    check_loops<std::uint16_t>(seed() + i);
  }
}

TEST_CASE("a matrix times its inverse is one, and a singular one has none") {
  std::mt19937_64 chance(seed());
  for (const FieldKind kind : {FieldKind::kGf256, FieldKind::kGf65536, FieldKind::kFloat32}) {
    const Field& field = field_of(kind);
    int inverted = 0;
    for (int i = 0; i < 200; ++i) {
      const std::size_t size = 1 + chance() % 9;
      CoefficientMatrix matrix = draw_matrix(chance, size, size, 255);
      const Result<CoefficientMatrix> inverse = field.inverse(matrix);
      if (!inverse.is_ok()) {
        CHECK(inverse.status().code() == StatusCode::kFailedPrecondition);
        continue;
      }
      ++inverted;
      const CoefficientMatrix one = product(field, matrix, *inverse);
      CHECK(xt::amax(xt::abs(one - xt::eye<double>(size)))() < 1e-9);
      if (size == 1) continue;
      xt::row(matrix, 0) = xt::row(matrix, static_cast<std::ptrdiff_t>(size - 1));
      CHECK_FALSE(field.inverse(matrix).is_ok());
    }
    CHECK_MESSAGE(inverted > 60, to_string(kind), ", SQUARE_SEED=", seed());
  }
}

TEST_CASE("floats are refused where too many digits would be lost") {
  const CoefficientMatrix near = {{1, 1}, {1, 1 + 1.0 / 1024}};
  const auto inverse = field_of(FieldKind::kFloat32).inverse(near);
  REQUIRE_FALSE(inverse.is_ok());
  CHECK(inverse.status().message().find("condition number") != std::string::npos);
}

TEST_CASE("floats are summed in order, the same by all sets of instructions") {
  std::mt19937_64 chance(seed());
  std::normal_distribution<float> draw;
  for (int round = 0; round < 300; ++round) {
    const Shape shape = draw_shape(chance, sizeof(float));
    const std::size_t count = shape.bytes / sizeof(float);
    Blocks in(shape.columns, std::vector<std::byte>(shape.bytes + shape.skipped));
    CoefficientMatrix matrix = CoefficientMatrix::from_shape({1, shape.columns});
    std::vector<float> sums(count);
    for (std::size_t j = 0; j < shape.columns; ++j) {
      // Every fifth block is not in the sum: its infinities do not matter.
      const bool is_in = chance() % 5 != 0;
      matrix(0, j) = is_in ? draw(chance) : 0.0F;
    }
    std::vector<std::vector<float>> values(shape.columns, std::vector<float>(count));
    for (std::size_t j = 0; j < shape.columns; ++j) {
      for (float& value : values[j]) value = matrix(0, j) == 0 ? kInfinity : draw(chance);
      if (count > 0) std::memcpy(in[j].data() + shape.skipped, values[j].data(), shape.bytes);
    }
    for (std::size_t i = 0; i < count; ++i) {
      double exact = 0;
      for (std::size_t j = 0; j < shape.columns; ++j) {
        if (matrix(0, j) != 0) exact += matrix(0, j) * static_cast<double>(values[j][i]);
      }
      sums[i] = static_cast<float>(exact);
    }
    std::vector<float> expected;
    for (const InstructionSet set : available_instruction_sets()) {
      Blocks out(1, std::vector<std::byte>(shape.bytes + shape.skipped));
      FloatField(set).combine(matrix, inputs(in, shape.skipped), outputs(out, shape.skipped), shape.bytes);
      std::vector<float> got(count);
      if (count > 0) std::memcpy(got.data(), out[0].data() + shape.skipped, shape.bytes);
      if (expected.empty()) expected = got;
      CHECK_MESSAGE(got == expected, to_string(set), ", round ", round, ", SQUARE_SEED=", seed());
    }
    for (std::size_t i = 0; i < count; ++i) CHECK(std::abs(expected[i] - sums[i]) < 2e-5F);
  }
}

TEST_CASE("a coefficient is a number of its field") {
  const Field& bytes = field_of(FieldKind::kGf256);
  CHECK((bytes.contains(0) && bytes.contains(255)));
  for (const double other : {-1.0, 0.5, 256.0, std::nan(""), HUGE_VAL}) CHECK_FALSE(bytes.contains(other));
  CHECK(field_of(FieldKind::kGf65536).contains(65'535));
  CHECK_FALSE(field_of(FieldKind::kGf65536).contains(65'536));
  CHECK(field_of(FieldKind::kFloat32).contains(-0.5));
  for (const double other : {0.1, 1e300, static_cast<double>(NAN)}) {
    CHECK_FALSE(field_of(FieldKind::kFloat32).contains(other));
  }
}

TEST_CASE("elimination leaves zero where it was asked to") {
  std::mt19937_64 chance(seed());
  for (const FieldKind kind : {FieldKind::kGf256, FieldKind::kGf65536, FieldKind::kFloat32}) {
    for (int i = 0; i < 100; ++i) {
      std::vector<double> row(8);
      std::vector<double> pivot(8);
      for (double& element : row) element = static_cast<double>(chance() % 256);
      for (double& element : pivot) element = static_cast<double>(1 + chance() % 255);
      field_of(kind).eliminate(row, pivot, 3);
      CHECK(row[3] == 0);
      // The same factor everywhere: what was taken is a multiple of the pivot.
      std::vector<double> again = pivot;
      field_of(kind).eliminate(again, pivot, 5);
      for (const double element : again) CHECK(field_of(kind).is_zero(element, 256));
    }
  }
}
