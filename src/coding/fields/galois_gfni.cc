// With GFNI and AVX2, chosen only where InstructionSet::kGfni is available. Its own multiplication is modulo
// another polynomial; an affine map is as fast and multiplies by whatever it is given.
#include "coding/fields/galois_vectors.h"

namespace square {
namespace {

// The matrix over bits, as GF2P8AFFINEQB has it, from bits first_in.. of the input to bits first_out.. of the
// product.
template <typename Element>
std::uint64_t affine_matrix(const Products<Element>& products, std::size_t first_in, std::size_t first_out) {
  std::uint64_t matrix = 0;
  for (std::size_t in = 0; in < 8; ++in) {
    const std::uint64_t product = products.of_bit[first_in + in];
    for (std::size_t out = 0; out < 8; ++out) {
      matrix |= (product >> (first_out + out) & 1U) << (8 * (7 - out) + in);
    }
  }
  return matrix;
}

Vector apply(Vector value, std::uint64_t matrix) {
  return _mm256_gf2p8affine_epi64_epi8(value, _mm256_set1_epi64x(static_cast<long long>(matrix)), 0);
}

struct Gf256ByGfni {
  using Element = std::uint8_t;
  struct Times {
    std::uint64_t matrix;
  };
  using Parts = Vector;
  static Times times(Element constant) { return {affine_matrix(Products<Element>(constant), 0, 0)}; }
  static Parts split(Vector value) { return value; }
  static Vector multiply(Parts parts, const Times& by) { return apply(parts, by.matrix); }
};

struct Gf65536ByGfni {
  using Element = std::uint16_t;
  struct Times {
    std::uint64_t low_of_low, low_of_high, high_of_low, high_of_high;
  };
  struct Parts {
    Vector value, swapped;
  };
  static Times times(Element constant) {
    const Products<Element> products(constant);
    return {affine_matrix(products, 0, 0), affine_matrix(products, 8, 0), affine_matrix(products, 0, 8),
            affine_matrix(products, 8, 8)};
  }
  static Parts split(Vector value) { return {value, swap_bytes_of_pairs(value)}; }
  static Vector multiply(const Parts& parts, const Times& by) {
    const Vector low =
        _mm256_xor_si256(apply(parts.value, by.low_of_low), apply(parts.swapped, by.low_of_high));
    const Vector high =
        _mm256_xor_si256(apply(parts.value, by.high_of_high), apply(parts.swapped, by.high_of_low));
    return blend_pairs(low, high);
  }
};

}  // namespace

const GaloisLoops kGfniGaloisLoops{combine<Gf256ByGfni>, combine<Gf65536ByGfni>};

}  // namespace square
