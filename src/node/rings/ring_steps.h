// A member's steps of an all-reduce around a ring: partial sums go around once, then the sums do.
//
// Without threads, clocks or plans: a member's operations end, and each end begins what may come next. The
// same steps run for programs (src/collective/ring_all_reduce) and in the simulation of a plan.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/ring_layout.h"
#include "node/messages/call_description.h"
#include "square/ids.h"
#include "square/status.h"

namespace square {

// What the steps need of the node. `then` runs once the operation is over and well; it may run before the
// function returns. Where one fails, the ring has failed: nothing of it runs any more.
class RingMember {
 public:
  virtual ~RingMember() = default;
  // To the next rank, and from the previous one: messages arrive in the order in which they were sent.
  virtual void send(std::span<const std::byte> data, std::function<void()> then) = 0;
  virtual void receive(std::span<std::byte> place, std::function<void()> then) = 0;
  // Runs `task`, arithmetic over about `bytes`, on another thread or at once.
  virtual void work(std::size_t bytes, std::function<void()> task, std::function<void()> then) = 0;
  // Once: all has been received and sent, or the members have not called the same.
  virtual void finish(const Status& outcome) = 0;
};

// Additions go in the order of ranks, whatever the plan, so all members have the same bits and a rerun has
// them again.
class RingSteps {
 public:
  // Segments under way in each direction.
  static constexpr std::size_t kWindow = 16;

  // Input and output may be the same bytes. Preconditions: two ranks at least; sizes are equal.
  RingSteps(Rank self, std::size_t ranks, std::span<const std::byte> input, std::span<std::byte> output,
            Reduction reduction);
  RingSteps(const RingSteps&) = delete;
  RingSteps& operator=(const RingSteps&) = delete;

  // `member` must outlive the steps, and both what they have begun.
  void begin(RingMember& member, GroupCall call);

 private:
  void on_description();
  // Begins what may begin, until nothing more may.
  void go_on();
  void send_next();
  void receive_next();
  void take_next();
  [[nodiscard]] bool can_send() const;
  [[nodiscard]] bool can_receive() const;
  [[nodiscard]] bool can_take() const;
  [[nodiscard]] std::span<std::byte> place_of(std::size_t transfer);
  void add_received(std::size_t transfer);

  const Rank self_;
  const Rank previous_;
  const std::uint32_t ranks_;
  const std::span<const std::byte> input_;
  const std::span<std::byte> output_;
  const Reduction reduction_;
  const RingLayout layout_;
  RingMember* member_ = nullptr;
  CallDescription called_;
  CallDescriptionBytes own_description_{};
  CallDescriptionBytes their_description_{};
  std::vector<std::byte> scratch_;  // a place for every segment of the window; none unless in place
  // Transfers, counted from the first:
  std::size_t sent_ = 0;      // begun to be sent
  std::size_t received_ = 0;  // begun to be received
  std::size_t taken_ = 0;     // of those, added or in their place
  std::array<bool, kWindow> is_sending_{};
  std::array<bool, kWindow> has_come_{};  // and is not taken
  std::size_t sends_ = 0;                 // under way
  bool are_alike_ = false;                // the previous rank has called the same
  bool is_adding_ = false;
  bool is_going_on_ = false;
};

}  // namespace square
