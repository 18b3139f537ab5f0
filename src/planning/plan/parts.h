// The parts of a Plan that follow from its sessions, whatever policy made them.
#pragma once

#include <vector>

#include "planning/problem/problem.h"
#include "square/plan.h"

namespace square::planning {

// Nodes, and links with the capacities of the topology.
void add_overlay(const Problem& problem, Plan& plan);

// A session without rates and streams.
PlanSession plan_session(const Problem& problem, const Session& session);

// Collectives, from the rates of plan.sessions, one for each of problem.sessions in order.
// Bounds are left unlimited.
void add_collectives(const Problem& problem, Plan& plan);

// The loads of links, of each job the most that one of its turns puts there, and what each collective
// costs, from the streams.
void add_loads(const Problem& problem, Plan& plan);

// What the streams put on each link: [collective][link].
std::vector<std::vector<double>> loads_by_collective(const Problem& problem, const Plan& plan);

// Tenants and totals, from the collectives, of each job its fastest turn. Those that send nothing are in no
// sum.
void add_sums(const Problem& problem, Plan& plan);

}  // namespace square::planning
