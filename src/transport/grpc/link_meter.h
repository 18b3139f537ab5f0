// What a link carries, over all its channels: seen of transfers, and of probes.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "square/clock.h"
#include "transport/capacity_meter.h"
#include "transport/grpc/send_queue.h"

namespace square::rpc {

// A probe has so long, or so many round trips: what a connection needs to find out what it may send, from the
// few packets that it begins with after a rest.
inline constexpr Duration kMinProbeTime = std::chrono::milliseconds(400);
inline constexpr Duration kMaxProbeTime = std::chrono::milliseconds(4000);
inline constexpr int kProbeRoundTrips = 20;
// And so much of what the link is seen to carry, or so many round trips of it, which it takes to see that it
// does not grow any more: who probes every 50 s, or 400 round trips, takes a hundredth of it.
inline constexpr Duration kProbeShare = std::chrono::milliseconds(500);
inline constexpr int kProbeShareRoundTrips = 4;
inline constexpr double kMinProbeBits = 1e6;
inline constexpr Duration kProbeLook = std::chrono::milliseconds(50);
// Who waits a larger part of the time for a processor does not know what the network does.
inline constexpr double kMaxProcessorWaitPart = 0.25;

// At a tail. Not thread-safe.
class LinkMeter {
 public:
  using Channels = std::span<const SocketFigures>;

  // With every look of the link's watch, unless it is probed: an estimate from what is transferred.
  std::optional<double> look(Channels channels, TimePoint now);

  void begin_probe(TimePoint now);
  // Padding may be sent.
  [[nodiscard]] bool is_probed() const { return probe_.has_value(); }
  // Every kProbeLook while it is probed: when the probe is over, what the link carries, if that is known.
  std::optional<double> look_closely(Channels channels, TimePoint now);

 private:
  struct Probe {
    TimePoint begun{};
    CapacityMeter meter{kProbeLook, 0.5};
    std::optional<CapacityMeter::Sample> first;
    CapacityMeter::Sample mark;  // from here the rate of late is taken
    double most_bps = 0;
    std::optional<double> estimate;
  };
  CapacityMeter::Sample sample(Channels channels, TimePoint now);

  CapacityMeter meter_;
  std::optional<Probe> probe_;
  std::size_t channels_ = 0;
  // As of the last sample, of those in a row that nothing but the network limited.
  std::optional<Duration> processor_wait_;
  TimePoint sampled_at_{};
};

}  // namespace square::rpc
