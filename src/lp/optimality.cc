#include "lp/optimality.h"

#include <fmt/format.h>

#include <cmath>

namespace square {
namespace {

// What a multiplier adds to the dual objective of a minimisation: it presses on the
// lower bound when positive and on the upper one when negative. A multiplier that
// presses on a bound that is not there must be noise.
bool dual_term(double multiplier, double lower, double upper, double tolerance, double& sum) {
  const double bound = multiplier > 0 ? lower : upper;
  if (std::isfinite(bound)) {
    sum += multiplier * bound;
    return true;
  }
  return std::abs(multiplier) <= tolerance;
}

bool keeps_bounds(double value, double lower, double upper, double size) {
  const double tolerance = kPrimalTolerance * (1.0 + size);
  return value >= lower - tolerance && value <= upper + tolerance;
}

}  // namespace

Status check_optimality(const LinearProgram& program, const Solution& solution) {
  const std::size_t columns = program.columns.size();
  const std::size_t rows = program.rows.size();
  if (solution.primal.size() != columns || solution.row_duals.size() != rows) {
    return internal_error("linear program: the answer has another size than the question");
  }
  for (const double value : solution.primal) {
    if (!std::isfinite(value)) return internal_error("linear program: a primal value is not finite");
  }
  for (const double value : solution.row_duals) {
    if (!std::isfinite(value)) return internal_error("linear program: a dual value is not finite");
  }

  // Everything below is for a minimisation; a maximisation is one of the negated costs.
  const double sign = program.sense == LinearProgram::Sense::kMaximise ? -1.0 : 1.0;
  std::vector<double> activity(rows, 0.0);
  std::vector<double> activity_size(rows, 0.0);
  std::vector<double> reduced(columns, 0.0);
  std::vector<double> reduced_size(columns, 0.0);
  double primal_objective = 0.0;
  double dual_objective = 0.0;
  double objective_size = 0.0;
  for (std::size_t j = 0; j < columns; ++j) {
    reduced[j] = sign * program.columns[j].cost;
    reduced_size[j] = std::abs(reduced[j]);
    primal_objective += reduced[j] * solution.primal[j];
    objective_size += std::abs(reduced[j] * solution.primal[j]);
  }
  for (const LinearProgram::Entry& entry : program.entries) {
    const double product = entry.value * solution.primal[entry.column];
    activity[entry.row] += product;
    activity_size[entry.row] += std::abs(product);
    const double price = entry.value * sign * solution.row_duals[entry.row];
    reduced[entry.column] -= price;
    reduced_size[entry.column] += std::abs(price);
  }

  for (std::size_t j = 0; j < columns; ++j) {
    const LinearProgram::Column& column = program.columns[j];
    if (!keeps_bounds(solution.primal[j], column.lower, column.upper, std::abs(solution.primal[j]))) {
      return internal_error(fmt::format("linear program: column {} is {}, outside [{}, {}]", j,
                                        solution.primal[j], column.lower, column.upper));
    }
    if (!dual_term(reduced[j], column.lower, column.upper, kDualTolerance * (1.0 + reduced_size[j]),
                   dual_objective)) {
      return internal_error(
          fmt::format("linear program: the reduced cost {} of column {} has a sign that "
                      "its bounds forbid",
                      reduced[j], j));
    }
  }
  for (std::size_t i = 0; i < rows; ++i) {
    const LinearProgram::Row& row = program.rows[i];
    if (!keeps_bounds(activity[i], row.lower, row.upper, activity_size[i])) {
      return internal_error(fmt::format("linear program: row {} is {}, outside [{}, {}]", i, activity[i],
                                        row.lower, row.upper));
    }
    const double dual = sign * solution.row_duals[i];
    if (!dual_term(dual, row.lower, row.upper, kDualTolerance * (1.0 + std::abs(dual)), dual_objective)) {
      return internal_error(
          fmt::format("linear program: the dual {} of row {} has a sign that its bounds forbid", dual, i));
    }
  }
  if (std::abs(primal_objective - dual_objective) > kObjectiveTolerance * (1.0 + objective_size)) {
    return internal_error(fmt::format("linear program: primal objective {} and dual objective {} differ",
                                      sign * primal_objective, sign * dual_objective));
  }
  return Status::ok();
}

}  // namespace square
