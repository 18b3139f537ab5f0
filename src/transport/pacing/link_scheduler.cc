#include "transport/pacing/link_scheduler.h"

#include <algorithm>
#include <utility>

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
                          .job = join_job(share),
                          .turn = share.turn,
                          .guarantee_bps = share.guarantee_bps,
                          .weight = share.weight,
                          .head_bits = std::nullopt});
  await_rest(id, flows_.at(id));
  return id;
}

void LinkScheduler::remove_flow(FlowId id) {
  const auto found = flows_.find(id);
  if (found == flows_.end()) return;
  const auto tenant = found->second.tenant;
  withdraw_loan(tenant);
  withdraw(id, found->second);
  end_rest(id, found->second, tenant->second.loan.counted_at + forgiven_);
  leave_job(found->second);
  flows_.erase(found);
  if (--tenant->second.flows == 0) {
    tenants_.erase(tenant);
  } else {
    enlist_loan(tenant, tenant->second.loan.counted_at + forgiven_);
  }
}

std::optional<LinkScheduler::Jobs::iterator> LinkScheduler::join_job(const FlowShare& share) {
  if (share.job.empty()) return std::nullopt;
  const auto job = jobs_.try_emplace({share.tenant, share.job}).first;
  Job::Sum& sum = job->second.turns[share.turn];
  ++sum.flows;
  sum.guarantee_bps += share.guarantee_bps;
  job->second.part = part_of(job->second);
  return job;
}

void LinkScheduler::leave_job(const Flow& flow) {
  if (!flow.job) return;
  Job& job = (*flow.job)->second;
  Job::Sum& sum = job.turns.at(flow.turn);
  sum.guarantee_bps = std::max(sum.guarantee_bps - flow.guarantee_bps, 0.0);
  if (--sum.flows == 0) job.turns.erase(flow.turn);
  job.part = part_of(job);
  if (job.turns.empty()) jobs_.erase(*flow.job);
}

double LinkScheduler::part_of(const Job& job) {
  double most = 0;
  double all = 0;
  for (const auto& [turn, sum] : job.turns) {
    most = std::max(most, sum.guarantee_bps);
    all += sum.guarantee_bps;
  }
  return all > 0 ? most / all : 1.0;
}

