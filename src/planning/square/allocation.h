// What linear programs give to a session.
#pragma once

#include <map>
#include <vector>

#include "planning/problem/problem.h"

namespace square::planning {

// Rates in bits per second. link_bps is x_i(e), the effective rate.
struct Allocation {
  double rate_bps = 0.0;
  std::vector<std::vector<double>> path_bps;  // as Problem::paths of the session
  std::map<LinkId, double> link_bps;
};

// One Allocation a session, all zero.
std::vector<Allocation> empty_allocations(const Problem& problem);

// x_i(e): for each link, the largest flow over it towards one destination.
std::map<LinkId, double> effective_rates(const std::vector<std::vector<Path>>& paths,
                                         const std::vector<std::vector<double>>& path_bps);

// Scales path flows down so that together they keep every capacity and limit exactly: a
// solver keeps them to its tolerance only.
void clip_to_network(const Problem& problem, const Network& network, std::vector<Allocation>& allocations);

// Lowers the session's rate to `rate_bps`, each destination's flow to no more, worst
// paths first, and every x_i(e) to the largest over destinations.
void trim(const std::vector<std::vector<Path>>& paths, double rate_bps, Allocation& allocation);

// The least that reaches any destination.
double carried_bps(const Allocation& allocation);

// sum += part, in rates, flows and x_i(e).
void add(const Allocation& part, Allocation& sum);

// Takes what the allocations use from links and limits. What remains of a link or limit
// under kNothingLeft of its size in `whole` counts as nothing.
inline constexpr double kNothingLeft = 1e-9;
void subtract(const Problem& problem, const std::vector<Allocation>& allocations, const Network& whole,
              Network& left);

}  // namespace square::planning
