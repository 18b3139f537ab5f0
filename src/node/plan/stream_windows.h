// How much memory each stream into a node may have under way.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "node/plan/installed_collective.h"
#include "square/clock.h"

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
// More where they are small: a word of credit costs as much for few bytes as for many.
inline constexpr double kSpareWindowBytes = 64.0 * 1024;
inline constexpr std::size_t kMaxSpareWindowBlocks = 8;
inline constexpr std::size_t kMaxWindowBlocks = 256;

// Shares `total` by weight: nobody gets more than it wants, and what one leaves goes to the
// others.
struct Claim {
  double wanted = 0;
  double weight = 1;
};
std::vector<double> share_out(double total, const std::vector<Claim>& claims);

// A link into the node, as far as windows depend on it.
struct LinkIn {
  Duration latency{0};
  bool is_unlimited = false;
  friend bool operator==(const LinkIn&, const LinkIn&) = default;
};
using LinksIn = std::map<std::string, LinkIn, std::less<>>;  // by the tail's name

// What one stream's hops into the node would reserve if memory were plenty.
struct WindowNeed {
  StreamWindow* window = nullptr;
  double blocks = 0;       // of each hop
  double bytes = 0;        // of all hops together, in the largest blocks
  double credit_part = 0;  // of the window
  double block_bytes = 0;  // the smallest
};
std::vector<WindowNeed> window_needs(const InstalledCollective& collective, const LinksIn& links);

// Sets the windows of the streams that come into a node: what all their hops reserve together is at most
// `window_bytes`, but for two blocks a stream, while of each job one turn runs at a time. What was granted is
// not taken back: a window that is smaller than it was is reached as blocks come.
class WindowClaims {
 public:
  explicit WindowClaims(std::size_t window_bytes) : window_bytes_(window_bytes) {}
  // Both must stay where they are.
  void add(const InstalledCollective& collective, const std::vector<WindowNeed>& needs);
  void fit() const;

 private:
  struct Job {
    std::map<JobTurn, double> by_turn;
    double most = 0;
  };
  struct Tenant {
    Claim claim;  // of each job, the most that one of its turns wants
    std::map<std::string_view, Job> jobs{};
    std::vector<const std::vector<WindowNeed>*> needs;
  };

  std::size_t window_bytes_;
  std::unordered_map<std::string_view, std::size_t> numbers_;
  std::vector<Tenant> tenants_;
};

}  // namespace square
