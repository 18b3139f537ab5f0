#include "node/rings/ring_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "coding/sum.h"

namespace square {

RingSteps::RingSteps(Rank self, std::size_t ranks, std::span<const std::byte> input,
                     std::span<std::byte> output, Reduction reduction)
    : self_(self),
      previous_(static_cast<std::uint32_t>((self.index() + ranks - 1) % ranks)),
      ranks_(static_cast<std::uint32_t>(ranks)),
      input_(input),
      output_(output),
      reduction_(reduction),
      layout_(input.size(), element_bytes(reduction.type), ranks, self) {}

void RingSteps::begin(RingMember& member, GroupCall call) {
  member_ = &member;
  // Nothing may be received on top of what is still to be added.
  if (input_.data() == output_.data() && !input_.empty())
    scratch_.resize(std::min(kWindow, layout_.sums_begin()) * layout_.segment_bytes());
  // What a member called, in front of its data: neighbours compare it, so all do.
  called_ = {call, reduction_, input_.size(), ranks_, {}};
  own_description_ = encode(called_);
  ++sends_;
  member_->send(own_description_, [this] {
    --sends_;
    go_on();
  });
  member_->receive(their_description_, [this] { on_description(); });
  go_on();
}

void RingSteps::on_description() {
  const Status compared =
      compare_calls({fmt::format("rank {}", previous_.value()), decode_call_description(their_description_)},
                    {fmt::format("rank {}", self_.value()), called_});
  if (!compared.is_ok()) return member_->finish(compared);
  are_alike_ = true;
  go_on();
}

void RingSteps::go_on() {
  if (std::exchange(is_going_on_, true)) return;
  for (;;) {
    // First, as what comes earlier has to be held.
    if (can_receive()) {
      receive_next();
    } else if (can_send()) {
      send_next();
    } else if (can_take()) {
      take_next();
    } else {
      break;
    }
  }
  is_going_on_ = false;
  if (taken_ == layout_.transfers() && sends_ == 0) member_->finish(Status::ok());
}

// What step 0 sends is there, later ones send what came a step before. A send waits for the one a window
// before it, which the next rank receives before it needs anything newer: so there is always a rank that goes
// on.
bool RingSteps::can_send() const {
  const std::size_t end = std::min({layout_.transfers(), taken_ + layout_.segments(), taken_ + kWindow});
  return sent_ < end && !is_sending_[sent_ % kWindow];
}

void RingSteps::send_next() {
  const std::size_t transfer = sent_++;
  const RingRange range = layout_.sent(transfer);
  const std::span<const std::byte> from = transfer < layout_.segments() ? input_ : output_;
  is_sending_[transfer % kWindow] = true;
  ++sends_;
  member_->send(from.subspan(range.offset_bytes, range.size_bytes), [this, transfer] {
    is_sending_[transfer % kWindow] = false;
    --sends_;
    go_on();
  });
}

// A sum takes the place of the part that was sent n - 1 steps before, and may have to be sent again.
bool RingSteps::can_receive() const {
  if (!are_alike_ || received_ >= std::min(layout_.transfers(), taken_ + kWindow)) return false;
  if (received_ < layout_.sums_begin()) return true;
  const std::size_t send = received_ - layout_.sums_begin();
  // Where its slot has another one, that waited for it.
  return send < sent_ && (send + kWindow < sent_ || !is_sending_[send % kWindow]);
}

void RingSteps::receive_next() {
  const std::size_t transfer = received_++;
  member_->receive(place_of(transfer), [this, transfer] {
    has_come_[transfer % kWindow] = true;
    go_on();
  });
}

bool RingSteps::can_take() const { return !is_adding_ && taken_ < received_ && has_come_[taken_ % kWindow]; }

void RingSteps::take_next() {
  const std::size_t transfer = taken_;
  has_come_[transfer % kWindow] = false;
  if (transfer >= layout_.sums_begin()) {
    ++taken_;
    return;
  }
  is_adding_ = true;
  member_->work(
      2 * layout_.received(transfer).size_bytes, [this, transfer] { add_received(transfer); },
      [this] {
        is_adding_ = false;
        ++taken_;
        go_on();
      });
}

std::span<std::byte> RingSteps::place_of(std::size_t transfer) {
  const RingRange range = layout_.received(transfer);
  if (transfer < layout_.sums_begin() && !scratch_.empty()) {
    const std::size_t slot = transfer % kWindow;
    return std::span(scratch_).subspan(slot * layout_.segment_bytes(), range.size_bytes);
  }
  return output_.subspan(range.offset_bytes, range.size_bytes);
}

void RingSteps::add_received(std::size_t transfer) {
  const RingRange range = layout_.received(transfer);
  const std::span<std::byte> theirs = place_of(transfer);
  add(output_.subspan(range.offset_bytes, range.size_bytes),
      {{theirs.data(), nullptr}, {input_.data() + range.offset_bytes, nullptr}}, reduction_,
      layout_.completes_sum(transfer) ? ranks_ : 1);
}

}  // namespace square
