#include "lp/solver.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "lp/optimality.h"

namespace square {
namespace {

std::uint64_t seed() {
  const char* text = std::getenv("SQUARE_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 20261121;
}

// max 3x + 5y, x <= 4, 2y <= 12, 3x + 2y <= 18: the textbook's (2, 6), 36, duals 0, 1.5, 1.
LinearProgram textbook() {
  LinearProgram program;
  const int x = program.add_column({0, kLpInfinity, 3});
  const int y = program.add_column({0, kLpInfinity, 5});
  program.add_entry(program.add_row({-kLpInfinity, 4}), x, 1);
  program.add_entry(program.add_row({-kLpInfinity, 12}), y, 2);
  const int both = program.add_row({-kLpInfinity, 18});
  program.add_entry(both, x, 3);
  program.add_entry(both, y, 2);
  return program;
}

TEST_CASE("a maximisation with its primal point, duals and objective") {
  const Result<Solution> solution = solve(textbook());
  REQUIRE(solution.is_ok());
  CHECK(solution->objective == doctest::Approx(36));
  CHECK(solution->primal[0] == doctest::Approx(2));
  CHECK(solution->primal[1] == doctest::Approx(6));
  CHECK(solution->row_duals[0] == doctest::Approx(0));
  CHECK(solution->row_duals[1] == doctest::Approx(1.5));
  CHECK(solution->row_duals[2] == doctest::Approx(1));
}

TEST_CASE("a minimisation: the dual says what the objective gains when the bound grows") {
  // min 2x + 3y, x + y >= 10, x <= 6 as a column bound: (6, 4), 24; one more unit costs 3.
  LinearProgram program;
  program.sense = LinearProgram::Sense::kMinimise;
  const int x = program.add_column({0, 6, 2});
  const int y = program.add_column({0, kLpInfinity, 3});
  const int row = program.add_row({10, kLpInfinity});
  program.add_entry(row, x, 1);
  program.add_entry(row, y, 1);
  const Result<Solution> solution = solve(program);
  REQUIRE(solution.is_ok());
  CHECK(solution->objective == doctest::Approx(24));
  CHECK(solution->primal[0] == doctest::Approx(6));
  CHECK(solution->row_duals[0] == doctest::Approx(3));
}

TEST_CASE("equalities, free columns, negative lower bounds and repeated entries") {
  // max x + y, x + y + z = 4 (y given as 0.5 + 0.5), z >= -3, z <= 2, y <= 5, x <= 1: 1 + 5 = 6, z = -2.
  LinearProgram program;
  const int x = program.add_column({-kLpInfinity, 1, 1});
  const int y = program.add_column({0, 5, 1});
  const int z = program.add_column({-3, 2, 0});
  const int row = program.add_row({4, 4});
  program.add_entry(row, x, 1);
  program.add_entry(row, y, 0.5);
  program.add_entry(row, z, 1);
  program.add_entry(row, y, 0.5);
  const Result<Solution> solution = solve(program);
  REQUIRE(solution.is_ok());
  CHECK(solution->objective == doctest::Approx(6));
  CHECK(solution->primal[2] == doctest::Approx(-2));
}

TEST_CASE("programs without rows or without columns") {
  LinearProgram no_rows;
  no_rows.add_column({0, 7, 2});
  const Result<Solution> bounded = solve(no_rows);
  REQUIRE(bounded.is_ok());
  CHECK(bounded->objective == doctest::Approx(14));

  LinearProgram no_columns;
  no_columns.add_row({-1, 1});
  const Result<Solution> empty = solve(no_columns);
  REQUIRE(empty.is_ok());
  CHECK(empty->objective == 0);
}

TEST_CASE("an infeasible program is FAILED_PRECONDITION") {
  LinearProgram program = textbook();
  const int row = program.add_row({20, kLpInfinity});
  program.add_entry(row, 0, 1);
  const Result<Solution> solution = solve(program);
  REQUIRE_FALSE(solution.is_ok());
  CHECK(solution.status().code() == StatusCode::kFailedPrecondition);
}

TEST_CASE("an unbounded program is OUT_OF_RANGE") {
  LinearProgram program;
  const int x = program.add_column({0, kLpInfinity, 1});
  const int y = program.add_column({0, kLpInfinity, 0});
  const int row = program.add_row({-kLpInfinity, 1});
  program.add_entry(row, x, 1);
  program.add_entry(row, y, -1);
  const Result<Solution> solution = solve(program);
  REQUIRE_FALSE(solution.is_ok());
  CHECK(solution.status().code() == StatusCode::kOutOfRange);
}

TEST_CASE("the check refuses every kind of wrong answer") {
  const LinearProgram program = textbook();
  const Solution right{{2, 6}, {0, 1.5, 1}, 36};
  CHECK(check_optimality(program, right).is_ok());

  const auto message = [&](Solution wrong) { return check_optimality(program, wrong).message(); };
  CHECK(message({{2, 7}, {0, 1.5, 1}, 41}).find("row 1") != std::string::npos);
  CHECK(message({{-1, 6}, {0, 1.5, 1}, 27}).find("column 0") != std::string::npos);
  CHECK(message({{2, 6}, {0, 1.5, -1}, 36}).find("reduced cost") != std::string::npos);
  CHECK(message({{2, 6}, {-1, 1.5, 2}, 36}).find("dual 1 of row 0") != std::string::npos);
  CHECK(message({{1, 6}, {0, 1.5, 1}, 33}).find("differ") != std::string::npos);
  CHECK(message({{2}, {0, 1.5, 1}, 36}).find("size") != std::string::npos);
}

TEST_CASE("random programs: no feasible point beats the answer") {
  const std::uint64_t first = seed();
  for (std::uint64_t round = 0; round < 100; ++round) {
    CAPTURE(first + round);
    std::mt19937_64 random(first + round);
    std::uniform_real_distribution<double> number(0.1, 1.0);
    LinearProgram program;
    for (int j = 0; j < 12; ++j) program.add_column({0, kLpInfinity, number(random)});
    for (int i = 0; i < 9; ++i) {
      const int row = program.add_row({-kLpInfinity, number(random)});
      for (int j = 0; j < 12; ++j) program.add_entry(row, j, number(random));
    }
    const Result<Solution> solution = solve(program);
    REQUIRE(solution.is_ok());
    for (int trial = 0; trial < 20; ++trial) {
      std::vector<double> point(12);
      for (double& value : point) value = number(random);
      double scale = kLpInfinity;
      std::vector<double> activity(9, 0.0);
      for (const auto& entry : program.entries) activity[entry.row] += entry.value * point[entry.column];
      for (int i = 0; i < 9; ++i) scale = std::min(scale, program.rows[i].upper / activity[i]);
      double objective = 0;
      for (int j = 0; j < 12; ++j) objective += program.columns[j].cost * point[j] * scale;
      CHECK(objective <= solution->objective + 1e-7);
    }
  }
}

TEST_CASE("an incremental program gives the same optimum as one solved at once") {
  const std::uint64_t first = seed();
  for (std::uint64_t round = 0; round < 50; ++round) {
    CAPTURE(first + round);
    std::mt19937_64 random(first + round);
    std::uniform_real_distribution<double> number(0.1, 1.0);
    LinearProgram rows;
    for (int i = 0; i < 8; ++i) rows.add_row({-kLpInfinity, number(random)});
    IncrementalProgram incremental(rows);
    for (int j = 0; j < 15; ++j) {
      std::vector<IncrementalProgram::Term> terms;
      for (int i = 0; i < 8; ++i) {
        if (i == j % 8 || number(random) < 0.5) terms.push_back({i, number(random)});
      }
      CHECK(incremental.add_column({0, kLpInfinity, number(random)}, terms) == j);
      const Result<Solution> warm = incremental.solve();
      REQUIRE(warm.is_ok());
      const Result<Solution> cold = solve(incremental.program());
      REQUIRE(cold.is_ok());
      CHECK(warm->objective == doctest::Approx(cold->objective).epsilon(1e-7));
    }
  }
}

}  // namespace
}  // namespace square
