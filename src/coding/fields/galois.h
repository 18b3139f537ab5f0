// The two finite fields of characteristic 2 that blocks are coded over: scalars.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace square {

// The field's polynomial without its highest term: what x to the power of the element's bits is.
template <typename Element>
inline constexpr unsigned kPolynomial = 0;
template <>
inline constexpr unsigned kPolynomial<std::uint8_t> = 0x1d;
template <>
inline constexpr unsigned kPolynomial<std::uint16_t> = 0x100b;

// Arithmetic by logarithms to the base x, which generates both fields.
template <typename Element_>
class Galois {
 public:
  using Element = Element_;
  static constexpr std::size_t kSize = std::size_t{1} << (8 * sizeof(Element));

  static Element add(Element a, Element b) { return a ^ b; }
  static Element subtract(Element a, Element b) { return a ^ b; }
  static Element multiply(Element a, Element b) {
    const Tables& tables = all();
    return a == 0 || b == 0 ? Element{0} : tables.power[std::size_t{tables.log[a]} + tables.log[b]];
  }
  // Precondition: not 0.
  static Element inverse(Element a) {
    const Tables& tables = all();
    return tables.power[kSize - 1 - tables.log[a]];
  }
  // All pivots but 0 are as good.
  static double weight(Element a) { return a == 0 ? 0.0 : 1.0; }

 private:
  struct Tables {
    std::vector<Element> log;
    std::vector<Element> power;  // twice over: sums of two logarithms need no remainder
  };

  static const Tables& all() {
    static const Tables tables = make();
    return tables;
  }
  static Tables make() {
    Tables tables{std::vector<Element>(kSize), std::vector<Element>(2 * kSize)};
    Element a = 1;
    for (std::size_t i = 0; i < kSize - 1; ++i) {
      tables.log[a] = static_cast<Element>(i);
      tables.power[i] = tables.power[i + kSize - 1] = a;
      a = static_cast<Element>((a << 1U) ^ (a >> (8 * sizeof(Element) - 1)) * kPolynomial<Element>);
    }
    return tables;
  }
};

using Gf256 = Galois<std::uint8_t>;
using Gf65536 = Galois<std::uint16_t>;

}  // namespace square
