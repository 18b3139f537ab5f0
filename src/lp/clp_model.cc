#include "lp/clp_model.h"

#include <CoinPackedMatrix.hpp>
#include <algorithm>
#include <cmath>
#include <limits>

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

CompressedColumns compress(const LinearProgram& program, std::size_t first) {
  std::vector<LinearProgram::Entry> entries;
  for (const LinearProgram::Entry& entry : program.entries) {
    if (static_cast<std::size_t>(entry.column) >= first) entries.push_back(entry);
  }
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return a.column != b.column ? a.column < b.column : a.row < b.row;
  });
  CompressedColumns out;
  auto entry = entries.begin();
  for (std::size_t j = first; j < program.columns.size(); ++j) {
    out.starts.push_back(static_cast<CoinBigIndex>(out.rows.size()));
    int last_row = -1;
    for (; entry != entries.end() && static_cast<std::size_t>(entry->column) == j; ++entry) {
      if (entry->row == last_row) {
        out.values.back() += entry->value;
        continue;
      }
      out.rows.push_back(entry->row);
      out.values.push_back(entry->value);
      last_row = entry->row;
    }
    out.lower.push_back(clp_bound(program.columns[j].lower));
    out.upper.push_back(clp_bound(program.columns[j].upper));
    out.cost.push_back(minimised(program, program.columns[j].cost));
  }
  out.starts.push_back(static_cast<CoinBigIndex>(out.rows.size()));
  return out;
}

}  // namespace

std::unique_ptr<ClpSimplex> load_model(const LinearProgram& program) {
  const CompressedColumns columns = compress(program, 0);
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
  model->setMaximumIterations(kMaxPivots);
  model->setOptimizationDirection(1.0);
  model->loadProblem(matrix, columns.lower.data(), columns.upper.data(), columns.cost.data(),
                     row_lower.data(), row_upper.data());
  return model;
}

void append_columns(ClpSimplex& model, const LinearProgram& program, std::size_t first) {
  const CompressedColumns columns = compress(program, first);
  model.addColumns(static_cast<int>(program.columns.size() - first), columns.lower.data(),
                   columns.upper.data(), columns.cost.data(), columns.starts.data(), columns.rows.data(),
                   columns.values.data());
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
