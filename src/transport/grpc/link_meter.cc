#include "transport/grpc/link_meter.h"

#include <algorithm>
#include <utility>

#include "transport/grpc/processor_wait.h"
#include "transport/pacing/wire_cost.h"

namespace square::rpc {

CapacityMeter::Sample LinkMeter::sample(Channels channels, TimePoint now) {
  CapacityMeter::Sample sample{.when = now, .is_limited = !channels.empty()};
  for (const SocketFigures& figures : channels) {
    sample.delivered_bits += stream_bits(figures.delivered_bytes);
    sample.round_trip = std::max(sample.round_trip, figures.round_trip);
    sample.is_limited = sample.is_limited && figures.is_limited;
  }
  const Duration step = now - std::exchange(sampled_at_, now);
  if (std::exchange(channels_, channels.size()) != channels.size()) sample.is_limited = false;
  if (!sample.is_limited) {
    processor_wait_.reset();
    return sample;
  }
  const Duration waited = processor_wait();
  const std::optional<Duration> before = std::exchange(processor_wait_, waited);
  sample.is_limited = before && to_seconds(waited - *before) < kMaxProcessorWaitPart * to_seconds(step);
  return sample;
}

std::optional<double> LinkMeter::look(Channels channels, TimePoint now) {
  if (probe_) return std::nullopt;
  return meter_.add(sample(channels, now));
}

void LinkMeter::begin_probe(TimePoint now) {
  if (!probe_) probe_.emplace().begun = now;
}

std::optional<double> LinkMeter::look_closely(Channels channels, TimePoint now) {
  if (!probe_) return std::nullopt;
  const CapacityMeter::Sample sample = this->sample(channels, now);
  if (!probe_->first) probe_->first = probe_->mark = sample;
  const std::optional<double> estimate = probe_->meter.add(sample);
  if (estimate) probe_->estimate = estimate;
  const Duration late = now - probe_->mark.when;
  if (late >= std::max(kProbeLook, sample.round_trip)) {
    const double rate = (sample.delivered_bits - probe_->mark.delivered_bits) / to_seconds(late);
    probe_->most_bps = std::max(probe_->most_bps, rate);
    probe_->mark = sample;
  }
  const Duration most =
      std::clamp<Duration>(kProbeRoundTrips * sample.round_trip, kMinProbeTime, kMaxProbeTime);
  const Duration share = std::max<Duration>(kProbeShare, kProbeShareRoundTrips * sample.round_trip);
  const double bits = sample.delivered_bits - probe_->first->delivered_bits;
  const bool is_enough = bits > std::max(kMinProbeBits, probe_->most_bps * to_seconds(share));
  if (now - probe_->begun < most && !is_enough) return std::nullopt;
  const std::optional<double> outcome = probe_->estimate;
  probe_.reset();
  return outcome;
}

}  // namespace square::rpc
