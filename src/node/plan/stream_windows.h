// How much memory each stream into a node may have under way.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "node/plan/installed_plan.h"

namespace square {

// Credit of a hop: what is under way during a round trip plus this much, and some blocks
// beyond that. A link whose latency the plan does not know may have this round trip, and one
// without a capacity carries up to this rate. Where memory is short, tenants share it by
// weight, and a stream has less, but never under two blocks.
inline constexpr double kWindowSlackSeconds = 0.060;
// What is free again is said once it is half of the window: fewer small frames. But as soon as it is this
// part of what was added to the round trip, and a word costs nothing beside so many bytes: then a
// parent that sends at its rate never waits for one.
inline constexpr double kCreditPartOfSlack = 0.5;
inline constexpr std::size_t kCheapCreditBytes = std::size_t{1} << 20U;
inline constexpr double kAssumedRoundTripSeconds = 0.050;
inline constexpr double kUnlimitedWindowBps = 10e9;
inline constexpr std::size_t kSpareWindowBlocks = 4;
inline constexpr std::size_t kMaxWindowBlocks = 256;

// Shares `total` by weight: nobody gets more than it wants, and what one leaves goes to the
// others.
struct Claim {
  double wanted = 0;
  double weight = 1;
};
std::vector<double> share_out(double total, const std::vector<Claim>& claims);

// Sets `window_blocks` and `credit_blocks` of the streams that come into the node `self`: what all
// their hops reserve together is at most `window_bytes`, but for two blocks a stream.
void fit_windows(std::map<StreamKey, LocalStream>& streams, const Plan& plan, NodeId self,
                 const BlockSizes& sizes, std::size_t window_bytes);

}  // namespace square
