// A reduce or an all-reduce on one node: partial sums go up trees to the roots of the plan's shares,
// and in an all-reduce each root's sums go down trees to everybody, block by block.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>

#include "node/operations/multicasts.h"
#include "node/operations/operation_work.h"
#include "node/operations/sum_layout.h"
#include "node/operations/sum_sessions.h"

namespace square {

class SumOperation final : public OperationWork {
 public:
  using PlanPointer = std::shared_ptr<const InstalledCollective>;

  SumOperation(CollectiveOp op, Operation& operation);

  [[nodiscard]] Status check_neighbours(const MemberOperation& call) const override;
  void on_post(const MemberOperation& call, const PlanPointer& plan) override;
  void open() override;
  void on_arrival(Arrival arrival) override;
  void on_acknowledgement(const FrameHeader& header, const Acknowledgement& ack) override {
    multicasts_.on_acknowledgement(header, ack);
  }
  void on_layout(const InstalledCollective&, const FrameHeader& header) override {
    static_cast<void>(agrees_on_layout(header));
  }
  bool fill(const StreamKey& key) override;
  void shed(SessionId session) override { sums_.shed(session); }
  void hurry() override;
  [[nodiscard]] bool runs_before(Epoch epoch) const override;
  void migrate(const PlanPointer& plan, bool may_stay) override;
  void follow(const PlanPointer& /*plan*/) override {}  // what is added would begin again
  void let_go(Epoch closed) override { multicasts_.let_go(closed); }

  [[nodiscard]] bool is_done() const override { return is_open_ && waiting_.empty(); }
  [[nodiscard]] bool is_quiet() const override { return multicasts_.is_quiet() && sums_.is_quiet(); }
  [[nodiscard]] std::string describe_missing() const override;
  void release(bool has_failed) override;
  void abandon() override;

 private:
  // Cuts, and what begins under one (sum_operation.cc)
  [[nodiscard]] bool agrees_on_layout(const FrameHeader& header);
  void cut_by(const PlanPointer& plan);
  void open_sums(const PlanPointer& plan);
  void open_sum(const SumLayout::Share& share, const std::shared_ptr<const void>& pin);
  [[nodiscard]] Result<SumShape> shape_of_own(const SumLayout::Share& share) const;
  void open_receiver(SessionId session);
  void sum_locally();
  [[nodiscard]] const MemberOperation& first_call() const {
    return operation_.members().begin()->second.call;
  }

  // Frames (sum_operation_frames.cc)
  void take_multicast(Arrival arrival);
  void take_part(Arrival part);
  void take_request(const Arrival& request);
  void take_report(Arrival report);
  std::shared_ptr<SumSession> sums_for(const Arrival& arrival);

  // What is open
  void on_sum(SessionId pair, std::size_t block);
  void on_sums_progress(SessionId session);
  void on_multicast_done(SessionId session);
  [[nodiscard]] bool is_through(const SumLayout::Share& share) const;

  const CollectiveOp op_;
  Operation& operation_;
  SumSessions sums_;
  Multicasts multicasts_;            // of the sums, in an all-reduce
  PlanPointer plan_;                 // that cuts the buffer
  std::optional<SumLayout> layout_;  // once all members have posted
  bool is_open_ = false;
  std::set<SessionId> waiting_;  // sessions that the members here wait for
};

}  // namespace square
