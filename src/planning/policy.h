// What all policies are to the planner.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "planning/problem/sessions.h"
#include "square/planner.h"
#include "square/scenario.h"
#include "square/status.h"

namespace square::planning {

// Makes one plan after another. Thread-compatible.
class Policy {
 public:
  virtual ~Policy() = default;

  // The plan of a scenario that check_scenario() let through, not validated yet, without
  // solve_seconds and changes. A policy may start from where a plan before ended. Errors: those
  // of make_plan() that come from the overlay, the collectives or a solver. What it throws where
  // a budget is spent leaves it as it was.
  virtual Result<PlanResult> plan(const Scenario& scenario, const PlanOptions& options) = 0;

  // The plan that was made last was taken: the next may start from it, and not before.
  virtual void start_from_last() {}

  // See cost_frontier(). Errors: INVALID_ARGUMENT where the policy knows no cost.
  virtual Result<std::vector<FrontierPoint>> frontier(const Scenario& scenario, int points);
};

struct PolicyEntry {
  std::string_view name;
  std::unique_ptr<Policy> (*make)();
  // Objectives, budgets, required rates, bounds on latency, things to avoid: does it know them?
  bool meets_demands = false;
  // What it makes of collectives.
  Expansion expansion = {};
};

// In the order in which they are listed to people.
std::span<const PolicyEntry> policies();

// nullptr for an unknown name.
const PolicyEntry* find_policy(std::string_view name);

// The first that meets demands, for who asked another one.
std::string_view policy_that_meets_demands();

}  // namespace square::planning
