#include "lp/clp_model.h"

#include <ClpEventHandler.hpp>
#include <CoinPackedMatrix.hpp>
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/spending.h"
#include "lp/clp_matrix.h"

namespace square::internal {
namespace {

double clp_bound(double bound) {
  if (bound == kLpInfinity) return COIN_DBL_MAX;
  if (bound == -kLpInfinity) return -COIN_DBL_MAX;
  return bound;
}

double minimised(const LinearProgram& program, double value) {
  return program.sense == LinearProgram::Sense::kMaximise ? -value : value;
}

// Columns `first` and later, compressed, entries of one place added up.
struct CompressedColumns {
  std::vector<CoinBigIndex> starts;
  std::vector<int> rows;
  std::vector<double> values;
  std::vector<double> lower;
  std::vector<double> upper;
  std::vector<double> cost;
};

// Columns `first` and later; their entries are `first_entry` and later.
CompressedColumns compress(const LinearProgram& program, std::size_t first, std::size_t first_entry) {
  const std::size_t count = program.columns.size() - first;
  // Entries in the order of their columns, which is nearly how they come.
  std::vector<std::size_t> begin(count + 1, 0);
  const auto each = [&](auto use) {
    for (std::size_t k = first_entry; k < program.entries.size(); ++k) {
      if (k % kEntriesPerLook == 0) look_at_budget();
      use(program.entries[k], static_cast<std::size_t>(program.entries[k].column) - first);
    }
  };
  each([&](const LinearProgram::Entry&, std::size_t j) { ++begin[j + 1]; });
  for (std::size_t j = 0; j < count; ++j) begin[j + 1] += begin[j];
  std::vector<const LinearProgram::Entry*> entries(begin.back());
  std::vector<std::size_t> next(begin.begin(), begin.end() - 1);
  each([&](const LinearProgram::Entry& entry, std::size_t j) { entries[next[j]++] = &entry; });
  CompressedColumns out;
  std::vector<int> place(program.rows.size(), -1);  // by row: where its entry of this column is
  for (std::size_t j = 0; j < count; ++j) {
    const int start = static_cast<int>(out.rows.size());
    out.starts.push_back(start);
    for (std::size_t k = begin[j]; k < begin[j + 1]; ++k) {
      int& known = place[static_cast<std::size_t>(entries[k]->row)];
      if (known >= start) {
        out.values[static_cast<std::size_t>(known)] += entries[k]->value;
        continue;
      }
      known = static_cast<int>(out.rows.size());
      out.rows.push_back(entries[k]->row);
      out.values.push_back(entries[k]->value);
    }
    const LinearProgram::Column& column = program.columns[first + j];
    out.lower.push_back(clp_bound(column.lower));
    out.upper.push_back(clp_bound(column.upper));
    out.cost.push_back(minimised(program, column.cost));
  }
  out.starts.push_back(static_cast<CoinBigIndex>(out.rows.size()));
  return out;
}

// Asks after every pivot and factorisation whether the budget of this thread is spent.
class BudgetWatch final : public ClpEventHandler {
 public:
  int event(Event which) override {
    const bool stops = which == endOfIteration || which == endOfFactorization;
    return stops && budget_is_spent() ? kStop : kGoOn;
  }
  [[nodiscard]] ClpEventHandler* clone() const override { return new BudgetWatch(*this); }

 private:
  static constexpr int kGoOn = -1;
  static constexpr int kStop = 0;
};

}  // namespace

std::unique_ptr<ClpSimplex> load_model(const LinearProgram& program) {
  const CompressedColumns columns = compress(program, 0, 0);
  std::vector<double> row_lower;
  std::vector<double> row_upper;
  for (const LinearProgram::Row& row : program.rows) {
    row_lower.push_back(clp_bound(row.lower));
    row_upper.push_back(clp_bound(row.upper));
  }
  if (program.rows.empty()) {
    row_lower.push_back(-COIN_DBL_MAX);
    row_upper.push_back(COIN_DBL_MAX);
  }
  std::vector<int> lengths;
  for (std::size_t j = 0; j + 1 < columns.starts.size(); ++j) {
    lengths.push_back(static_cast<int>(columns.starts[j + 1] - columns.starts[j]));
  }
  const CoinPackedMatrix matrix(true, static_cast<int>(row_lower.size()), static_cast<int>(lengths.size()),
                                static_cast<CoinBigIndex>(columns.rows.size()), columns.values.data(),
                                columns.rows.data(), columns.starts.data(), lengths.data());
  auto model = std::make_unique<ClpSimplex>();
  model->setLogLevel(0);
  const BudgetWatch watch;
  model->passInEventHandler(&watch);
  model->setMaximumIterations(kMaxPivots);
  model->setOptimizationDirection(1.0);
  model->loadProblem(ColumnMatrix(matrix), columns.lower.data(), columns.upper.data(), columns.cost.data(),
                     row_lower.data(), row_upper.data());
  return model;
}

void append_columns(ClpSimplex& model, const LinearProgram& program, std::size_t first,
                    std::size_t first_entry) {
  const CompressedColumns columns = compress(program, first, first_entry);
  model.addColumns(static_cast<int>(program.columns.size() - first), columns.lower.data(),
                   columns.upper.data(), columns.cost.data(), columns.starts.data(), columns.rows.data(),
                   columns.values.data());
}

void set_basis(ClpSimplex& model, const Basis& basis) {
  model.createStatus();
  for (int j = 0; j < model.numberColumns(); ++j) {
    const auto known = static_cast<std::size_t>(j) < basis.columns.size();
    model.setColumnStatus(
        j, known ? static_cast<ClpSimplex::Status>(basis.columns[j]) : ClpSimplex::atLowerBound);
  }
  for (std::size_t i = 0; i < basis.rows.size(); ++i) {
    model.setRowStatus(static_cast<int>(i), static_cast<ClpSimplex::Status>(basis.rows[i]));
  }
}

Basis read_basis(const ClpSimplex& model) {
  Basis basis;
  for (int j = 0; j < model.numberColumns(); ++j) {
    basis.columns.push_back(static_cast<unsigned char>(model.getColumnStatus(j)));
  }
  for (int i = 0; i < model.numberRows(); ++i) {
    basis.rows.push_back(static_cast<unsigned char>(model.getRowStatus(i)));
  }
  return basis;
}

Solution read_solution(const ClpSimplex& model, const LinearProgram& program) {
  Solution solution;
  const double* point = model.primalColumnSolution();
  const double* duals = model.dualRowSolution();
  solution.primal.assign(point, point + program.columns.size());
  for (std::size_t i = 0; i < program.rows.size(); ++i) {
    solution.row_duals.push_back(minimised(program, duals[i]));
  }
  for (std::size_t j = 0; j < program.columns.size(); ++j) {
    solution.objective += program.columns[j].cost * solution.primal[j];
  }
  return solution;
}

}  // namespace square::internal
