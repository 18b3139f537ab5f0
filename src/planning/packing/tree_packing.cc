#include "planning/packing/tree_packing.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/spending.h"
#include "lp/solver.h"
#include "planning/packing/arborescence.h"
#include "planning/packing/steiner.h"

namespace square::planning {
namespace {

// Multiplicative weights: rounds before the first linear program, and their step.
constexpr int kMinSeedRounds = 12;
constexpr int kArcsPerSeedRound = 2;
constexpr int kMaxSeedRounds = 200;
constexpr double kLengthStep = 0.5;
// How much longer a seed finds an arc for each hop between its tail and the root.
constexpr double kSeedDepthBias = 0.05;
// The deepest possible tree is worth this much less than the shallowest, per unit of rate.
constexpr double kDepthPenalty = 1e-5;
constexpr int kMaxPackingRounds = 2'000;
// A tree is worth adding when it gains this much per unit of rate.
constexpr double kGain = 1e-4;
constexpr double kComplete = 1.0 - kGain;
// Steps that one exact Steiner tree may take.
constexpr double kMaxExactWork = 2e7;
constexpr double kNoTreeRate = 1e-9;
constexpr int kMaxThinPasses = 5;

using Tree = std::vector<int>;

class Packing {
 public:
  explicit Packing(const PackingRequest& request)
      : request_(request), graph_(request.graph), master_(rows(request)) {
    const Distances hops =
        shortest_from(graph_, {request.root}, std::vector<double>(graph_.arcs.size(), 1.0));
    double deepest = 1.0;
    for (const Digraph::Arc& arc : graph_.arcs) {
      depth_.push_back(hops.distance[arc.from]);
      deepest = std::max(deepest, depth_.back());
    }
    for (const double depth : depth_)
      penalty_.push_back(kDepthPenalty * depth / (deepest * graph_.node_count()));
    spanning_ = request.terminals.size() + 1 == graph_.out.size();
    for (int a = 0; a < static_cast<int>(graph_.arcs.size()); ++a) rows_of_.push_back({a});
    for (std::size_t l = 0; l < request.limits.size(); ++l) {
      for (const int arc : request.limits[l].arcs) {
        rows_of_[arc].push_back(static_cast<int>(graph_.arcs.size() + l));
      }
    }
  }

  Result<std::vector<PackedTree>> run() {
    for (const Tree& seed : request_.seeds) {
      add(prune_to_tree(graph_, request_.root, request_.terminals, seed, depth_));
    }
    SQUARE_ASSIGN_OR_RETURN(Solution solution, master_.solve());
    if (total(solution) < kComplete) {
      add_weighted_seeds();
      SQUARE_RETURN_IF_ERROR(generate(solution));
    }
    std::vector<PackedTree> packed = positive(trees_, solution);
    SQUARE_RETURN_IF_ERROR(drop_thin(packed));
    clip(packed);
    return packed;
  }

 private:
  // One row an arc, one a limit, and the last for the session's rate.
  static LinearProgram rows(const PackingRequest& request) {
    LinearProgram program;
    for (const double capacity : request.capacity) program.add_row({-kLpInfinity, capacity});
    for (const auto& limit : request.limits) program.add_row({-kLpInfinity, limit.capacity});
    program.add_row({-kLpInfinity, 1.0});
    return program;
  }

  [[nodiscard]] double value(const Tree& tree) const { return 1.0 - tree_cost(tree, penalty_); }

  [[nodiscard]] std::vector<IncrementalProgram::Term> terms(const Tree& tree) const {
    std::vector<IncrementalProgram::Term> result;
    for (const int arc : tree) {
      for (const int row : rows_of_[arc]) result.push_back({row, 1.0});
    }
    result.push_back({static_cast<int>(master_.program().rows.size()) - 1, 1.0});
    return result;
  }

  bool add(Tree tree) {
    Tree sorted = tree;
    std::sort(sorted.begin(), sorted.end());
    if (!known_.insert(std::move(sorted)).second) return false;
    master_.add_column({0, kLpInfinity, value(tree)}, terms(tree));
    trees_.push_back(std::move(tree));
    return true;
  }

  static double total(const Solution& solution) {
    double sum = 0.0;
    for (const double rate : solution.primal) sum += std::max(rate, 0.0);
    return sum;
  }

  [[nodiscard]] std::optional<Tree> cheap_tree(const std::vector<double>& cost) const {
    std::optional<Tree> tree;
    if (spanning_) {
      tree = minimum_arborescence(graph_, request_.root, cost);
    } else {
      return heuristic_steiner_tree(graph_, request_.root, request_.terminals, cost);
    }
    if (tree.has_value()) *tree = prune_to_tree(graph_, request_.root, request_.terminals, *tree, cost);
    return tree;
  }

  // Garg and Koenemann's lengths: each round makes the arcs of its tree longer.
  void add_weighted_seeds() {
    std::vector<double> length;
    for (std::size_t a = 0; a < graph_.arcs.size(); ++a) {
      length.push_back((1.0 + kSeedDepthBias * depth_[a]) / request_.capacity[a]);
    }
    const int rounds =
        std::clamp(static_cast<int>(graph_.arcs.size()) / kArcsPerSeedRound, kMinSeedRounds, kMaxSeedRounds);
    for (int round = 0; round < rounds; ++round) {
      look_at_budget();
      std::optional<Tree> tree = cheap_tree(length);
      if (!tree.has_value()) return;
      double bottleneck = 1.0;
      for (const int arc : *tree) bottleneck = std::min(bottleneck, request_.capacity[arc]);
      for (const int arc : *tree) length[arc] *= 1.0 + kLengthStep * bottleneck / request_.capacity[arc];
      add(std::move(*tree));
    }
  }

