// Solves linear programs, and believes no answer that it has not checked.
#pragma once

#include <memory>
#include <vector>

#include "lp/linear_program.h"
#include "square/status.h"

namespace square {

// The optimum, checked by check_optimality(). Scale the program so that its numbers are
// around one: tolerances are 1e-7. Errors: FAILED_PRECONDITION if no point keeps all
// bounds, OUT_OF_RANGE if the objective has no limit (each said by two algorithms),
// INTERNAL if every way to solve it failed its checks. Blocks. Thread-safe.
Result<Solution> solve(const LinearProgram& program);

// Which columns and rows are basic, and at which bound the others are: where a solver
// stopped, so that a similar program can start there. Empty: nowhere.
struct Basis {
  std::vector<unsigned char> columns;
  std::vector<unsigned char> rows;
  // Bounds or sizes changed since, so that the point may break some while the duals are
  // right still: the dual method goes on from there. Otherwise the primal one does.
  bool by_dual = false;
};

inline constexpr unsigned char kBasic = 1;
inline constexpr unsigned char kAtLower = 3;

// A program that grows by columns and is solved again from where it stood: the master
// of a column generation. Thread-compatible.
class IncrementalProgram {
 public:
  struct Term {
    int row = 0;
    double value = 0.0;
  };

  // `program` has all rows that there will be. A basis of a program with as many rows and
  // at most as many columns is where the first solve() starts.
  explicit IncrementalProgram(LinearProgram program, Basis start = {});
  IncrementalProgram(IncrementalProgram&&) noexcept;
  IncrementalProgram& operator=(IncrementalProgram&&) noexcept;
  ~IncrementalProgram();

  // Returns the column's position.
  int add_column(const LinearProgram::Column& column, const std::vector<Term>& terms);

  // As square::solve(), which it falls back on when the warm answer fails its checks. Also
  // DEADLINE_EXCEEDED after about so many seconds.
  Result<Solution> solve(double max_seconds = kLpInfinity);

  // Where the last solve() stopped; empty if it had to fall back.
  [[nodiscard]] Basis basis() const;

  [[nodiscard]] const LinearProgram& program() const { return program_; }

 private:
  struct Model;

  LinearProgram program_;
  Basis start_;
  std::unique_ptr<Model> model_;
};

}  // namespace square
