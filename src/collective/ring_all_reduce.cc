#include "collective/ring_all_reduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/ring_layout.h"
#include "coding/sum.h"
#include "collective/one_step_calls.h"
#include "node/messages/call_description.h"
#include "square/clock.h"

namespace square {
namespace {

// Segments under way in each direction.
constexpr std::size_t kWindow = 16;
constexpr double kNoticesWeight = 1e-3;

// One member's part in one call.
class Ring {
 public:
  Ring(Rank self, std::size_t ranks, std::span<const std::byte> input, std::span<std::byte> output,
       Reduction reduction)
      : self_(self),
        next_(static_cast<std::uint32_t>((self.index() + 1) % ranks)),
        previous_(static_cast<std::uint32_t>((self.index() + ranks - 1) % ranks)),
        ranks_(static_cast<std::uint32_t>(ranks)),
        input_(input),
        output_(output),
        reduction_(reduction),
        layout_(input.size(), element_bytes(reduction.type), ranks, self) {
    // Nothing may be received on top of what is still to be added.
    if (input.data() == output.data() && !input.empty())
      scratch_.resize(std::min(kWindow, layout_.sums_begin()) * layout_.segment_bytes());
  }

  Status run(CompositeRun& run) {
    // What a member called, in front of its data: neighbours compare it, so all do.
    called_ = {run.call(), reduction_, input_.size(), ranks_, {}};
    own_description_ = encode(called_);
    SQUARE_RETURN_IF_ERROR(send(run, own_description_));
    // On its way while the descriptions meet.
    SQUARE_RETURN_IF_ERROR(send_up_to(run, 0));
    SQUARE_RETURN_IF_ERROR(compare_descriptions(run));
    for (std::size_t t = 0; t < layout_.transfers(); ++t) {
      SQUARE_RETURN_IF_ERROR(receive_ahead_of(run, t));
      SQUARE_RETURN_IF_ERROR(send_up_to(run, t));
      SQUARE_RETURN_IF_ERROR(run.wait(receives_[t % kWindow]));
      if (t < layout_.sums_begin()) add_received(t);
    }
    return Status::ok();  // the run waits for what is still being sent
  }

 private:
  Status send(CompositeRun& run, std::span<const std::byte> data, std::shared_ptr<Work>* work = nullptr) {
    SQUARE_ASSIGN_OR_RETURN(auto begun, run.begin({unicast_source(self_, next_, data, kRingChannel)}));
    if (work != nullptr) *work = std::move(begun);
    return Status::ok();
  }

  Status compare_descriptions(CompositeRun& run) {
    SQUARE_ASSIGN_OR_RETURN(
        const auto step,
        run.begin({unicast_destination(self_, previous_, their_description_, kRingChannel)}));
    SQUARE_RETURN_IF_ERROR(run.wait(step));
    return compare_calls(
        {fmt::format("rank {}", previous_.value()), decode_call_description(their_description_)},
        {fmt::format("rank {}", self_.value()), called_});
  }

  // Begins to send what may go before transfer `t` has come: what step 0 sends is there, later ones
  // send what came a step before. A send waits for the one a window before it, which the next rank
  // receives before it needs anything newer: so there is always a rank that goes on.
  Status send_up_to(CompositeRun& run, std::size_t t) {
    const std::size_t end = std::min({layout_.transfers(), t + layout_.segments(), t + kWindow});
    for (; sent_ < end; ++sent_) {
      std::shared_ptr<Work>& slot = sends_[sent_ % kWindow];
      if (slot) SQUARE_RETURN_IF_ERROR(run.wait(slot));
      const RingRange range = layout_.sent(sent_);
      const std::span<const std::byte> from = sent_ < layout_.segments() ? input_ : output_;
      SQUARE_RETURN_IF_ERROR(send(run, from.subspan(range.offset_bytes, range.size_bytes), &slot));
    }
    return Status::ok();
  }