void LinkScheduler::set_head(FlowId id, std::optional<double> bits, TimePoint now) {
  Flow& flow = flows_.at(id);
  if (flow.head_bits == bits) return;
  withdraw_loan(flow.tenant);
  if (bits && !flow.head_bits) {
    end_rest(id, flow, now);
    if (flow.tenant->second.backlogged.empty()) count_loan(flow.tenant->second.loan, now, kGuaranteeCatchUp);
    flow.guaranteed_at = std::max(flow.guaranteed_at, guarantee_time(now) - kGuaranteeCatchUp);
  }
  withdraw(id, flow);
  flow.head_bits = bits;
  enlist(id, flow, now);
  if (!bits) await_rest(id, flow);
  enlist_loan(flow.tenant, now);
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
  const Duration step = std::min(kMaxDeadline, from_seconds(*flow.head_bits / guaranteed_bps(flow)));
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

void LinkScheduler::await_rest(FlowId id, const Flow& flow) {
  if (flow.guarantee_bps > 0) resting_soon_.emplace(flow.guaranteed_at + kGuaranteeCatchUp, id);
}

void LinkScheduler::end_rest(FlowId id, Flow& flow, TimePoint now) {
  if (flow.guarantee_bps <= 0 || flow.head_bits) return;
  resting_soon_.erase({flow.guaranteed_at + kGuaranteeCatchUp, id});
  if (!std::exchange(flow.is_resting, false)) return;
  Loan& loan = flow.tenant->second.loan;
  count_loan(loan, now);
  // Not what is left by subtraction: sums of rates round.
  loan.rate_bps = --loan.lenders == 0 ? 0.0 : std::max(loan.rate_bps - flow.lent_bps, 0.0);
}

void LinkScheduler::count_loan(Loan& loan, TimePoint now, Duration longest) const {
  const TimePoint then = std::max(loan.counted_at, guarantee_time(now));
  if (loan.rate_bps > 0) {
    loan.taken_bits -= loan.rate_bps * to_seconds(then - loan.counted_at);
    loan.taken_bits = std::max(loan.taken_bits, -loan.rate_bps * to_seconds(longest));
  }
  loan.counted_at = then;
}

void LinkScheduler::enlist_loan(Tenants::iterator tenant, TimePoint now) {
  Loan& loan = tenant->second.loan;
  if (loan.rate_bps <= 0 || tenant->second.backlogged.empty()) return;
  const double head_bits = *flows_.at(tenant->second.backlogged.begin()->second).head_bits;
  const auto after = [&](double bits) {
    return loan.counted_at + std::min(kMaxDeadline, from_seconds(bits / loan.rate_bps));
  };
  loan.due_at = after(loan.taken_bits);
  loan.deadline = after(loan.taken_bits + head_bits);
  loan.is_listed = true;
  if (loan.due_at <= guarantee_time(now)) {
    due_loans_.emplace(loan.deadline, tenant->first);
  } else {
    waiting_loans_.emplace(loan.due_at, tenant->first);
  }
}

void LinkScheduler::withdraw_loan(Tenants::iterator tenant) {
  Loan& loan = tenant->second.loan;
  if (!std::exchange(loan.is_listed, false)) return;
  due_loans_.erase({loan.deadline, tenant->first});
  waiting_loans_.erase({loan.due_at, tenant->first});
}

void LinkScheduler::advance(TimePoint now) {
  while (!resting_soon_.empty() && resting_soon_.begin()->first <= guarantee_time(now)) {
    Flow& flow = flows_.at(resting_soon_.begin()->second);
    resting_soon_.erase(resting_soon_.begin());
    withdraw_loan(flow.tenant);
    Loan& loan = flow.tenant->second.loan;
    count_loan(loan, now);
    flow.is_resting = true;
    ++loan.lenders;
    flow.lent_bps = guaranteed_bps(flow);
    loan.rate_bps += flow.lent_bps;
    enlist_loan(flow.tenant, now);
  }
  while (!waiting_loans_.empty() && waiting_loans_.begin()->first <= guarantee_time(now)) {
    const auto tenant = tenants_.find(waiting_loans_.begin()->second);
    waiting_loans_.erase(waiting_loans_.begin());
    due_loans_.emplace(tenant->second.loan.deadline, tenant->first);
  }
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
  const std::string_view tenant =
      due_loans_.empty() ? backlogged_.begin()->second : due_loans_.begin()->second;
  return tenants_.find(tenant)->second.backlogged.begin()->second;
}

void LinkScheduler::charge(FlowId id, TimePoint now) {
  advance(now);
  Flow& flow = flows_.at(id);
  SQUARE_CHECK(flow.head_bits.has_value(), "only a flow with a frame can send one");
  const double bits = *flow.head_bits;
  const bool by_guarantee = flow.guarantee_bps > 0 && flow.is_due;
  Tenant& tenant = flow.tenant->second;
  const bool by_loan = tenant.loan.is_listed && tenant.loan.due_at <= guarantee_time(now);
  withdraw_loan(flow.tenant);
  withdraw(id, flow);
  if (by_guarantee) {
    flow.guaranteed_at = flow.deadline;
  } else if (by_loan) {
    tenant.virtual_time = std::max(tenant.virtual_time, flow.surplus);
    tenant.loan.taken_bits += bits;
    flow.surplus += bits / flow.weight;
  } else {
    virtual_time_ = std::max(virtual_time_, tenant.surplus);
    tenant.virtual_time = std::max(tenant.virtual_time, flow.surplus);
    if (!tenant.backlogged.empty()) backlogged_.erase({tenant.surplus, flow.tenant->first});
    tenant.surplus += bits / tenant.weight;
    if (!tenant.backlogged.empty()) backlogged_.emplace(tenant.surplus, flow.tenant->first);
    flow.surplus += bits / flow.weight;
  }
  enlist(id, flow, now);
  enlist_loan(flow.tenant, now);
}

}  // namespace square
