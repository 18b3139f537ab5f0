#include "simulation/simulated_ring.h"

#include <algorithm>
#include <utility>

#include "coding/sum.h"

namespace square::simulation {
namespace {

// A unicast of a plan as a collective of its own.
PlanCollective collective_of(const PlanSession& hop, const PlanCollective& ring) {
  PlanCollective alone = ring;
  alone.id = hop.collective;
  alone.op = CollectiveOp::kBroadcast;
  alone.size_bytes = hop.size_bytes;
  alone.rate_bps = hop.rate_bps;
  alone.sessions = {hop.id};
  return alone;
}

}  // namespace

HoppingPlan with_hops(const Plan& plan, const std::vector<CollectiveSpec>& collectives) {
  HoppingPlan made{plan, {}};
  CollectiveId::value_type free = 0;
  for (const PlanCollective& collective : plan.collectives) free = std::max(free, collective.id.value() + 1);
  for (const CollectiveSpec& spec : collectives) {
    if (!is_ring(spec) || spec.members.size() < 2) continue;
    const PlanCollective ring = *plan.find_collective(spec.id);
    std::erase_if(made.plan.collectives, [&](const PlanCollective& one) { return one.id == spec.id; });
    for (std::size_t rank = 0; rank < spec.members.size(); ++rank) {
      const NodeId from = spec.members[rank];
      const NodeId to = spec.members[(rank + 1) % spec.members.size()];
      for (PlanSession& session : made.plan.sessions) {
        if (session.collective != spec.id || session.root != from) continue;
        session.collective = CollectiveId(free++);
        made.hops.push_back({spec.id, session.collective, from, to});
        made.plan.collectives.push_back(collective_of(session, ring));
        break;
      }
    }
  }
  return made;
}

SimulatedRing::SimulatedRing(const CollectiveSpec& spec, std::uint64_t seed, std::vector<RingHop> hops)
    : SimulatedCollective(spec, seed), hops_(std::move(hops)) {
  const std::size_t element = element_bytes(sum_of(spec.size_bytes).type);
  for (std::uint32_t rank = 0; rank < spec.members.size(); ++rank)
    members_.push_back({.layout = RingLayout(spec.size_bytes, element, spec.members.size(), Rank(rank))});
}

void SimulatedRing::introduce(SimulatedNodes& nodes) {
  for (const RingHop& hop : hops_) nodes.set_members(hop.hop, {hop.from, hop.to});
}

void SimulatedRing::go_on(SimulatedNodes& nodes, std::size_t rank) {
  Member& member = members_[rank];
  const std::size_t all = member.layout.transfers();
  // What step 0 sends is there, later ones send what came a step before.
  const std::size_t ready = std::min(all, member.taken + member.layout.segments());
  while (member.sent < std::min(ready, member.acknowledged + kWindow)) send(nodes, rank, member.sent++);
  while (member.asked < std::min(all, member.taken + kWindow)) receive(nodes, rank, member.asked++);
}

void SimulatedRing::send(SimulatedNodes& nodes, std::size_t rank, std::size_t transfer) {
  const RingRange range = members_[rank].layout.sent(transfer);
  MemberOperation operation;
  operation.collective = hops_[rank].hop;
  operation.operation = OperationId(transfer);
  operation.rank = Rank(0);
  operation.is_root = true;
  operation.input = buffer(rank).subspan(range.offset_bytes, range.size_bytes);
  operation.timeout = timeout();
  operation.done = [this, &nodes, rank, transfer](const Status& outcome) {
    Member& member = members_[rank];
    member.is_acknowledged[transfer % kWindow] = true;
    while (member.acknowledged < member.sent &&
           std::exchange(member.is_acknowledged[member.acknowledged % kWindow], false))
      ++member.acknowledged;
    note(nodes, rank, outcome);
  };
  nodes.node(hops_[rank].from).post(std::move(operation));
}

void SimulatedRing::receive(SimulatedNodes& nodes, std::size_t rank, std::size_t transfer) {
  const RingHop& hop = hops_[(rank + hops_.size() - 1) % hops_.size()];
  Segment& segment = members_[rank].window[transfer % kWindow];
  segment.bytes.resize(members_[rank].layout.received(transfer).size_bytes);
  MemberOperation operation;
  operation.collective = hop.hop;
  operation.operation = OperationId(transfer);
  operation.rank = Rank(1);
  operation.output = segment.bytes;
  operation.timeout = timeout();
  operation.done = [this, &nodes, rank, &segment](const Status& outcome) {
    segment.has_come = outcome.is_ok();
    note(nodes, rank, outcome);
  };
  nodes.node(hop.to).post(std::move(operation));
}

void SimulatedRing::take(std::size_t rank) {
  Member& member = members_[rank];
  const Reduction reduction = sum_of(spec().size_bytes);
  while (member.taken < member.asked) {
    Segment& segment = member.window[member.taken % kWindow];
    const bool is_sum = member.taken >= member.layout.sums_begin();
    // A sum takes the place of what was sent n - 1 steps before, and may have to be sent again.
    if (!segment.has_come) return;
    if (is_sum && member.acknowledged <= member.taken - member.layout.sums_begin()) return;
    const RingRange range = member.layout.received(member.taken);
    const auto place = buffer(rank).subspan(range.offset_bytes, range.size_bytes);
    if (is_sum) std::ranges::copy(segment.bytes, place.begin());
    if (!is_sum) add(place, {{segment.bytes.data(), nullptr}, {place.data(), nullptr}}, reduction);
    segment.has_come = false;
    ++member.taken;
  }
}

void SimulatedRing::note(SimulatedNodes& nodes, std::size_t rank, const Status& outcome) {
  Member& member = members_[rank];
  if (member.is_over) return;
  take(rank);
  const std::size_t all = member.layout.transfers();
  member.is_over = !outcome.is_ok() || (member.taken == all && member.acknowledged == all);
  if (member.is_over) return note_done(nodes, outcome);
  go_on(nodes, rank);
}

}  // namespace square::simulation
