#include "base/weight.h"

#include <fmt/format.h>

namespace square {

Status check_weight(double weight) {
  if (weight >= kLeastWeight && weight <= kMostWeight) return {};
  return invalid_argument(
      fmt::format("the weight is {}; it must be from {:g} to {:g}", weight, kLeastWeight, kMostWeight));
}

}  // namespace square
