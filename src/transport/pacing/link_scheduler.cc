#include "transport/pacing/link_scheduler.h"

#include <algorithm>

#include "base/check.h"

namespace square {
namespace {

// The longest that one frame may put off the next of a flow, however low the guarantee.
constexpr Duration kMaxDeadline = std::chrono::hours(1);

}  // namespace

FlowId LinkScheduler::add_flow(const FlowShare& share) {
  SQUARE_CHECK(share.guarantee_bps >= 0 && share.weight > 0 && share.tenant_weight > 0,
               "a flow has a guarantee and positive weights");
  const FlowId id(next_id_++);
  const auto tenant = tenants_.try_emplace(share.tenant).first;
  tenant->second.weight = share.tenant_weight;
  ++tenant->second.flows;
  flows_.emplace(id, Flow{.tenant = tenant,
                          .guarantee_bps = share.guarantee_bps,
                          .weight = share.weight,
                          .head_bits = std::nullopt});
  return id;
}

void LinkScheduler::remove_flow(FlowId id) {
  const auto found = flows_.find(id);
  if (found == flows_.end()) return;
  const auto tenant = found->second.tenant;
  withdraw(id, found->second);
  flows_.erase(found);
  if (--tenant->second.flows == 0) tenants_.erase(tenant);
}

void LinkScheduler::set_head(FlowId id, std::optional<double> bits, TimePoint now) {
  Flow& flow = flows_.at(id);
  if (flow.head_bits == bits) return;
  if (bits && !flow.head_bits) {
    flow.guaranteed_at = std::max(flow.guaranteed_at, guarantee_time(now) - kGuaranteeCatchUp);
  }
  withdraw(id, flow);
  flow.head_bits = bits;
  enlist(id, flow, now);
}

// A flow that comes back starts level with those that were served meanwhile.
void LinkScheduler::enlist(FlowId id, Flow& flow, TimePoint now) {
  if (!flow.head_bits) return;
  Tenant& tenant = flow.tenant->second;
  if (tenant.backlogged.empty()) {
    tenant.surplus = std::max(tenant.surplus, virtual_time_);
    backlogged_.emplace(tenant.surplus, flow.tenant->first);
  }
  flow.surplus = std::max(flow.surplus, tenant.virtual_time);
  tenant.backlogged.emplace(flow.surplus, id);
  if (flow.guarantee_bps <= 0) return;
  const Duration step = std::min(kMaxDeadline, from_seconds(*flow.head_bits / flow.guarantee_bps));
  flow.deadline = flow.guaranteed_at + step;
  flow.is_due = flow.guaranteed_at <= guarantee_time(now);
  if (flow.is_due) {
    due_.emplace(flow.deadline, id);
  } else {
    waiting_.emplace(flow.guaranteed_at, id);
  }
}

void LinkScheduler::withdraw(FlowId id, Flow& flow) {
  if (!flow.head_bits) return;
  Tenant& tenant = flow.tenant->second;
  tenant.backlogged.erase({flow.surplus, id});
  if (tenant.backlogged.empty()) backlogged_.erase({tenant.surplus, flow.tenant->first});
  if (flow.guarantee_bps <= 0) return;
  due_.erase({flow.deadline, id});
  waiting_.erase({flow.guaranteed_at, id});
}

void LinkScheduler::advance(TimePoint now) {
  while (!waiting_.empty() && waiting_.begin()->first <= guarantee_time(now)) {
    const FlowId id = waiting_.begin()->second;
    waiting_.erase(waiting_.begin());
    Flow& flow = flows_.at(id);
    flow.is_due = true;
    due_.emplace(flow.deadline, id);
  }
  if (due_.empty()) return;
  const Duration lag = guarantee_time(now) - due_.begin()->first;
  if (lag > kMaxGuaranteeLag) forgiven_ += lag - kMaxGuaranteeLag;
}

std::optional<FlowId> LinkScheduler::pick(TimePoint now) {
  advance(now);
  if (!due_.empty()) return due_.begin()->second;
  if (backlogged_.empty()) return std::nullopt;
  return tenants_.find(backlogged_.begin()->second)->second.backlogged.begin()->second;
}

void LinkScheduler::charge(FlowId id, TimePoint now) {
  advance(now);
  Flow& flow = flows_.at(id);
  SQUARE_CHECK(flow.head_bits.has_value(), "only a flow with a frame can send one");
  const double bits = *flow.head_bits;
  const bool by_guarantee = flow.guarantee_bps > 0 && flow.is_due;
  withdraw(id, flow);
  if (by_guarantee) {
    flow.guaranteed_at = flow.deadline;
  } else {
    Tenant& tenant = flow.tenant->second;
    virtual_time_ = std::max(virtual_time_, tenant.surplus);
    tenant.virtual_time = std::max(tenant.virtual_time, flow.surplus);
    if (!tenant.backlogged.empty()) backlogged_.erase({tenant.surplus, flow.tenant->first});
    tenant.surplus += bits / tenant.weight;
    if (!tenant.backlogged.empty()) backlogged_.emplace(tenant.surplus, flow.tenant->first);
    flow.surplus += bits / flow.weight;
  }
  enlist(id, flow, now);
}

}  // namespace square
