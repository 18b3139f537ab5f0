#include "planning/codes/disjoint_ways.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/spending.h"

namespace square::planning {
namespace {

// How often a terminal's ways are looked for again because they closed a circle.
constexpr int kMostCircles = 16;
constexpr int kNone = -1;

// The flow of one terminal: each edge is passed once at most, so it has two sides, and from the far side of
// one a step leads to the near side of those that leave its head.
class WayFlow {
 public:
  using Step = std::pair<int, int>;

  WayFlow(const EdgeGraph& graph, const std::vector<std::vector<int>>& inputs,
          const std::vector<int>& content, const std::set<Step>& forbidden)
      : graph_(graph), inputs_(inputs), content_(content), forbidden_(forbidden) {
    const auto count = static_cast<std::size_t>(graph.edge_count());
    next_.assign(count, kNone);
    before_.assign(count, kNone);
  }

  // So many ways to the terminal, or fewer where there are no more.
  TerminalWays run(int terminal, int wanted) {
    terminal_ = terminal;
    while (static_cast<int>(ends_.size()) < wanted && augment()) continue;
    TerminalWays ways;
    for (const int end : ends_) {
      std::vector<int> way;
      for (int edge = end; edge != kNone; edge = before_[at(edge)]) way.push_back(edge);
      std::ranges::reverse(way);
      ways.push_back(std::move(way));
    }
    return ways;
  }

 private:
  static std::size_t at(int edge) { return static_cast<std::size_t>(edge); }
  static int near(int edge) { return 2 * edge; }
  static int far(int edge) { return 2 * edge + 1; }
  [[nodiscard]] bool is_used(int edge) const { return next_[at(edge)] != kNone || ends_.contains(edge); }

  // Of going on from `from` with `edge`.
  [[nodiscard]] int cost(int from, int edge) const {
    const std::vector<int>& inputs = inputs_[at(edge)];
    if (inputs.empty()) return 1;
    const bool brings_the_same = std::ranges::find(inputs, content_[at(from)]) != inputs.end();
    return brings_the_same ? 0 : graph_.edge_count() + 1;
  }

  // One more way, along a shortest path of what is left (Bellman and Ford, in a queue).
  bool augment() {
    const std::size_t sides = 2 * at(graph_.edge_count());
    distance_.assign(sides, std::numeric_limits<int>::max());
    came_.assign(sides, kNone);
    waits_.assign(sides, false);
    queue_.clear();
    for (int block = 0; block < graph_.blocks; ++block) {
      if (!is_used(block)) relax(near(block), kNone, 0);
    }
    while (!queue_.empty()) {
      const int side = queue_.front();
      queue_.pop_front();
      waits_[at(side)] = false;
      side % 2 == 0 ? leave_near(side / 2) : leave_far(side / 2);
    }
    int best = kNone;
    for (int edge = 0; edge < graph_.edge_count(); ++edge) {
      if (graph_.head[at(edge)] != terminal_ || graph_.is_block(edge) || ends_.contains(edge)) continue;
      if (distance_[at(far(edge))] == std::numeric_limits<int>::max()) continue;
      if (best == kNone || distance_[at(far(edge))] < distance_[at(far(best))]) best = edge;
    }
    if (best == kNone) return false;
    apply(best);
    return true;
  }

  void relax(int side, int from, int distance) {
    if (distance >= distance_[at(side)]) return;
    distance_[at(side)] = distance;
    came_[at(side)] = from;
    if (!waits_[at(side)]) queue_.push_back(side);
    waits_[at(side)] = true;
  }

  // Through the edge, or back along the step that enters it.
  void leave_near(int edge) {
    const int here = distance_[at(near(edge))];
    if (!is_used(edge)) return relax(far(edge), near(edge), here);
    if (const int from = before_[at(edge)]; from != kNone)
      relax(far(from), near(edge), here - cost(from, edge));
  }
  void leave_far(int edge) {
    const int here = distance_[at(far(edge))];
    if (is_used(edge)) relax(near(edge), far(edge), here);
    for (const int other : graph_.leaving[at(graph_.head[at(edge)])]) {
      if (other == edge || next_[at(edge)] == other || forbidden_.contains({edge, other})) continue;
      relax(near(other), far(edge), here + cost(edge, other));
    }
  }

  void apply(int last) {
    std::vector<int> sides;
    for (int side = far(last); side != kNone; side = came_[at(side)]) sides.push_back(side);
    std::ranges::reverse(sides);
    // What is taken back first: the new steps may use the same edges.
    std::vector<Step> steps;
    for (std::size_t k = 0; k + 1 < sides.size(); ++k) {
      const int here = sides[k] / 2;
      const int there = sides[k + 1] / 2;
      if (here == there) continue;
      if (sides[k] % 2 == 0) {  // back from `here` to the edge before it
        next_[at(there)] = kNone;
        before_[at(here)] = kNone;
      } else {
        steps.emplace_back(here, there);
      }
    }
    for (const auto& [from, to] : steps) {
      next_[at(from)] = to;
      before_[at(to)] = from;
    }
    ends_.insert(last);
  }

