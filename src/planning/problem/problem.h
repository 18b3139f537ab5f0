// What every linear program of a plan is made from.
#pragma once

#include <vector>

#include "planning/plan/assumption.h"
#include "planning/problem/sessions.h"
#include "square/paths.h"
#include "square/scenario.h"

namespace square::planning {

// US dollars an hour that a bit per second costs at one US dollar a GB.
inline constexpr double kUsdPerHour = 3600.0 / (kBitsPerByte * 1e9);

// What there is to give away, bits per second: by LinkId, by NodeId.
struct Network {
  std::vector<double> capacity_bps;
  std::vector<double> egress_bps;  // kUnlimited where there is no limit
  std::vector<double> ingress_bps;
};

// The overlay's capacities, less so many standard deviations, with unlimited links replaced by what is
// assumed of them (planning/plan/assumption.h).
Network planning_network(const Topology& topology, double headroom = 0.0);

// The same with the policy's headroom. Errors: INVALID_ARGUMENT naming a link of which
// nothing is left.
Result<Network> with_headroom(const Scenario& scenario);

struct Problem {
  const Scenario* scenario = nullptr;
  Network network;
  std::vector<Session> sessions;
  // Feasible paths P_ij: [session][destination].
  std::vector<std::vector<std::vector<Path>>> paths;
  // By collective: w_c, and the positions of its sessions.
  std::vector<double> weight;
  std::vector<std::vector<std::size_t>> sessions_of;
  // Groups, and collectives of none: turns that follow one another (job_turn_of()), each with the positions
  // of its collectives that send something. Most jobs have one turn of one collective.
  struct Job {
    std::vector<std::vector<std::size_t>> turns;

    [[nodiscard]] bool has_sequence() const { return turns.size() > 1; }
  };
  std::vector<Job> jobs;
  std::vector<std::size_t> job_of;  // by collective

  [[nodiscard]] const Topology& topology() const { return scenario->topology; }
};

// Fills what follows from the scenario and the sessions: weights, jobs, and whose sessions are where.
void index_sessions(const Scenario& scenario, Problem& problem);

// w_c of every collective, by the scenario's kind of fairness. Where tenants are compared, a tenant's jobs
// share what it weighs, and those of a job that run at once share what the job does.
std::vector<double> collective_weights(const Scenario& scenario);

}  // namespace square::planning
