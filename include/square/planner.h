// From a scenario to a plan.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "square/budget.h"
#include "square/plan.h"
#include "square/scenario.h"
#include "square/units.h"

namespace square {

// One linear program of a plan as it was solved, for oracles and curious people.
struct ShotTrace {
  enum class Objective { kMaxMin, kThroughput };
  Objective objective = Objective::kMaxMin;
  // kMaxMin: X, the smallest rate / weight (equation 6). kThroughput: the sum of the
  // collectives' rates (equation 1). Bits per second.
  double optimum_bps = 0;
  // The collectives that took part, and those dropped after it.
  std::vector<CollectiveId> active;
  std::vector<CollectiveId> dropped;
  // What was left before it: by LinkId, by NodeId; kUnlimited where there is no limit.
  std::vector<double> residual_capacity_bps;
  std::vector<double> residual_egress_bps;
  std::vector<double> residual_ingress_bps;
};

struct PlanResult {
  Plan plan;
  std::vector<ShotTrace> shots;
};

struct PlanOptions {
  // Without streams a plan has lp rates and their certificate only, and is made faster.
  bool streams = true;
  // When to stop, with an error.
  Budget budget = {};
};

// Policies by name:
//   exact           lexicographic max-min, or least cost, with no path restriction: the
//                   policy where none is named
//   square          the paper's: k-shot max-min (equation 6) over the k shortest or widest paths
//   max-throughput  the largest sum of rates (equation 1) over the same paths as square
//   shortest-path   baseline: one tree of shortest paths a session, then as square
//   mcf             baseline: every multicast turned into unicasts, then as square
//
// Solves, makes streams, certifies and validates. Errors: INVALID_ARGUMENT for what
// check_scenario refuses, an unknown policy, a part of the policy that it does not know;
// UNIMPLEMENTED for an operation that it cannot plan; FAILED_PRECONDITION naming source
// and destination where no path exists, or the collective whose required rate or latency
// bound cannot be had; INTERNAL where every way to solve a program failed its checks.
// Also CANCELLED where the budget was cancelled, DEADLINE_EXCEEDED, naming what it was at, where
// its time is over: within about 50 ms, in the middle of whatever it does.
// Blocks for as long as it computes. Thread-safe.
Result<PlanResult> make_plan(const Scenario& scenario, const PlanOptions& options = {});

// A plan that fits, in milliseconds where make_plan() takes seconds or minutes: Plan::provisional.
// A few trees a session, spread over the overlay, and max-min fair rates over them; it keeps every
// capacity and limit, and what the policy avoids, but proves nothing, whatever the policy. The same
// scenario has the same plan. Errors: as make_plan(); FAILED_PRECONDITION also for what it cannot
// plan: required rates at the least cost. Thread-safe.
Result<PlanResult> make_quick_plan(const Scenario& scenario, const PlanOptions& options = {});

// Plans one scenario after another, each from where the one before ended: what capacities
// change, who joins or leaves, which nodes and links are there no more is found by
// comparison (nodes by name, collectives by id). Plans of other policies than "exact" are
// made afresh each time. Thread-compatible: it may go from one thread to another between plans.
class Planner {
 public:
  Planner();
  Planner(Planner&&) noexcept;
  Planner& operator=(Planner&&) noexcept;
  ~Planner();

  // As make_plan(); Plan::changes says what is other than in the last plan. After an error
  // the state is that of the last plan that was made.
  Result<PlanResult> plan(const Scenario& scenario, const PlanOptions& options = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Has a plan in time: the policy's own where that is soon made, otherwise a quick one at once and the
// policy's own when it is ready. Plans on a thread that it owns. Calls must not overlap, but cancel() and
// stop() may come from any thread.
class BackgroundPlanner {
 public:
  // `ready` is called on this object's thread, or in plan(), no lock held, when take_better() has something
  // to give. It may come late, when that is no longer so, and must not call back.
  explicit BackgroundPlanner(std::function<void()> ready);
  BackgroundPlanner(BackgroundPlanner&&) noexcept;
  BackgroundPlanner& operator=(BackgroundPlanner&&) noexcept;
  // Cancels what is under way and waits for that, as long as cancelling a plan takes.
  ~BackgroundPlanner();

  // In the place of what is under way, which is cancelled; where little is other the new plan is the last one
  // with that on top, and what is under way goes on for a while. Blocks for `patience`, unless planning
  // is known to take longer, for what cancelling takes and for a quick plan; where there is none to be had,
  // until the plan is made. The next plan starts from the last that was made. Errors: as make_plan();
  // CANCELLED.
  Result<PlanResult> plan(Scenario scenario, Duration patience);

  // After plan() gave a provisional plan, once: the policy's own of the same scenario, or why there is
  // none; or its own of an older one with what is new on top, provisional, and a better one follows.
  // nullopt: not yet. Blocks no longer than such a plan takes.
  std::optional<Result<PlanResult>> take_better();

  // What is under way ends with CANCELLED, soon.
  void cancel();
  // And so does whatever is asked for from now on.
  void stop();

 private:
  class Worker;
  struct History;
  Result<PlanResult> note(Result<PlanResult> made, bool is_extension);

  std::unique_ptr<Worker> worker_;
  std::unique_ptr<History> history_;
};

// One point of the frontier between rate and cost: no plan that costs as little gives
// every collective more than level_bps per unit of weight.
struct FrontierPoint {
  double level_bps = 0;          // reached, by trees
  double cost_usd_per_hour = 0;  // of that
  double cost_bound_usd_per_hour = 0;
};

inline constexpr int kMaxFrontierPoints = 10'000;

// `points` plans with levels evenly spaced up to the largest that there is. Policy "exact"
// only. Errors: as make_plan(); INVALID_ARGUMENT for fewer than 2 or too many points.
Result<std::vector<FrontierPoint>> cost_frontier(const Scenario& scenario, int points,
                                                 const Budget& budget = {});

std::vector<std::string_view> policy_names();

}  // namespace square
