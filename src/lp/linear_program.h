// A linear program as a value, and its answer. Knows no solver.
#pragma once

#include <limits>
#include <vector>

namespace square {

inline constexpr double kLpInfinity = std::numeric_limits<double>::infinity();

// Optimise cost'x with lower <= x <= upper for columns and lower <= Ax <= upper for rows.
struct LinearProgram {
  enum class Sense { kMaximise, kMinimise };
  struct Column {
    double lower = 0.0;
    double upper = kLpInfinity;
    double cost = 0.0;
  };
  struct Row {
    double lower = -kLpInfinity;
    double upper = kLpInfinity;
  };
  // Entries of the same row and column add up.
  struct Entry {
    int row = 0;
    int column = 0;
    double value = 0.0;
  };

  Sense sense = Sense::kMaximise;
  std::vector<Column> columns;
  std::vector<Row> rows;
  std::vector<Entry> entries;

  // Both return the position of what they added.
  int add_column(const Column& column) {
    columns.push_back(column);
    return static_cast<int>(columns.size()) - 1;
  }
  int add_row(const Row& row) {
    rows.push_back(row);
    return static_cast<int>(rows.size()) - 1;
  }
  void add_entry(int row, int column, double value) { entries.push_back({row, column, value}); }
};

// Entries of a program that are read between two looks at the budget.
inline constexpr std::size_t kEntriesPerLook = std::size_t{1} << 17U;

struct Solution {
  std::vector<double> primal;  // by column
  // By row: what the objective gains for each unit that the row's active bound grows.
  std::vector<double> row_duals;
  double objective = 0.0;
};

}  // namespace square
