#include "lp/optimality.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "base/spending.h"

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

Status check_shape(const LinearProgram& program, const Solution& solution) {
  if (solution.primal.size() != program.columns.size() || solution.row_duals.size() != program.rows.size()) {
    return internal_error("linear program: the answer has another size than the question");
  }
  const auto is_finite = [](double value) { return std::isfinite(value); };
  if (!std::all_of(solution.primal.begin(), solution.primal.end(), is_finite)) {
    return internal_error("linear program: a primal value is not finite");
  }
  if (!std::all_of(solution.row_duals.begin(), solution.row_duals.end(), is_finite)) {
    return internal_error("linear program: a dual value is not finite");
  }
  return Status::ok();
}

// Everything is judged as a minimisation; a maximisation is one of the negated costs.
class Judge {
 public:
  Judge(const LinearProgram& program, const Solution& solution)
      : program_(program),
        solution_(solution),
        sign_(program.sense == LinearProgram::Sense::kMaximise ? -1.0 : 1.0),
        activity_(program.rows.size()),
        reduced_(program.columns.size()) {
    for (std::size_t j = 0; j < program.columns.size(); ++j) {
      const double cost = sign_ * program.columns[j].cost;
      reduced_[j].add(cost);
      primal_.add(cost * solution.primal[j]);
    }
    for (std::size_t k = 0; k < program.entries.size(); ++k) {
      if (k % kEntriesPerLook == 0) look_at_budget();
      const LinearProgram::Entry& entry = program.entries[k];
      activity_[entry.row].add(entry.value * solution.primal[entry.column]);
      reduced_[entry.column].add(-entry.value * sign_ * solution.row_duals[entry.row]);
    }
  }

  Status columns() {
    for (std::size_t j = 0; j < reduced_.size(); ++j) {
      const LinearProgram::Column& column = program_.columns[j];
      const double value = solution_.primal[j];
      if (!keeps_bounds(value, column.lower, column.upper, std::abs(value))) {
        return internal_error(fmt::format("linear program: column {} is {}, outside [{}, {}]", j, value,
                                          column.lower, column.upper));
      }
      const Sum& cost = reduced_[j];
      if (!dual_term(cost.value, column.lower, column.upper, kDualTolerance * (1.0 + cost.size), dual_)) {
        return internal_error(
            fmt::format("linear program: the reduced cost {} of column {} has a sign that its bounds forbid",
                        cost.value, j));
      }
    }
    return Status::ok();
  }

  Status rows() {
    for (std::size_t i = 0; i < activity_.size(); ++i) {
      const LinearProgram::Row& row = program_.rows[i];
      if (!keeps_bounds(activity_[i].value, row.lower, row.upper, activity_[i].size)) {
        return internal_error(fmt::format("linear program: row {} is {}, outside [{}, {}]", i,
                                          activity_[i].value, row.lower, row.upper));
      }
      const double dual = sign_ * solution_.row_duals[i];
      if (!dual_term(dual, row.lower, row.upper, kDualTolerance * (1.0 + std::abs(dual)), dual_)) {
        return internal_error(
            fmt::format("linear program: the dual {} of row {} has a sign that its bounds forbid", dual, i));
      }
    }
    return Status::ok();
  }

  // After columns() and rows(), which sum the dual objective.
  [[nodiscard]] Status objectives() const {
    if (std::abs(primal_.value - dual_) <= kObjectiveTolerance * (1.0 + primal_.size)) return Status::ok();
    return internal_error(fmt::format("linear program: primal objective {} and dual objective {} differ",
                                      sign_ * primal_.value, sign_ * dual_));
  }

 private:
  // A sum, and the sum of the sizes of its terms.
  struct Sum {
    double value = 0.0;
    double size = 0.0;
    void add(double term) {
      value += term;
      size += std::abs(term);
    }
  };

  const LinearProgram& program_;
  const Solution& solution_;
  const double sign_;
  std::vector<Sum> activity_;  // by row
  std::vector<Sum> reduced_;   // by column
  Sum primal_;
  double dual_ = 0.0;
};

}  // namespace

Status check_optimality(const LinearProgram& program, const Solution& solution) {
  SQUARE_RETURN_IF_ERROR(check_shape(program, solution));
  Judge judge(program, solution);
  SQUARE_RETURN_IF_ERROR(judge.columns());
  SQUARE_RETURN_IF_ERROR(judge.rows());
  return judge.objectives();
}

}  // namespace square
