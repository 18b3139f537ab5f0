#include "node/links/ingress_police.h"

#include <utility>

#include "node/links/tick.h"

namespace square {

void IngressPolice::set_rate(double rate_bps) {
  pacer_.set_rate(rate_bps == kUnlimited ? kUnlimited : kPoliceHeadroom * rate_bps, clock_.now());
  executor_.cancel(std::exchange(timer_, 0));
  take_turns();
}

FlowId IngressPolice::add_flow(const FlowShare& share, std::function<void()> on_turn) {
  const FlowId id = scheduler_.add_flow(share);
  flows_.emplace(id, Flow{std::move(on_turn)});
  return id;
}

void IngressPolice::remove_flow(FlowId flow) {
  scheduler_.remove_flow(flow);
  flows_.erase(flow);
}

void IngressPolice::ask(FlowId id, double bits) {
  Flow& flow = flows_.at(id);
  ++flow.slots;
  flow.bits += bits;
  if (flow.slots == 1) show_head(id, flow);
  take_turns();
}

void IngressPolice::show_head(FlowId id, const Flow& flow) {
  scheduler_.set_head(
      id, flow.slots == 0 ? std::nullopt : std::optional(flow.bits / static_cast<double>(flow.slots)),
      clock_.now());
}

void IngressPolice::take_turns() {
  // A turn may free memory and so ask for the next one.
  if (std::exchange(is_taking_, true)) return;
  while (true) {
    const TimePoint now = clock_.now();
    const auto id = scheduler_.pick(now);
    if (!id) {
      if (std::exchange(was_backlogged_, false)) pacer_.end();
      break;
    }
    if (!std::exchange(was_backlogged_, true)) pacer_.begin(now);
    if (pacer_.ready_at() > now) {
      wait_until(pacer_.ready_at());
      break;
    }
    Flow& flow = flows_.at(*id);
    const double bits = flow.bits / static_cast<double>(flow.slots);
    scheduler_.charge(*id, now);
    pacer_.charge(bits, now);
    flow.bits -= bits;
    --flow.slots;
    show_head(*id, flow);
    flow.on_turn();
  }
  is_taking_ = false;
}

void IngressPolice::wait_until(TimePoint when) {
  if (timer_ != 0) return;
  timer_ = executor_.post_at(tick_after(when, kPaceTick), life_.bind([this] {
    timer_ = 0;
    take_turns();
  }));
}

}  // namespace square
