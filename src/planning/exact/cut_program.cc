#include "planning/exact/cut_program.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/spending.h"
#include "planning/packing/steiner.h"

namespace square::planning {
namespace {

// A cut that lets this much less than one unit through is worth adding.
constexpr double kViolation = 1e-9;
constexpr double kAsCheap = 1.0 + 1e-11;
constexpr int kMaxCutRounds = 2'000;
// Flows first look for cuts between the program's usage and the best tree's.
constexpr double kTowardsTree = 0.5;

std::vector<int> rows_of(const std::vector<double>& cost) {
  std::vector<int> rows;
  int next = 0;
  for (const double value : cost) rows.push_back(value > 0.0 ? next++ : -1);
  return rows;
}

LinearProgram program_of(const std::vector<double>& cost, double scale) {
  LinearProgram program;
  for (const double value : cost) {
    if (value > 0.0) program.add_row({-kLpInfinity, value / scale});
  }
  return program;
}

}  // namespace

CutProgram::CutProgram(const Digraph& graph, int root, const std::vector<int>& terminals,
                       const std::vector<double>& cost, const CutPacking& start, std::vector<int> tree)
    : graph_(graph),
      root_(root),
      terminals_(terminals),
      cost_(cost),
      scale_(tree_cost(tree, cost) / static_cast<double>(terminals.size())),
      row_(rows_of(cost)),
      program_(program_of(cost, scale_)),
      tree_(std::move(tree)),
      flow_(graph, root) {
  for (const CutPacking::Cut& cut : start.cuts) add(cut.far_side);
}

bool CutProgram::add(const std::vector<int>& far_side) {
  if (!known_.insert(far_side).second) return false;
  std::vector<char> inside(graph_.node_count(), 0);
  for (const int node : far_side) inside[node] = 1;
  std::vector<IncrementalProgram::Term> terms;
  for (const int node : far_side) {
    for (const int arc : graph_.in[node]) {
      if (inside[graph_.arcs[arc].from] == 0) terms.push_back({row_[arc], 1.0});
    }
  }
  program_.add_column({0.0, kLpInfinity, 1.0}, terms);
  cuts_.push_back(far_side);
  return true;
}

Status CutProgram::solve() {
  for (int round = 0; round < kMaxCutRounds; ++round) {
    look_at_budget();
    SQUARE_ASSIGN_OR_RETURN(const Solution solution, program_.solve());
    keep(solution);
    look_for_tree();
    if (tree_is_as_cheap(packing_.length)) {
      usage_.assign(cost_.size(), 0.0);
      for (const int arc : tree_) usage_[arc] = 1.0;
      return Status::ok();
    }
    if (!separate(kTowardsTree) && !separate(0.0)) return Status::ok();
  }
  return resource_exhausted("flow relaxation: no optimum after as many rounds as are allowed");
}

bool CutProgram::tree_is_as_cheap(double length) const {
  return tree_cost(tree_, cost_) <= length * kAsCheap;
}

// Cheap where the program uses an arc already.
void CutProgram::look_for_tree() {
  std::vector<double> rest = cost_;
  for (std::size_t a = 0; a < rest.size(); ++a) rest[a] *= 1.0 - std::min(usage_[a], 1.0);
  const std::optional<std::vector<int>> tree = heuristic_steiner_tree(graph_, root_, terminals_, rest);
  if (tree_cost(*tree, cost_) < tree_cost(tree_, cost_)) tree_ = *tree;
}

// Adds cuts that the usage violates, moved towards the tree by this share. A cut that is
// violated there is so where the program is, for the tree violates none.
bool CutProgram::separate(double towards_tree) {
  std::vector<double> capacity = usage_;
  for (double& value : capacity) value *= 1.0 - towards_tree;
  for (const int arc : tree_) capacity[arc] += towards_tree;
  for (std::size_t a = 0; a < capacity.size(); ++a) {
    if (row_[a] < 0) capacity[a] = 1.0;
  }
  flow_.set_capacity(capacity);
  bool added = false;
  for (const int terminal : terminals_) {
    look_at_budget();
    if (flow_.run(terminal) >= 1.0 - kViolation) continue;
    added = add(flow_.near_sink()) || added;
    added = add(flow_.beyond_root()) || added;
  }
  return added;
}

// The solver keeps rows to its tolerance; the packing keeps them exactly. Only the cuts of
// a row that is too long become shorter, and those are no longer than the row.
void CutProgram::keep(const Solution& solution) {
  usage_.assign(cost_.size(), 0.0);
  for (std::size_t a = 0; a < cost_.size(); ++a) {
    if (row_[a] >= 0) usage_[a] = std::max(solution.row_duals[row_[a]], 0.0);
  }
  const LinearProgram& program = program_.program();
  std::vector<double> sum(program.rows.size(), 0.0);
  for (const LinearProgram::Entry& entry : program.entries) {
    sum[entry.row] += std::max(solution.primal[entry.column], 0.0);
  }
  std::vector<double> factor(cuts_.size(), 1.0);
  for (const LinearProgram::Entry& entry : program.entries) {
    const double limit = program.rows[entry.row].upper;
    if (sum[entry.row] > limit) factor[entry.column] = std::min(factor[entry.column], limit / sum[entry.row]);
  }
  packing_ = {};
  for (std::size_t c = 0; c < cuts_.size(); ++c) {
    if (solution.primal[c] <= 0.0) continue;
    packing_.cuts.push_back({cuts_[c], solution.primal[c] * factor[c] * scale_});
    packing_.length += packing_.cuts.back().length;
  }
}

}  // namespace square::planning
