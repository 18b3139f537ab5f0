// Between a LinearProgram and CLP's own model. Included by this folder only.
#pragma once

#include <ClpSimplex.hpp>
#include <memory>

#include "lp/linear_program.h"
#include "lp/solver.h"

namespace square::internal {

// No more pivots than this in one attempt.
inline constexpr int kMaxPivots = 20'000'000;

// The program as a silent minimisation, with at least one row, which CLP needs.
std::unique_ptr<ClpSimplex> load_model(const LinearProgram& program);

// Appends the columns from `first` on of a program whose rows the model already has; the entries
// from `first_entry` on are theirs.
void append_columns(ClpSimplex& model, const LinearProgram& program, std::size_t first,
                    std::size_t first_entry);

// Columns beyond those of the basis start at their lower bound.
void set_basis(ClpSimplex& model, const Basis& basis);
Basis read_basis(const ClpSimplex& model);

// The model's point and duals in the program's terms.
Solution read_solution(const ClpSimplex& model, const LinearProgram& program);

}  // namespace square::internal