  // Begins to receive transfer `t`, and as many after it as there is a place for.
  Status receive_ahead_of(CompositeRun& run, std::size_t t) {
    for (; received_ < std::min(layout_.transfers(), t + kWindow); ++received_) {
      SQUARE_ASSIGN_OR_RETURN(const bool is_free, frees_place_of(run, received_, received_ == t));
      if (!is_free) break;
      SQUARE_ASSIGN_OR_RETURN(
          receives_[received_ % kWindow],
          run.begin({unicast_destination(self_, previous_, place_of(received_), kRingChannel)}));
    }
    return Status::ok();
  }

  // A sum takes the place of the part that was sent n - 1 steps before, and may have to be sent again.
  Result<bool> frees_place_of(CompositeRun& run, std::size_t transfer, bool wait) {
    if (transfer < layout_.sums_begin()) return true;
    const std::size_t send = transfer - layout_.sums_begin();
    if (send >= sent_) return false;
    if (send + kWindow < sent_) return true;  // its slot has another one, that waited for it
    const std::shared_ptr<Work>& sending = sends_[send % kWindow];
    if (!wait && !sending->is_done()) return false;
    SQUARE_RETURN_IF_ERROR(run.wait(sending));
    return true;
  }

  std::span<std::byte> place_of(std::size_t transfer) {
    const RingRange range = layout_.received(transfer);
    if (transfer < layout_.sums_begin() && !scratch_.empty()) {
      const std::size_t slot = transfer % kWindow;
      return std::span(scratch_).subspan(slot * layout_.segment_bytes(), range.size_bytes);
    }
    return output_.subspan(range.offset_bytes, range.size_bytes);
  }

  void add_received(std::size_t transfer) {
    const RingRange range = layout_.received(transfer);
    const std::span<std::byte> theirs = place_of(transfer);
    add(output_.subspan(range.offset_bytes, range.size_bytes),
        {{theirs.data(), nullptr}, {input_.data() + range.offset_bytes, nullptr}}, reduction_,
        layout_.completes_sum(transfer) ? ranks_ : 1);
  }

  const Rank self_;
  const Rank next_;
  const Rank previous_;
  const std::uint32_t ranks_;
  const std::span<const std::byte> input_;
  const std::span<std::byte> output_;
  const Reduction reduction_;
  const RingLayout layout_;
  CallDescription called_;
  CallDescriptionBytes own_description_{};
  CallDescriptionBytes their_description_{};
  std::vector<std::byte> scratch_;  // a place for every segment of the window; none unless in place
  std::size_t sent_ = 0;            // begun
  std::size_t received_ = 0;        // begun
  std::array<std::shared_ptr<Work>, kWindow> sends_;
  std::array<std::shared_ptr<Work>, kWindow> receives_;
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

Result<std::shared_ptr<Work>> ring_all_reduce(GroupCalls& group, CompositeThread& thread,
                                              std::span<const std::byte> input, std::span<std::byte> output,
                                              Reduction reduction, Duration timeout) {
  const Rank self = group.rank();
  SQUARE_RETURN_IF_ERROR(check_buffers(input, output, reduction, self));
  // A ring of one sends nothing.
  if (group.size() == 1)
    return all_reduce(group, input, output, reduction, timeout, CallKind::kRingAllReduce);
  SQUARE_RETURN_IF_ERROR(group.check_usable());
  const TimePoint begun_at = steady_clock().now();
  SQUARE_ASSIGN_OR_RETURN(auto collectives, registered(group, input.size(), timeout));
  timeout -= steady_clock().now() - begun_at;
  const auto ring = std::make_shared<Ring>(self, group.size(), input, output, reduction);
  return thread.start({"ring all_reduce", CallKind::kRingAllReduce, timeout, std::move(collectives),
                       [ring](CompositeRun& run) { return ring->run(run); }});
}

}  // namespace square
