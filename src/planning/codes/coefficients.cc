#include "planning/codes/coefficients.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/spending.h"
#include "coding/fields/field.h"
#include "coding/fields/galois.h"

namespace square::planning {
namespace {

std::size_t at(int position) { return static_cast<std::size_t>(position); }

// What passes along one way, content after content, without repetitions.
std::vector<int> contents_along(const std::vector<int>& way, const Contents& contents) {
  std::vector<int> along;
  for (const int edge : way) {
    const int content = contents.of_edge[at(edge)];
    if (along.empty() || along.back() != content) along.push_back(content);
  }
  return along;
}

// Who has a sum on a way, and what it is made from there.
struct User {
  std::size_t terminal = 0;
  std::size_t way = 0;
};
std::vector<std::vector<User>> users_of(const std::vector<TerminalWays>& ways, const Contents& contents) {
  std::vector<std::vector<User>> users(contents.list.size());
  for (std::size_t j = 0; j < ways.size(); ++j) {
    for (std::size_t k = 0; k < ways[j].size(); ++k) {
      for (const int content : contents_along(ways[j][k], contents)) users[at(content)].push_back({j, k});
    }
  }
  return users;
}

CoefficientMatrix sink_matrix(const TerminalWays& ways, const Contents& contents,
                              const std::vector<std::vector<double>>& rows) {
  CoefficientMatrix matrix = CoefficientMatrix::from_shape({ways.size(), ways.size()});
  for (std::size_t k = 0; k < ways.size(); ++k) {
    const std::vector<double>& row = rows[at(contents.of_edge[at(ways[k].back())])];
    for (std::size_t b = 0; b < row.size(); ++b) matrix(k, b) = row[b];
  }
  return matrix;
}

std::vector<std::vector<double>> rows_of(const CoefficientMatrix& matrix) {
  std::vector<std::vector<double>> rows(matrix.shape(0), std::vector<double>(matrix.shape(1)));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = 0; j < rows[i].size(); ++j) rows[i][j] = matrix(i, j);
  }
  return rows;
}

// Vectors over a finite field.
template <typename Element>
class InformationFlow {
  using Arithmetic = Galois<Element>;
  using Vector = std::vector<Element>;

 public:
  InformationFlow(const EdgeGraph& graph, const std::vector<TerminalWays>& ways, const Contents& contents)
      : ways_(ways), contents_(contents), users_(users_of(ways, contents)) {
    const auto blocks = at(graph.blocks);
    rows_.assign(contents.list.size(), Vector(blocks));
    for (std::size_t j = 0; j < ways.size(); ++j) {
      Terminal& terminal = terminals_.emplace_back();
      terminal.duals.assign(blocks, Vector(blocks));
      // At the root each way carries its block, and the dual of a unit vector is itself.
      for (std::size_t k = 0; k < ways[j].size(); ++k) {
        terminal.now.push_back(contents.of_edge[at(ways[j][k].front())]);
        terminal.duals[k][at(ways[j][k].front())] = 1;
      }
    }
  }

  Status run(Coefficients& out) {
    out.factors.resize(contents_.list.size());
    for (std::size_t c = 0; c < contents_.list.size(); ++c) {
      const Content& content = contents_.list[c];
      if (content.block >= 0) {
        rows_[c][at(content.block)] = 1;
        continue;
      }
      SQUARE_RETURN_IF_ERROR(choose(c, out.factors[c]));
      for (const User& user : users_[c]) move(user, c);
    }
    for (const Vector& row : rows_) out.rows.emplace_back(row.begin(), row.end());
    return Status::ok();
  }

 private:
  struct Terminal {
    std::vector<int> now;       // by way: the content that has come so far
    std::vector<Vector> duals;  // by way: 1 with its own vector, 0 with the others
  };

  static Element product(const Vector& a, const Vector& b) {
    Element sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum = Arithmetic::add(sum, Arithmetic::multiply(a[i], b[i]));
    return sum;
  }
  static void add_multiple(Vector& to, Element factor, const Vector& other) {
    for (std::size_t i = 0; i < to.size(); ++i)
      to[i] = Arithmetic::add(to[i], Arithmetic::multiply(factor, other[i]));
  }
  [[nodiscard]] const Vector& dual_of(const User& user) const {
    return terminals_[user.terminal].duals[user.way];
  }

