#include "simulation/simulated_ring.h"

#include <algorithm>
#include <utility>

#include "node/rings/ring_steps.h"

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

// One member, and its ends of two unicasts.
class SimulatedRing::Member final : public RingMember {
 public:
  Member(SimulatedRing& ring, std::uint32_t rank)
      : ring_(ring),
        next_(ring.hops_[rank]),
        previous_(ring.hops_[(rank + ring.hops_.size() - 1) % ring.hops_.size()]),
        steps_(Rank(rank), ring.hops_.size(), ring.buffer(rank), ring.buffer(rank),
               sum_of(ring.spec().size_bytes)) {}

  void begin(SimulatedNodes& nodes) {
    nodes_ = &nodes;
    steps_.begin(*this, {CallKind::kRingAllReduce, 0});
  }

  void send(std::span<const std::byte> data, std::function<void()> then) override {
    MemberOperation operation = part(next_, Rank(0), sent_++, std::move(then));
    operation.is_root = true;
    operation.input = data;
    nodes_->node(next_.from).post(std::move(operation));
  }
  void receive(std::span<std::byte> place, std::function<void()> then) override {
    MemberOperation operation = part(previous_, Rank(1), received_++, std::move(then));
    operation.output = place;
    nodes_->node(previous_.to).post(std::move(operation));
  }
  void work(std::size_t /*bytes*/, std::function<void()> task, std::function<void()> then) override {
    task();  // takes no virtual time
    then();
  }
  void finish(const Status& outcome) override {
    if (!std::exchange(is_over_, true)) ring_.note_done(*nodes_, outcome);
  }

 private:
  MemberOperation part(const RingHop& hop, Rank rank, std::uint64_t number, std::function<void()> then) {
    MemberOperation operation;
    operation.collective = hop.hop;
    operation.operation = OperationId(number);
    operation.rank = rank;
    operation.timeout = ring_.timeout();
    operation.done = [this, then = std::move(then)](const Status& outcome) {
      if (is_over_) return;
      if (outcome.is_ok()) return then();
      finish(outcome);
    };
    return operation;
  }

  SimulatedRing& ring_;
  const RingHop next_;
  const RingHop previous_;
  RingSteps steps_;
  SimulatedNodes* nodes_ = nullptr;
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
  bool is_over_ = false;
};

SimulatedRing::SimulatedRing(const CollectiveSpec& spec, std::uint64_t seed, std::vector<RingHop> hops)
    : SimulatedCollective(spec, seed), hops_(std::move(hops)) {
  for (std::uint32_t rank = 0; rank < hops_.size(); ++rank)
    members_.push_back(std::make_unique<Member>(*this, rank));
}

SimulatedRing::~SimulatedRing() = default;

void SimulatedRing::introduce(SimulatedNodes& nodes) {
  for (const RingHop& hop : hops_) nodes.set_members(hop.hop, {hop.from, hop.to});
}

void SimulatedRing::call(SimulatedNodes& nodes, std::size_t rank) { members_[rank]->begin(nodes); }

}  // namespace square::simulation
