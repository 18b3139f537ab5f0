#include "transport/pacing/link_scheduler.h"

#include <algorithm>

#include "base/check.h"

namespace square {

FlowId LinkScheduler::add_flow(double guarantee_bps, double weight) {
  SQUARE_CHECK(guarantee_bps >= 0 && weight > 0, "a flow has a guarantee and a positive weight");
  const FlowId id(next_id_++);
  flows_.emplace(id, Flow{guarantee_bps, weight, std::nullopt, TimePoint{}, virtual_time_});
  return id;
}

void LinkScheduler::remove_flow(FlowId flow) { flows_.erase(flow); }

void LinkScheduler::set_head(FlowId id, std::optional<double> bits, TimePoint now) {
  Flow& flow = flows_.at(id);
  if (bits && !flow.head_bits) {
    flow.guaranteed_at = std::max(flow.guaranteed_at, now - kGuaranteeCatchUp);
    flow.surplus = std::max(flow.surplus, virtual_time_);
  }
  flow.head_bits = bits;
}

bool LinkScheduler::is_behind(const Flow& flow, TimePoint now) {
  return flow.guarantee_bps > 0 && flow.guaranteed_at <= now;
}

TimePoint LinkScheduler::deadline(const Flow& flow) {
  return flow.guaranteed_at + from_seconds(*flow.head_bits / flow.guarantee_bps);
}

std::optional<FlowId> LinkScheduler::pick(TimePoint now) const {
  std::optional<FlowId> due;
  std::optional<FlowId> poorest;
  for (const auto& [id, flow] : flows_) {
    if (!flow.head_bits) continue;
    if (is_behind(flow, now) && (!due || deadline(flow) < deadline(flows_.at(*due)))) due = id;
    if (!poorest || flow.surplus < flows_.at(*poorest).surplus) poorest = id;
  }
  return due ? due : poorest;
}

void LinkScheduler::charge(FlowId id, TimePoint now) {
  Flow& flow = flows_.at(id);
  SQUARE_CHECK(flow.head_bits.has_value(), "only a flow with a frame can send one");
  if (is_behind(flow, now)) {
    flow.guaranteed_at = deadline(flow);
  } else {
    virtual_time_ = std::max(virtual_time_, flow.surplus);
    flow.surplus += *flow.head_bits / flow.weight;
  }
}

}  // namespace square