  const EdgeGraph& graph_;
  const std::vector<std::vector<int>>& inputs_;
  const std::vector<int>& content_;
  const std::set<Step>& forbidden_;
  int terminal_ = 0;
  std::vector<int> next_;    // by edge, on its way; kNone also at the end
  std::vector<int> before_;  // by edge
  std::set<int> ends_;
  std::vector<int> distance_;
  std::vector<int> came_;
  std::vector<bool> waits_;
  std::deque<int> queue_;
};

class Search {
 public:
  Search(const CodeProblem& problem, const EdgeGraph& graph) : problem_(problem), graph_(graph) {}

  Result<std::vector<TerminalWays>> run(const std::vector<std::size_t>& order) {
    for (const std::size_t j : order) {
      look_at_budget();
      SQUARE_RETURN_IF_ERROR(add_terminal(j));
    }
    std::vector<TerminalWays> by_terminal(ways_.size());
    for (std::size_t k = 0; k < order.size(); ++k) by_terminal[order[k]] = std::move(ways_[k]);
    return by_terminal;
  }

 private:
  Status add_terminal(std::size_t j) {
    read_contents();
    std::set<WayFlow::Step> forbidden = closing_steps();
    for (int circles = 0; circles < kMostCircles; ++circles) {
      TerminalWays found =
          WayFlow(graph_, inputs_, content_, forbidden).run(problem_.terminals[j], problem_.blocks);
      const bool is_whole = static_cast<int>(found.size()) == problem_.blocks;
      if (!is_whole) {
        const std::string what =
            fmt::format("terminal {} has {} of {} ways", j, found.size(), problem_.blocks);
        return forbidden.empty() ? not_found(what) : aborted(what + " without a circle");
      }
      ways_.push_back(std::move(found));
      if (Contents::of(graph_, ways_)) return Status::ok();
      found = std::move(ways_.back());
      ways_.pop_back();
      forbid_one(found, forbidden);
    }
    return aborted(fmt::format("the ways of terminal {} feed one another in a circle", j));
  }

  void read_contents() {
    const auto count = static_cast<std::size_t>(graph_.edge_count());
    inputs_.assign(count, {});
    content_.assign(count, kNone);
    before_ = edges_before(graph_, ways_);
    const std::optional<Contents> contents = Contents::of(graph_, ways_);
    content_ = contents->of_edge;
    for (std::size_t e = 0; e < count; ++e) {
      for (const int other : before_[e]) inputs_[e].push_back(content_[static_cast<std::size_t>(other)]);
    }
    order_ = contents->order;
  }

  // Steps back to an edge that feeds, by others, the one that is stepped from.
  [[nodiscard]] std::set<WayFlow::Step> closing_steps() const {
    const auto count = static_cast<std::size_t>(graph_.edge_count());
    std::vector<std::vector<bool>> feeds(count);  // by edge: whom it comes from
    std::set<WayFlow::Step> closing;
    for (const int edge : order_) {
      const auto e = static_cast<std::size_t>(edge);
      feeds[e].assign(count, false);
      for (const int other : before_[e]) {
        const auto o = static_cast<std::size_t>(other);
        feeds[e][o] = true;
        for (std::size_t k = 0; k < count; ++k) {
          if (feeds[o][k]) feeds[e][k] = true;
        }
      }
      for (const int next : graph_.leaving[static_cast<std::size_t>(graph_.head[e])]) {
        if (feeds[e][static_cast<std::size_t>(next)]) closing.insert({edge, next});
      }
    }
    return closing;
  }

  // The first new step of a way that is in a circle with the others.
  void forbid_one(const TerminalWays& found, std::set<WayFlow::Step>& forbidden) const {
    std::vector<TerminalWays> all = ways_;
    all.push_back({});
    for (const std::vector<int>& way : found) {
      for (std::size_t k = 1; k < way.size(); ++k) {
        all.back().push_back({way[k - 1], way[k]});
        if (closes_circle(all)) {
          forbidden.insert({way[k - 1], way[k]});
          return;
        }
      }
    }
  }

  [[nodiscard]] bool closes_circle(const std::vector<TerminalWays>& ways) const {
    const std::vector<std::vector<int>> before = edges_before(graph_, ways);
    enum class Mark { kNew, kOpen, kDone };
    std::vector<Mark> marks(before.size(), Mark::kNew);
    const auto visit = [&](const auto& self, std::size_t edge) -> bool {
      marks[edge] = Mark::kOpen;
      for (const int other : before[edge]) {
        const Mark mark = marks[static_cast<std::size_t>(other)];
        if (mark == Mark::kOpen || (mark == Mark::kNew && self(self, static_cast<std::size_t>(other)))) {
          return true;
        }
      }
      marks[edge] = Mark::kDone;
      return false;
    };
    for (std::size_t edge = 0; edge < before.size(); ++edge) {
      if (marks[edge] == Mark::kNew && visit(visit, edge)) return true;
    }
    return false;
  }

  const CodeProblem& problem_;
  const EdgeGraph& graph_;
  std::vector<TerminalWays> ways_;
  // Of the terminals so far.
  std::vector<std::vector<int>> before_;
  std::vector<std::vector<int>> inputs_;  // by edge: contents
  std::vector<int> content_;              // by edge
  std::vector<int> order_;
};

}  // namespace

Result<std::vector<TerminalWays>> disjoint_ways(const CodeProblem& problem, const EdgeGraph& graph,
                                                const std::vector<std::size_t>& order) {
  return Search(problem, graph).run(order);
}

}  // namespace square::planning
