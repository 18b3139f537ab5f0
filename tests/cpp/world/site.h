// A node's process in the simulation: the data plane as it is, its line to the controller, and the controller
// that it may bring.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collective/controlled_data_plane.h"
#include "controller/node_control/node_control.h"
#include "square/data_plane.h"
#include "square/simulation.h"
#include "trust/group_keys.h"
#include "world/control_wire.h"

namespace square::test {

class Site {
 public:
  // It is given the addresses of `given`, of all those that it may find.
  Site(Simulation& simulation, ControlNetwork& network, const Controllers& controllers,
       std::vector<std::string> given, std::string name)
      : simulation_(simulation),
        network_(network),
        controllers_(controllers),
        given_(std::move(given)),
        name_(std::move(name)) {}
  ~Site() { kill(true); }

  void start() {
    ++incarnation_;
    executor_ = simulation_.make_executor(name_);
    transport_ = simulation_.make_transport(name_);
    clock_ = simulation_.make_clock(name_);
    DataPlaneOptions options;
    options.name = name_;
    options.incarnation = incarnation_;
    node_ = std::make_unique<DataPlane>(options, *clock_, *transport_, *executor_);
    if (!node_->start().is_ok()) std::abort();
    network_.set_process(name_, executor_.get());
    controlled_ = std::make_unique<ControlledDataPlane>(*node_);
    wire_ = std::make_unique<SimulatedControlWire>(network_, controllers_, *clock_, *executor_, name_,
                                                   given_.size() > 1, own_ != nullptr);
    controller::NodeControlOptions line;
    line.node_name = name_;
    line.node_address = transport_->address();
    line.incarnation = incarnation_;
    line.controllers = given_;
    if (own_) line.successor = successor();
    line.identity = identity_;
    if (identity_) line.group_keys = trust::GroupKeys::create(identity_).value();
    control_ = std::make_unique<controller::NodeControl>(*wire_, *clock_, executor_, line, *controlled_);
    executor_->post([this] { control_->start([](const Status& /*settled*/) {}); });
    node_->report_broken_links(
        [&control = *control_](LinkTroubles troubles) { control.report_broken_links(std::move(troubles)); },
        [&controlled = *controlled_] { return controlled.has_controller(); });
  }

  // With every process of the node: `rank` says when it is its turn to wake.
  void bring(ControllerProcess& own, std::uint32_t rank) {
    own_ = &own;
    rank_ = rank;
  }
  [[nodiscard]] ControllerProcess* own() { return own_; }
  // From its next start on its blocks are sealed, and it believes signed plans alone.
  void identify(std::shared_ptr<Identity> identity) { identity_ = std::move(identity); }

  // As a program that stops its node: it drains, and says goodbye. `left` runs then, and kills the site.
  void leave(std::function<void()> left) {
    node_->stop([this, left = std::move(left)] {
      node_->finished([this, left](const FinishedOperations& finished) {
        control_->leave(finished, [] {});
        left();
      });
    });
  }

  // As SIGKILL does; `silently` as when its host is cut from power.
  void kill(bool silently) {
    if (!is_alive()) return;
    if (own_) silently ? own_->lose_power() : own_->kill();
    if (!silently) wire_->reset();
    network_.set_process(name_, nullptr);
    control_.reset();
    wire_.reset();
    controlled_.reset();
    transport_->stop();
    node_.reset();
    transport_.reset();
    executor_.reset();
  }

  [[nodiscard]] bool is_alive() const { return node_ != nullptr; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::uint32_t incarnation() const { return incarnation_; }
  void post(Executor::Task task) { executor_->post(std::move(task)); }
  DataPlane& node() { return *node_; }
  controller::NodeControl& control() { return *control_; }
  void note_use(CollectiveId collective, std::uint64_t bytes) { controlled_->note_use(collective, bytes); }
  // Its line to the controller, where it is to that one, breaks, and it sees that.
  void break_line(const std::optional<std::string>& controller) { wire_->break_connections(controller); }

 private:
  controller::Successor successor() {
    return {own_->address(), rank_, [this] { return own_->waiting(); },
            [this](const std::vector<LostController>& lost) { return own_->wake(lost); }};
  }

  Simulation& simulation_;
  ControlNetwork& network_;
  const Controllers& controllers_;
  const std::vector<std::string> given_;
  ControllerProcess* own_ = nullptr;
  std::uint32_t rank_ = 0;
  std::shared_ptr<Identity> identity_;
  const std::string name_;
  std::uint32_t incarnation_ = 0;
  std::unique_ptr<Clock> clock_;
  std::shared_ptr<Executor> executor_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<DataPlane> node_;
  std::unique_ptr<ControlledDataPlane> controlled_;
  std::unique_ptr<SimulatedControlWire> wire_;
  std::unique_ptr<controller::NodeControl> control_;
};

}  // namespace square::test
