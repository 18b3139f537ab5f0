#include "coding/fields/galois_field.h"

#include <cstring>
#include <vector>

#include "base/check.h"
#include "coding/fields/elimination.h"

namespace square {
namespace {

void run(const GaloisLoops& loops, const Combination<std::uint8_t>& task) { loops.combine_gf256(task); }
void run(const GaloisLoops& loops, const Combination<std::uint16_t>& task) { loops.combine_gf65536(task); }

// Columns in which one row at least is not 0. Sums of few of many blocks are common.
std::vector<std::size_t> used_columns(const CoefficientMatrix& matrix) {
  std::vector<std::size_t> used;
  for (std::size_t j = 0; j < matrix.shape(1); ++j) {
    bool is_used = false;
    for (std::size_t i = 0; i < matrix.shape(0); ++i) is_used |= matrix(i, j) != 0;
    if (is_used) used.push_back(j);
  }
  return used;
}

}  // namespace

template <typename Element>
FieldKind GaloisField<Element>::kind() const {
  return sizeof(Element) == 1 ? FieldKind::kGf256 : FieldKind::kGf65536;
}

template <typename Element>
bool GaloisField<Element>::contains(double coefficient) const {
  return coefficient >= 0 && coefficient <= std::numeric_limits<Element>::max() &&
         coefficient == static_cast<Element>(coefficient);
}

template <typename Element>
void GaloisField<Element>::add_multiple(std::span<double> row, double factor,
                                        std::span<const double> other) const {
  square::add_multiple<Galois<Element>>(row, factor, other);
}

template <typename Element>
void GaloisField<Element>::eliminate(std::span<double> row, std::span<const double> pivot,
                                     std::size_t at) const {
  square::eliminate<Galois<Element>>(row, pivot, at);
}

template <typename Element>
Result<CoefficientMatrix> GaloisField<Element>::inverse(const CoefficientMatrix& matrix) const {
  std::optional<CoefficientMatrix> inverse = inverse_of<Galois<Element>>(matrix);
  if (!inverse) return failed_precondition("the rows of coefficients depend on one another");
  return *std::move(inverse);
}

template <typename Element>
void GaloisField<Element>::combine(const CoefficientMatrix& matrix, std::span<const std::byte* const> in,
                                   std::span<std::byte* const> out, std::size_t bytes) const {
  SQUARE_CHECK(matrix.shape(0) == out.size() && matrix.shape(1) == in.size() && bytes % sizeof(Element) == 0,
               "a matrix has a row for each block that is made and a column for each that there is");
  const std::vector<std::size_t> used = used_columns(matrix);
  std::vector<Element> coefficients;
  coefficients.reserve(out.size() * used.size());
  std::vector<const std::byte*> sources;
  for (std::size_t i = 0; i < out.size(); ++i) {
    for (const std::size_t j : used) coefficients.push_back(static_cast<Element>(matrix(i, j)));
  }
  for (const std::size_t j : used) sources.push_back(in[j]);
  std::vector<TimesSpace<Element>> space(coefficients.size());
  run(loops_, Combination<Element>{coefficients.data(), out.size(), used.size(), sources.data(), out.data(),
                                   bytes, space.data()});
}

template class GaloisField<std::uint8_t>;
template class GaloisField<std::uint16_t>;

}  // namespace square