  [[nodiscard]] Vector sum_of(const Content& content, const std::vector<double>& factors) const {
    Vector sum(rows_.front().size());
    for (std::size_t i = 0; i < content.inputs.size(); ++i)
      add_multiple(sum, static_cast<Element>(factors[i]), rows_[at(content.inputs[i])]);
    return sum;
  }
  [[nodiscard]] bool is_good(const Vector& sum, std::size_t content) const {
    return std::ranges::all_of(users_[content],
                               [&](const User& user) { return product(sum, dual_of(user)) != 0; });
  }

  Status choose(std::size_t c, std::vector<double>& factors) {
    const Content& content = contents_.list[c];
    factors.assign(content.inputs.size(), 1.0);
    Vector sum = sum_of(content, factors);
    if (!is_good(sum, c)) {
      std::ranges::fill(factors, 0.0);
      std::ranges::fill(sum, Element{0});
      const auto& users = users_[c];
      for (std::size_t u = 0; u < users.size(); ++u) {
        if (product(sum, dual_of(users[u])) != 0) continue;
        SQUARE_RETURN_IF_ERROR(include(c, u, sum, factors));
      }
    }
    rows_[c] = std::move(sum);
    return Status::ok();
  }

  // `sum` becomes a multiple of itself and what this user needs, which is not 0 for it, and stays not 0 for
  // the users before it: each forbids one multiple.
  Status include(std::size_t c, std::size_t u, Vector& sum, std::vector<double>& factors) const {
    const User& user = users_[c][u];
    const int came = terminals_[user.terminal].now[user.way];
    const Vector& own = rows_[at(came)];
    std::vector<bool> forbidden(Arithmetic::kSize, false);
    for (std::size_t k = 0; k < u; ++k) {
      const Vector& dual = dual_of(users_[c][k]);
      forbidden[Arithmetic::multiply(product(own, dual), Arithmetic::inverse(product(sum, dual)))] = true;
    }
    const auto free = std::ranges::find(forbidden, false);
    if (free == forbidden.end()) {
      return failed_precondition(
          fmt::format("a sum that {} terminals share needs a larger field", users_[c].size()));
    }
    const auto multiple = static_cast<Element>(free - forbidden.begin());
    for (Element& value : sum) value = Arithmetic::multiply(value, multiple);
    for (double& factor : factors)
      factor = static_cast<double>(Arithmetic::multiply(static_cast<Element>(factor), multiple));
    add_multiple(sum, 1, own);
    const auto& inputs = contents_.list[c].inputs;
    double& factor = factors[at(static_cast<int>(std::ranges::find(inputs, came) - inputs.begin()))];
    factor = static_cast<double>(Arithmetic::add(static_cast<Element>(factor), 1));
    return Status::ok();
  }

  // The way goes on with the sum: the duals follow.
  void move(const User& user, std::size_t c) {
    Terminal& terminal = terminals_[user.terminal];
    terminal.now[user.way] = static_cast<int>(c);
    Vector& own = terminal.duals[user.way];
    const Element scale = Arithmetic::inverse(product(rows_[c], own));
    for (Element& value : own) value = Arithmetic::multiply(value, scale);
    for (std::size_t k = 0; k < terminal.duals.size(); ++k) {
      if (k != user.way) add_multiple(terminal.duals[k], product(rows_[c], terminal.duals[k]), own);
    }
  }

  const std::vector<TerminalWays>& ways_;
  const Contents& contents_;
  const std::vector<std::vector<User>> users_;
  std::vector<Vector> rows_;  // by content
  std::vector<Terminal> terminals_;
};

