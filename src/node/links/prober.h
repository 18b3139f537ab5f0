// When a node has its links find out what they carry.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>

#include "node/lifetime.h"
#include "square/clock.h"
#include "square/executor.h"

namespace square {

// Between probes of a link, unless transfers tell: half a second of what it carries each, or four round
// trips, so a hundredth of it. Each is up to kProbeJitter sooner or later, so that nodes do not probe at
// once.
inline constexpr Duration kProbeInterval = std::chrono::seconds(50);
inline constexpr int kProbeIntervalRoundTrips = 400;
inline constexpr double kProbeJitter = 0.1;
// Between any two probes of a node: the one before is over then, and where all links share one way to the
// network they take little of that.
inline constexpr Duration kProbeSpacing = std::chrono::seconds(4);
// A link without a capacity is probed so long after it is up; one whose capacity the plan knows later.
inline constexpr Duration kFirstProbe = std::chrono::seconds(3);
inline constexpr Duration kFirstKnownProbe = std::chrono::seconds(30);

// One link at a time, those that were never measured first, then who waits for longest. Not thread-safe.
class Prober {
 public:
  // `probe` begins with the link to this neighbour.
  using Probe = std::function<void(const std::string& peer)>;

  Prober(const Clock& clock, Executor& executor, std::uint64_t seed, Probe probe)
      : clock_(clock), executor_(executor), random_(seed), probe_(std::move(probe)) {}

  // The link is up. `is_known`: the plan has a capacity for it.
  void on_up(const std::string& peer, bool is_known);
  void on_down(const std::string& peer);
  void on_round_trip(const std::string& peer, Duration round_trip);
  // By a transfer, or the probe.
  void on_measured(const std::string& peer);

 private:
  struct Link {
    TimePoint due{};
    bool is_measured = false;
    // The least: where it was longer data waited, and who has seen that would wait for long to see it gone.
    Duration round_trip{0};
    [[nodiscard]] Duration interval() const {
      return std::max<Duration>(kProbeInterval, kProbeIntervalRoundTrips * round_trip);
    }
  };

  [[nodiscard]] TimePoint later(Duration wait);
  void arm();
  void run();

  const Clock& clock_;
  Executor& executor_;
  std::mt19937_64 random_;
  Probe probe_;
  std::map<std::string, Link> links_;
  TimePoint free_at_{};  // no probe runs
  TimePoint armed_for_ = TimePoint::max();
  Executor::TimerId timer_ = 0;
  Lifetime life_;
};

}  // namespace square
