// From a scenario to a plan.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "square/plan.h"
#include "square/scenario.h"

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

// Policies by name:
//   square          k-shot max-min (equation 6) over the k shortest or widest paths
//   max-throughput  the largest sum of rates (equation 1) over the same paths
//   shortest-path   baseline: one tree of shortest paths a session, then as square
//   mcf             baseline: every multicast turned into unicasts, then as square
//
// Solves, packs the rates into trees, certifies and validates. Errors: INVALID_ARGUMENT
// for what check_scenario refuses, an unknown policy, an operation that this release
// cannot plan (UNIMPLEMENTED); FAILED_PRECONDITION naming source and destination where
// no path exists; INTERNAL where every way to solve a program failed its checks.
// Blocks for as long as it computes. Thread-safe.
Result<PlanResult> make_plan(const Scenario& scenario);

std::vector<std::string_view> policy_names();

}  // namespace square