// Sums of floats with factors that are drawn, scaled to length 1 so that no sum outgrows its blocks.
Coefficients drawn(const EdgeGraph& graph, const Contents& contents, std::uint64_t seed) {
  std::mt19937_64 chance(seed);
  Coefficients out;
  for (const Content& content : contents.list) {
    std::vector<double>& factors = out.factors.emplace_back();
    std::vector<double>& row = out.rows.emplace_back(at(graph.blocks), 0.0);
    if (content.block >= 0) {
      row[at(content.block)] = 1.0;
      continue;
    }
    double squares = 0.0;
    for (std::size_t i = 0; i < content.inputs.size(); ++i) {
      // The same on every machine, as the distributions of the standard library are not.
      const double magnitude = 0.5 + static_cast<double>(chance() % 1024) / 2048;
      const double sign = chance() % 2 == 0 ? 1.0 : -1.0;
      factors.push_back(seed == 0 ? 1.0 : sign * magnitude);
      squares += factors.back() * factors.back();
    }
    for (std::size_t i = 0; i < factors.size(); ++i) {
      factors[i] = static_cast<double>(static_cast<float>(factors[i] / std::sqrt(squares)));
      for (std::size_t b = 0; b < row.size(); ++b) row[b] += factors[i] * out.rows[at(content.inputs[i])][b];
    }
  }
  return out;
}

double frobenius(const CoefficientMatrix& matrix) {
  double squares = 0.0;
  for (const double value : matrix) squares += value * value;
  return std::sqrt(squares);
}

// Of the worst terminal; infinite where one cannot solve.
double solve_sinks(const Field& field, const std::vector<TerminalWays>& ways, const Contents& contents,
                   Coefficients& out) {
  double worst = 0.0;
  out.inverses.clear();
  for (const TerminalWays& of_terminal : ways) {
    const CoefficientMatrix matrix = sink_matrix(of_terminal, contents, out.rows);
    const Result<CoefficientMatrix> inverse = field.inverse(matrix);
    if (!inverse.is_ok()) return INFINITY;
    // The identity has condition K in this norm, and a generation nothing to lose.
    worst =
        std::max(worst, frobenius(matrix) * frobenius(*inverse) / static_cast<double>(of_terminal.size()));
    out.inverses.push_back(rows_of(*inverse));
  }
  return worst;
}

Result<Coefficients> float_coefficients(const EdgeGraph& graph, const std::vector<TerminalWays>& ways,
                                        const Contents& contents) {
  Coefficients best;
  best.condition = INFINITY;
  for (int candidate = 0; candidate < kFloatCandidates; ++candidate) {
    look_at_budget();
    Coefficients drawn_one = drawn(graph, contents, static_cast<std::uint64_t>(candidate));
    drawn_one.condition = solve_sinks(field_of(FieldKind::kFloat32), ways, contents, drawn_one);
    if (drawn_one.condition < best.condition) best = std::move(drawn_one);
    if (contents.sum_count() == 0) break;
  }
  if (best.condition > kMostCodeCondition) {
    return failed_precondition(
        fmt::format("floats: the best of {} codes has condition number {:.3g}, {:g} is the "
                    "most; code bytes instead",
                    kFloatCandidates, best.condition, kMostCodeCondition));
  }
  return best;
}

template <typename Element>
Status run_flow(const EdgeGraph& graph, const std::vector<TerminalWays>& ways, const Contents& contents,
                Coefficients& out) {
  return InformationFlow<Element>(graph, ways, contents).run(out);
}

}  // namespace

Result<Coefficients> code_coefficients(FieldKind field, const CodeProblem& problem, const EdgeGraph& graph,
                                       const std::vector<TerminalWays>& ways, const Contents& contents) {
  if (field == FieldKind::kFloat32) return float_coefficients(graph, ways, contents);
  Coefficients out;
  SQUARE_RETURN_IF_ERROR(field == FieldKind::kGf256 ? run_flow<std::uint8_t>(graph, ways, contents, out)
                                                    : run_flow<std::uint16_t>(graph, ways, contents, out));
  if (solve_sinks(field_of(field), ways, contents, out) == INFINITY) {
    return internal_error(fmt::format("a code for {} terminals cannot be solved", problem.terminals.size()));
  }
  return out;
}

}  // namespace square::planning
