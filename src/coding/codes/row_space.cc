#include "coding/codes/row_space.h"

#include <algorithm>
#include <cmath>

namespace square {

bool RowSpace::add(std::span<const double> row) {
  const auto less = [](double a, double b) { return std::abs(a) < std::abs(b); };
  std::vector<double> rest(row.begin(), row.end());
  const double scale = std::abs(*std::ranges::max_element(rest, less));
  for (const Row& before : rows_) field_->eliminate(rest, before.rest, before.pivot);
  // The largest: of floats the one that rounding spoils least.
  const auto pivot = std::ranges::max_element(rest, less);
  if (field_->is_zero(*pivot, scale)) return false;
  const auto at = static_cast<std::size_t>(pivot - rest.begin());
  rows_.push_back({std::move(rest), at});
  return true;
}

}  // namespace square
