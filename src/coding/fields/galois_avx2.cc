// With AVX2, chosen only where InstructionSet::kAvx2 is available: products of half bytes are looked up in
// tables that fit into a register (Plank, Greenan and Miller, FAST 2013).
#include "coding/fields/galois_vectors.h"

namespace square {
namespace {

// The products of a constant with 16 elements: those that have only the four bits from `first` on.
struct Table {
  alignas(16) std::uint8_t of[16];
};

template <typename Element>
Table table_of(const Products<Element>& products, std::size_t first, std::size_t byte) {
  Table table{};
  for (unsigned bits = 0; bits < 16; ++bits) {
    table.of[bits] = static_cast<std::uint8_t>(products.of(bits, first) >> (8 * byte));
  }
  return table;
}

Vector look_up(const Table& table, Vector indices) {
  const __m128i half = _mm_load_si128(reinterpret_cast<const __m128i*>(table.of));
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(half), indices);
}
Vector low_halves(Vector value) { return _mm256_and_si256(value, _mm256_set1_epi8(0x0f)); }
Vector high_halves(Vector value) { return low_halves(_mm256_srli_epi64(value, 4)); }

struct Gf256ByTables {
  using Element = std::uint8_t;
  struct Times {
    Table low, high;
  };
  struct Parts {
    Vector low, high;
  };
  static Times times(Element constant) {
    const Products<Element> products(constant);
    return {table_of(products, 0, 0), table_of(products, 4, 0)};
  }
  static Parts split(Vector value) { return {low_halves(value), high_halves(value)}; }
  static Vector multiply(const Parts& parts, const Times& by) {
    return _mm256_xor_si256(look_up(by.low, parts.low), look_up(by.high, parts.high));
  }
};

struct Gf65536ByTables {
  using Element = std::uint16_t;
  // By half byte of an element, the least first.
  struct Times {
    Table low_byte[4], high_byte[4];
  };
  struct Parts {
    Gf256ByTables::Parts value, swapped;
  };
  static Times times(Element constant) {
    const Products<Element> products(constant);
    Times times{};
    for (std::size_t i = 0; i < 4; ++i) {
      times.low_byte[i] = table_of(products, 4 * i, 0);
      times.high_byte[i] = table_of(products, 4 * i, 1);
    }
    return times;
  }
  static Parts split(Vector value) {
    return {Gf256ByTables::split(value), Gf256ByTables::split(swap_bytes_of_pairs(value))};
  }
  // `first` has the low bytes of pairs at the place of the product, `second` the high ones.
  static Vector sum(const Table* tables, const Gf256ByTables::Parts& first,
                    const Gf256ByTables::Parts& second) {
    return _mm256_xor_si256(
        _mm256_xor_si256(look_up(tables[0], first.low), look_up(tables[1], first.high)),
        _mm256_xor_si256(look_up(tables[2], second.low), look_up(tables[3], second.high)));
  }
  static Vector multiply(const Parts& parts, const Times& by) {
    return blend_pairs(sum(by.low_byte, parts.value, parts.swapped),
                       sum(by.high_byte, parts.swapped, parts.value));
  }
};

}  // namespace

const GaloisLoops kAvx2GaloisLoops{combine<Gf256ByTables>, combine<Gf65536ByTables>};

}  // namespace square
