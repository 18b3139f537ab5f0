// Which of a link's flows sends next.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "square/clock.h"
#include "square/ids.h"

namespace square {

using FlowId = Id<struct FlowTag>;

// What a flow that was idle may catch up of its guarantee.
inline constexpr Duration kGuaranteeCatchUp = std::chrono::milliseconds(20);

// Two questions in this order. Which flows are behind their guaranteed rate? Of those,
// the one with the earliest deadline (virtual clock; L. Zhang, SIGCOMM 1990). If none
// is, the link has idle capacity: it goes to the flow with the least surplus for its
// weight (start-time fair queueing; Goyal et al., SIGCOMM 1996). So a flow with data
// never gets less than its guarantee while the guarantees sum to at most the capacity,
// whatever the others do, and nothing stays idle while anybody has data.
//
// The number of flows on a link is small, so a pick looks at all. Not thread-safe.
class LinkScheduler {
 public:
  // `guarantee_bps` may be 0 (surplus only); `weight` is positive.
  FlowId add_flow(double guarantee_bps, double weight);
  void remove_flow(FlowId flow);

  // Tells whether the flow has a frame to send, and how large it is.
  void set_head(FlowId flow, std::optional<double> bits, TimePoint now);

  // The flow to send now; nothing if no flow has a frame.
  [[nodiscard]] std::optional<FlowId> pick(TimePoint now) const;
  // The flow's head was sent at `now`. Call set_head() for what comes next.
  void charge(FlowId flow, TimePoint now);

 private:
  struct Flow {
    double guarantee_bps;
    double weight;
    std::optional<double> head_bits;
    TimePoint guaranteed_at{};  // the next frame is due from here on
    double surplus = 0;         // bits per weight beyond the guarantee
  };
  static bool is_behind(const Flow& flow, TimePoint now);
  static TimePoint deadline(const Flow& flow);

  std::map<FlowId, Flow> flows_;
  std::uint32_t next_id_ = 0;
  double virtual_time_ = 0;  // surplus of the flow that was served last
};

}  // namespace square
