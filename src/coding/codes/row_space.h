// Which rows of coefficients say something new.
#pragma once

#include <span>
#include <vector>

#include "coding/fields/field.h"

namespace square {

// The rows so far, each less what the ones before it say.
class RowSpace {
 public:
  explicit RowSpace(const Field& field) : field_(&field) {}

  // No: `row` is a sum of multiples of those that are there. Precondition: as long as they are.
  bool add(std::span<const double> row);
  // Precondition: the last add() said yes.
  void forget_last() { rows_.pop_back(); }
  [[nodiscard]] std::size_t rank() const { return rows_.size(); }

 private:
  struct Row {
    std::vector<double> rest;
    std::size_t pivot;
  };
  const Field* field_;
  std::vector<Row> rows_;
};

}  // namespace square
