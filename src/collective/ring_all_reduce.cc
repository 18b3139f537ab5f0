#include "collective/ring_all_reduce.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "base/check.h"
#include "collective/one_step_calls.h"
#include "node/rings/ring_steps.h"
#include "square/clock.h"

namespace square {
namespace {

constexpr double kNoticesWeight = 1e-3;

// One member's part in one call.
class Ring final : public CompositeSteps, public RingMember {
 public:
  Ring(Rank self, std::size_t ranks, std::span<const std::byte> input, std::span<std::byte> output,
       Reduction reduction)
      : self_(self),
        next_(static_cast<std::uint32_t>((self.index() + 1) % ranks)),
        previous_(static_cast<std::uint32_t>((self.index() + ranks - 1) % ranks)),
        steps_(self, ranks, input, output, reduction) {}

  void begin(CompositeRun& run) override {
    run_ = &run;
    steps_.begin(*this, run.call());
  }

  void send(std::span<const std::byte> data, std::function<void()> then) override {
    run_->begin(unicast_source(self_, next_, data, kRingChannel), std::move(then));
  }
  void receive(std::span<std::byte> place, std::function<void()> then) override {
    run_->begin(unicast_destination(self_, previous_, place, kRingChannel), std::move(then));
  }
  void work(std::size_t bytes, std::function<void()> task, std::function<void()> then) override {
    const auto add = [task = std::move(task)] {
      task();
      return Status::ok();
    };
    run_->work(bytes, add, std::move(then));
  }
  void finish(const Status& outcome) override { run_->finish(outcome); }

 private:
  const Rank self_;
  const Rank next_;
  const Rank previous_;
  RingSteps steps_;
  CompositeRun* run_ = nullptr;
};

Status check_buffers(std::span<const std::byte> input, std::span<std::byte> output, Reduction reduction,
                     Rank self) {
  SQUARE_RETURN_IF_ERROR(check_reduction(reduction).with_context("ring all_reduce"));
  const std::size_t element = element_bytes(reduction.type);
  if (input.size() % element != 0) {
    return invalid_argument(fmt::format("rank {}: {} bytes are not a number of {}, which have {} bytes each",
                                        self.value(), input.size(), to_string(reduction.type), element));
  }
  if (input.size() == output.size()) return Status::ok();
  return invalid_argument(fmt::format("rank {}: the output has {} bytes, the input {}", self.value(),
                                      output.size(), input.size()));
}

// Every member hears of a failure through it. No bytes go there, so its promised rates are lent to others.
// As the planned all-reduce those that call that instead are told so, too.
GroupCollective notices(bool are_sums) {
  GroupCollective collective;
  collective.op = are_sums ? CollectiveOp::kAllReduce : CollectiveOp::kBroadcast;
  // A broadcast that nobody calls, with next to nothing of what the ring is to have.
  if (!are_sums) {
    collective.channel = kRingChannel;
    collective.weight = kNoticesWeight;
  }
  return collective;
}

std::vector<GroupCollective> collectives_of(const GroupCalls& group, std::size_t size_bytes, bool with_sums) {
  std::vector<GroupCollective> all{notices(with_sums)};
  all.front().size_bytes = size_bytes;
  const std::size_t ranks = group.size();
  for (const Rank from : group.ranks()) {
    const Rank to(static_cast<std::uint32_t>((from.index() + 1) % ranks));
    all.push_back(unicast(from, to, kRingChannel));
    all.back().size_bytes = size_bytes / ranks * 2 * (ranks - 1);
  }
  return all;
}

// Of a policy that plans no relays that add the ring is all that there is.
Result<std::vector<GroupCollective>> registered(GroupCalls& group, std::size_t size_bytes, Duration timeout) {
  if (!group.is_registered(notices(false))) {
    auto all = collectives_of(group, size_bytes, true);
    const Status status = group.ensure(all, timeout);
    if (status.is_ok()) return all;
    if (status.code() != StatusCode::kUnimplemented) return status;
  }
  auto all = collectives_of(group, size_bytes, false);
  SQUARE_RETURN_IF_ERROR(group.ensure(all, timeout));
  return all;
}

}  // namespace

Result<std::shared_ptr<Work>> ring_all_reduce(GroupCalls& group, CompositeCalls& calls,
                                              std::span<const std::byte> input, std::span<std::byte> output,
                                              Reduction reduction, Duration timeout) {
  const Rank self = group.rank();
  SQUARE_RETURN_IF_ERROR(check_buffers(input, output, reduction, self));
  // A ring of one sends nothing.
  if (group.size() == 1)
    return all_reduce(group, input, output, reduction, timeout, CallKind::kRingAllReduce);
  SQUARE_RETURN_IF_ERROR(group.check_usable());
  const TimePoint begun_at = group.host().clock().now();
  SQUARE_ASSIGN_OR_RETURN(auto collectives, registered(group, input.size(), timeout));
  timeout -= group.host().clock().now() - begun_at;
  return calls.start({"ring all_reduce", CallKind::kRingAllReduce, timeout, std::move(collectives),
                      std::make_shared<Ring>(self, group.size(), input, output, reduction)});
}

}  // namespace square
