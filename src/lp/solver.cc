#include "lp/solver.h"

#include <algorithm>
#include <utility>

#include "base/spending.h"
#include "lp/clp_model.h"
#include "lp/optimality.h"

namespace square {
namespace {

// ClpSimplex::problemStatus()
constexpr int kClpOptimal = 0;
constexpr int kClpInfeasible = 1;
constexpr int kClpUnbounded = 2;
constexpr int kClpStopped = 3;
// ClpSimplex::setPerturbation() and scaling()
constexpr int kNoPerturbation = 100;
constexpr int kNoScaling = 0;
// CLP's own 1e-7 is enough for most programs, and faster; many rows that each give way by
// that much can move an objective that is nearly zero.
constexpr double kTightTolerance = 1e-9;
// ClpSimplex::primal(): start from the basis and values that are there.
constexpr int kFromHere = 1;

struct Attempt {
  int clp_status = -1;
  Status fault;  // OK: the solution is the optimum
  Solution solution;
};

Attempt judge(const ClpSimplex& model, const LinearProgram& program) {
  Attempt attempt;
  attempt.clp_status = model.problemStatus();
  if (attempt.clp_status != kClpOptimal) {
    attempt.fault = internal_error("linear program: the solver stopped without an optimum");
    return attempt;
  }
  attempt.solution = internal::read_solution(model, program);
  attempt.fault = check_optimality(program, attempt.solution);
  return attempt;
}

void tighten(ClpSimplex& model) {
  model.setPrimalTolerance(kTightTolerance);
  model.setDualTolerance(kTightTolerance);
}

void limit_time(ClpSimplex& model, double seconds) {
  if (seconds < kLpInfinity) model.setMaximumSeconds(std::max(seconds, 0.0));
}

// CLP stops by itself where the budget is spent; nothing is thrown through it.
template <typename Method>
void run(ClpSimplex& model, Method&& method) {
  look_at_budget();
  method(model);
  look_at_budget();
}

// Presolve is never on: it has called feasible programs infeasible (coin-or/Clp issue 189).
Attempt by_dual(const LinearProgram& program, bool plain) {
  const auto model = internal::load_model(program);
  if (plain) {
    model->setPerturbation(kNoPerturbation);
    model->scaling(kNoScaling);
    tighten(*model);
  }
  run(*model, [](ClpSimplex& clp) { clp.dual(); });
  Attempt attempt = judge(*model, program);
  if (attempt.clp_status == kClpOptimal && !attempt.fault.is_ok()) {
    tighten(*model);
    run(*model, [](ClpSimplex& clp) { clp.primal(kFromHere); });
    attempt = judge(*model, program);
  }
  return attempt;
}

Attempt by_primal_from_slack_basis(const LinearProgram& program) {
  const auto model = internal::load_model(program);
  model->setPerturbation(kNoPerturbation);
  model->allSlackBasis(true);
  tighten(*model);
  run(*model, [](ClpSimplex& clp) { clp.primal(); });
  return judge(*model, program);
}

Status verdict(const Attempt& first, const Attempt& last) {
  const auto refused = [](int status) { return status == kClpInfeasible || status == kClpUnbounded; };
  if (refused(first.clp_status) && refused(last.clp_status)) {
    // The primal method looks for a feasible point first, so its word decides which.
    if (last.clp_status == kClpInfeasible) {
      return failed_precondition("linear program: no point keeps all bounds");
    }
    return {StatusCode::kOutOfRange, "linear program: the objective has no limit"};
  }
  return last.fault.with_context("every way to solve it failed its checks");
}

}  // namespace

Result<Solution> solve(const LinearProgram& program) {
  Attempt first = by_dual(program, /*plain=*/false);
  if (first.fault.is_ok()) return std::move(first.solution);
  Attempt second = by_dual(program, /*plain=*/true);
  if (second.fault.is_ok()) return std::move(second.solution);
  Attempt last = by_primal_from_slack_basis(program);
  if (last.fault.is_ok()) return std::move(last.solution);
  return verdict(second, last);
}

static_assert(kBasic == ClpSimplex::basic && kAtLower == ClpSimplex::atLowerBound);

struct IncrementalProgram::Model {
  std::unique_ptr<ClpSimplex> clp;
  std::size_t columns = 0;  // of the program, already in clp
  std::size_t entries = 0;  // theirs
};

IncrementalProgram::IncrementalProgram(LinearProgram program, Basis start)
    : program_(std::move(program)), start_(std::move(start)), model_(std::make_unique<Model>()) {}
IncrementalProgram::IncrementalProgram(IncrementalProgram&&) noexcept = default;
IncrementalProgram& IncrementalProgram::operator=(IncrementalProgram&&) noexcept = default;
IncrementalProgram::~IncrementalProgram() = default;

int IncrementalProgram::add_column(const LinearProgram::Column& column, const std::vector<Term>& terms) {
  const int position = program_.add_column(column);
  for (const Term& term : terms) program_.add_entry(term.row, position, term.value);
  return position;
}

Result<Solution> IncrementalProgram::solve(double max_seconds) {
  if (model_->clp == nullptr) {
    model_->clp = internal::load_model(program_);
    // What a perturbation leaves behind adds up from column to column.
    model_->clp->setPerturbation(kNoPerturbation);
    tighten(*model_->clp);
    limit_time(*model_->clp, max_seconds);
    if (start_.rows.size() == program_.rows.size() && start_.columns.size() <= program_.columns.size()) {
      internal::set_basis(*model_->clp, start_);
      run(*model_->clp, [&](ClpSimplex& clp) { start_.by_dual ? clp.dual() : clp.primal(kFromHere); });
    } else {
      run(*model_->clp, [](ClpSimplex& clp) { clp.dual(); });
    }
  } else {
    if (model_->columns < program_.columns.size()) {
      internal::append_columns(*model_->clp, program_, model_->columns, model_->entries);
    }
    limit_time(*model_->clp, max_seconds);
    run(*model_->clp, [](ClpSimplex& clp) { clp.primal(kFromHere); });
  }
  if (model_->clp->problemStatus() == kClpStopped && max_seconds < kLpInfinity) {
    model_->clp.reset();
    return deadline_exceeded("linear program: no optimum in time");
  }
  model_->columns = program_.columns.size();
  model_->entries = program_.entries.size();
  Attempt attempt = judge(*model_->clp, program_);
  if (attempt.fault.is_ok()) return std::move(attempt.solution);
  // Duals can be stale after columns were added (coin-or/Clp issue 285): start afresh.
  model_->clp.reset();
  start_ = {};
  return square::solve(program_);
}

Basis IncrementalProgram::basis() const {
  return model_->clp == nullptr ? Basis{} : internal::read_basis(*model_->clp);
}

}  // namespace square
