// From duals to a certificate that anyone can check.
#pragma once

#include <vector>

#include "planning/exact/fairness.h"
#include "square/plan.h"

namespace square::planning {

// A level's duals with cuts under them for every demand, whatever found them.
struct Proof {
  Duals duals;
  std::vector<CutPacking> packings;  // by demand
  double bound = 0.0;                // what they prove
};

// A freezing level with its proof.
struct ProvenLevel {
  double level = 0.0;               // t
  std::vector<std::size_t> groups;  // that stop here
  Proof proof;
};

// The bound on t (from above) or on the cost (from below) of `targets` that cuts under the
// duals prove. Cuts come from dual ascent, and from the flow relaxation where ascent leaves
// more than `gap` of `demand_cost` open. Without error; what the relaxation cannot do is left.
Proof prove(Generation& generation, const Targets& targets, const Duals& duals,
            const std::vector<double>& demand_cost, double gap);

double proven_bound(const Instance& instance, const Targets& targets, const Proof& proof);

// The targets of each level of `rates`: what was active, and what had stopped with which rate.
std::vector<Targets> level_targets(const Instance& instance, const FairRates& rates);

// As the plan has it: scaled so that the active groups' weighted costs sum to one.
PlanLevel plan_level(const Instance& instance, const Targets& targets, const Proof& proof,
                     const std::vector<std::size_t>& groups);

}  // namespace square::planning
