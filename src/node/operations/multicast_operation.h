// A broadcast on one node: its source sends, its destinations receive.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "node/operations/multicasts.h"
#include "node/operations/operation_work.h"

namespace square {

class MulticastOperation final : public OperationWork {
 public:
  explicit MulticastOperation(Operation& operation)
      : operation_(operation), multicasts_(operation, [this](SessionId session) { on_done(session); }) {}

  [[nodiscard]] Status check_neighbours(const MemberOperation&) const override { return Status::ok(); }
  void on_post(const MemberOperation& call, const std::shared_ptr<const InstalledCollective>& plan) override;
  void open() override;
  void on_arrival(Arrival arrival) override;
  void on_acknowledgement(const FrameHeader& header, const Acknowledgement& ack) override {
    multicasts_.on_acknowledgement(header, ack);
  }
  void on_layout(const InstalledCollective&, const FrameHeader&) override {}  // no plan cuts its buffer
  bool fill(const StreamKey& key) override {
    multicasts_.fill(key.session);
    return true;
  }
  void shed(SessionId) override {}
  void hurry() override { multicasts_.hurry(); }
  [[nodiscard]] bool runs_before(Epoch epoch) const override { return multicasts_.runs_before(epoch); }
  void migrate(const std::shared_ptr<const InstalledCollective>& plan, bool may_stay) override {
    multicasts_.migrate(plan, may_stay);
  }
  void follow(const std::shared_ptr<const InstalledCollective>& plan) override { multicasts_.follow(plan); }
  void let_go(Epoch closed) override { multicasts_.let_go(closed); }

  [[nodiscard]] bool is_done() const override;
  [[nodiscard]] bool is_quiet() const override { return multicasts_.is_quiet(); }
  [[nodiscard]] std::string describe_missing() const override;
  void release(bool has_failed) override { multicasts_.release(has_failed); }
  void abandon() override { multicasts_.abandon(); }

 private:
  void send(const MemberOperation& source, const std::shared_ptr<const InstalledCollective>& plan);
  void copy_to_neighbours();
  void open_receiver(SessionId session);
  void on_done(SessionId session);

  Operation& operation_;
  Multicasts multicasts_;
  // Of the source, or of the first frame.
  std::shared_ptr<const InstalledCollective> plan_;
  std::string source_;        // its name, for who waits for it
  std::set<SessionId> open_;  // what the members here wait for
  bool has_source_ = false;   // one of them
  bool copied_ = false;
};

}  // namespace square
