// The data plane's side of control.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "square/controlled_node.h"
#include "square/data_plane.h"

namespace square {

// Passes on what the controller says. Thread-safe. The data plane must live longer.
class ControlledDataPlane : public ControlledNode {
 public:
  explicit ControlledDataPlane(DataPlane& node) : node_(node) {}

  // Members here gave this much to an operation. Does not block.
  void note_use(CollectiveId collective, std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    used_[collective] += bytes;
  }
  // Where the controller is that welcomed this node last.
  [[nodiscard]] std::string controller() const {
    const std::lock_guard lock(mutex_);
    return controller_;
  }
  [[nodiscard]] bool has_controller() const { return has_controller_; }

  void set_controller(const std::string& address) override {
    const std::lock_guard lock(mutex_);
    controller_ = address;
    has_controller_ = true;
  }
  void lose_controller(const Status& /*reason*/) override { has_controller_ = false; }
  void set_address(const std::string& peer, const std::string& address, std::uint64_t incarnation) override {
    node_.set_address(peer, address, incarnation);
  }
  void set_gone(const std::string& peer, const std::string& reason,
                const std::optional<FinishedOperations>& finished) override {
    node_.set_gone(peer, reason, finished);
  }
  void look_for(const std::string& peer) override { node_.look_for(peer); }
  void install_plan(const std::shared_ptr<const Plan>& plan,
                    const std::function<void(Epoch)>& installed) override {
    node_.install_plan(plan, installed);
  }
  void activate_plan(Epoch epoch, bool moves) override { node_.activate_plan(epoch, moves); }
  void set_unplanned(const std::vector<CollectiveId>& collectives, const std::string& reason) override {
    node_.set_unplanned(collectives, reason);
  }
  NodeReport report() override {
    NodeReport made{node_.heard(), node_.take_measured(), {}};
    const std::lock_guard lock(mutex_);
    made.used = std::exchange(used_, {});
    return made;
  }

 private:
  DataPlane& node_;
  std::atomic<bool> has_controller_ = false;
  mutable std::mutex mutex_;
  UsedBytes used_;
  std::string controller_;
};

}  // namespace square