  Status generate(Solution& solution) {
    for (int round = 0; round < kMaxPackingRounds; ++round) {
      look_at_budget();
      SQUARE_ASSIGN_OR_RETURN(solution, master_.solve());
      if (total(solution) >= kComplete || !add_better_tree(solution)) return Status::ok();
    }
    return Status::ok();
  }

  bool add_better_tree(const Solution& solution) {
    std::vector<double> cost;
    for (std::size_t a = 0; a < graph_.arcs.size(); ++a) {
      cost.push_back(penalty_[a]);
      for (const int row : rows_of_[a]) cost.back() += std::max(solution.row_duals[row], 0.0);
    }
    const double affordable = 1.0 - std::max(solution.row_duals.back(), 0.0) - kGain;
    std::optional<Tree> tree = cheap_tree(cost);
    if (!tree.has_value()) return false;
    if (tree_cost(*tree, cost) < affordable) return add(std::move(*tree));
    const bool is_exact = spanning_ || request_.terminals.size() == 1;
    if (is_exact || exact_steiner_work(graph_, request_.terminals.size()) > kMaxExactWork) return false;
    tree = exact_steiner_tree(graph_, request_.root, request_.terminals, cost);
    return tree.has_value() && tree_cost(*tree, cost) < affordable && add(std::move(*tree));
  }

  static std::vector<PackedTree> positive(const std::vector<Tree>& trees, const Solution& solution) {
    std::vector<PackedTree> packed;
    for (std::size_t t = 0; t < trees.size(); ++t) {
      if (solution.primal[t] > kNoTreeRate) packed.push_back({trees[t], solution.primal[t]});
    }
    // Widest first; the order of discovery decides among equals.
    std::stable_sort(packed.begin(), packed.end(),
                     [](const PackedTree& a, const PackedTree& b) { return a.rate > b.rate; });
    return packed;
  }

  static double sum_of(const std::vector<PackedTree>& packed) {
    double sum = 0.0;
    for (const PackedTree& tree : packed) sum += tree.rate;
    return sum;
  }

  // The best that the first `count` of these trees do by themselves.
  Result<std::vector<PackedTree>> among(const std::vector<PackedTree>& packed, std::size_t count) const {
    LinearProgram program = rows(request_);
    std::vector<Tree> trees;
    for (std::size_t t = 0; t < count; ++t) {
      const int column = program.add_column({0, kLpInfinity, value(packed[t].arcs)});
      for (const auto& term : terms(packed[t].arcs)) program.add_entry(term.row, column, term.value);
      trees.push_back(packed[t].arcs);
    }
    SQUARE_ASSIGN_OR_RETURN(const Solution solution, solve(program));
    return positive(trees, solution);
  }

  // Tries without all thin trees, then with the 1, 2, 4, ... widest of them.
  Status drop_thin(std::vector<PackedTree>& packed) const {
    const double before = sum_of(packed);
    for (int pass = 0; pass < kMaxThinPasses; ++pass) {
      const auto first_thin = std::find_if(packed.begin(), packed.end(), [&](const PackedTree& tree) {
        return tree.rate < kThinStream * before;
      });
      const auto thick = static_cast<std::size_t>(first_thin - packed.begin());
      if (thick == packed.size()) return Status::ok();
      std::size_t kept_thin = 0;
      while (thick + kept_thin < packed.size()) {
        SQUARE_ASSIGN_OR_RETURN(std::vector<PackedTree> fewer, among(packed, thick + kept_thin));
        if (sum_of(fewer) >= before * (1.0 - kThinLoss)) {
          packed = std::move(fewer);
          break;
        }
        kept_thin = std::max<std::size_t>(1, 2 * kept_thin);
      }
      if (kept_thin > 0) return Status::ok();  // the thin ones that stay are needed
    }
    return Status::ok();
  }

  // The solver keeps rows to its tolerance; the result keeps them exactly.
  void clip(std::vector<PackedTree>& packed) const {
    const std::vector<LinearProgram::Row>& rows = master_.program().rows;
    std::vector<double> load(rows.size(), 0.0);
    for (const PackedTree& tree : packed) {
      for (const auto& term : terms(tree.arcs)) load[term.row] += tree.rate;
    }
    for (PackedTree& tree : packed) {
      double factor = 1.0;
      for (const auto& term : terms(tree.arcs))
        factor = std::min(factor, rows[term.row].upper / load[term.row]);
      tree.rate *= factor;
    }
  }

  const PackingRequest& request_;
  const Digraph& graph_;
  IncrementalProgram master_;
  std::vector<double> depth_;              // by arc: hops from the root to its tail
  std::vector<double> penalty_;            // by arc
  std::vector<std::vector<int>> rows_of_;  // by arc: its own, and its limits
  bool spanning_ = false;                  // every node is the root or a terminal
  std::vector<Tree> trees_;                // by column of the master
  std::set<Tree> known_;
};

}  // namespace

Result<std::vector<PackedTree>> pack_trees(const PackingRequest& request) { return Packing(request).run(); }

}  // namespace square::planning
