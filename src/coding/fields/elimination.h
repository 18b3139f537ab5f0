// Gauss and Jordan, over any arithmetic.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "coding/fields/field.h"

namespace square {

// The inverse; nothing where no pivot other than 0 is left. Pivots are those of the largest weight.
template <typename Arithmetic>
std::optional<CoefficientMatrix> inverse_of(const CoefficientMatrix& matrix) {
  using Element = typename Arithmetic::Element;
  const std::size_t size = matrix.shape(0);
  // Beside the matrix the identity, which becomes the inverse.
  std::vector<std::vector<Element>> rows(size, std::vector<Element>(2 * size));
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t j = 0; j < size; ++j) rows[i][j] = static_cast<Element>(matrix(i, j));
    rows[i][size + i] = Element{1};
  }
  for (std::size_t at = 0; at < size; ++at) {
    std::size_t best = at;
    for (std::size_t i = at + 1; i < size; ++i) {
      if (Arithmetic::weight(rows[i][at]) > Arithmetic::weight(rows[best][at])) best = i;
    }
    if (Arithmetic::weight(rows[best][at]) == 0) return std::nullopt;
    std::swap(rows[at], rows[best]);
    const Element scale = Arithmetic::inverse(rows[at][at]);
    for (Element& element : rows[at]) element = Arithmetic::multiply(element, scale);
    for (std::size_t i = 0; i < size; ++i) {
      const Element factor = rows[i][at];
      if (i == at || factor == Element{0}) continue;
      for (std::size_t j = at; j < 2 * size; ++j) {
        rows[i][j] = Arithmetic::subtract(rows[i][j], Arithmetic::multiply(factor, rows[at][j]));
      }
    }
  }
  CoefficientMatrix result = CoefficientMatrix::from_shape({size, size});
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t j = 0; j < size; ++j) result(i, j) = static_cast<double>(rows[i][size + j]);
  }
  return result;
}

// Adds `factor` times `other` to `row`, which is as long.
template <typename Arithmetic>
void add_multiple(std::span<double> row, double factor, std::span<const double> other) {
  using Element = typename Arithmetic::Element;
  for (std::size_t j = 0; j < row.size(); ++j) {
    const Element product =
        Arithmetic::multiply(static_cast<Element>(factor), static_cast<Element>(other[j]));
    row[j] = static_cast<double>(Arithmetic::add(static_cast<Element>(row[j]), product));
  }
}

// Takes so much of `pivot` from `row` that row[at] is 0.
template <typename Arithmetic>
void eliminate(std::span<double> row, std::span<const double> pivot, std::size_t at) {
  using Element = typename Arithmetic::Element;
  const auto of = [](double value) { return static_cast<Element>(value); };
  if (row[at] == 0) return;
  const Element factor = Arithmetic::multiply(of(row[at]), Arithmetic::inverse(of(pivot[at])));
  for (std::size_t j = 0; j < row.size(); ++j) {
    row[j] =
        static_cast<double>(Arithmetic::subtract(of(row[j]), Arithmetic::multiply(factor, of(pivot[j]))));
  }
  row[at] = 0;
}

}  // namespace square
