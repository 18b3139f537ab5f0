// A controller's process in the simulation: the coordinator as it is, under virtual time, and what decides
// when it leads.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "controller/answers.h"
#include "controller/coordinator.h"
#include "controller/granting.h"
#include "controller/plan_signature.h"
#include "world/control_network.h"
#include "world/disk.h"
#include "world/draw.h"

namespace square::test {

inline const std::string kControllerHost = "controller";

// One after another, at one address. Nodes reach it over the network; see SimulatedControlWire.
class ControllerProcess {
 public:
  struct Settings {
    std::string address = kControllerHost;  // on the network
    std::string host = kControllerHost;     // that it is stopped with, and whose clock it has
    // It leads when it gets hold of the disk, or is woken where it has none.
    bool stands_by = false;
    std::shared_ptr<Disk> disk{};  // that it shares with others; null: one of its own
    Duration lease = std::chrono::seconds(10);
    Duration install_timeout = std::chrono::seconds(10);
    Scenario scenario;
    bool has_store = true;
    std::shared_ptr<Identity> identity{};  // it signs plans, and groups need grants
    // Of so many plans one is provisional at first; 0: none.
    std::size_t provisional_in = 4;
  };

  ControllerProcess(Simulation& simulation, ControlNetwork& network, Settings settings, std::uint64_t seed);
  ~ControllerProcess() { kill(); }

  // Errors: those of Coordinator::create(), where it does not stand by.
  Status start();
  // As Controller::wake().
  Status wake(const std::vector<LostController>& lost);
  // The nodes that call while it stands by.
  [[nodiscard]] std::size_t waiting() const;
  // As SIGKILL does: what it has not said by then is not said.
  void kill();
  // Its host loses power: what its store has not synced is lost, and nobody hears of it.
  void lose_power();
  // The next write to the store is its last moment; `on_death` hears so.
  void kill_at_write(bool keeps_it, Duration until_next);
  std::function<void(Duration until_next)> on_death;
  [[nodiscard]] bool is_alive() const { return executor_ != nullptr; }
  [[nodiscard]] bool leads() const { return coordinator_ != nullptr && !coordinator_->is_stopping(); }
  [[nodiscard]] const std::string& address() const { return settings_.address; }
  [[nodiscard]] const std::string& host() const { return settings_.host; }
  // Its process, of all that ever were.
  [[nodiscard]] std::string process() const { return settings_.address + "/" + std::to_string(starts_); }
  [[nodiscard]] Disk& disk() { return *disk_; }
  [[nodiscard]] bool has_store() const { return settings_.has_store; }

  [[nodiscard]] controller::Coordinator* coordinator() { return coordinator_.get(); }

  // The controller's end of a node's connection.
  struct Connection {
    std::string node;
    std::uint64_t number = 0;  // of the network
    bool brings_successor = false;
    std::function<void(const v1::ControllerEvent&)> on_event;  // at the node
    std::function<void(Status)> on_end;                        // at the node
  };
  // From here on on the controller's host.
  void accept(Connection connection);
  void hear(std::uint64_t connection, const v1::NodeEvent& event);
  // `call` is a channel of the network, `answered` called at the node.
  template <typename Question, typename Answered>
  void call(std::uint64_t connection, std::uint64_t call, const Question& question,
            const Answered& answered) {
    const auto send = way_back(connection, call);
    if (!send) return;
    const auto reply = [send, answered](const auto& answer) {
      send([answered, answer] { answered(answer); });
    };
    if constexpr (std::is_same_v<Question, v1::RegroupRequest>) {
      controller::answer(*coordinator_, question, reply, granting_.get());
    } else {
      controller::answer(*coordinator_, question, reply);
    }
  }
  void lose(std::uint64_t connection);
  [[nodiscard]] bool has(std::uint64_t connection) const { return lines_.contains(connection); }

  // It was woken.
  std::function<void()> on_wake;
  // A plan that it has begun to send.
  std::function<void(const v1::PlanPart&)> on_part;
  // What it does that no controller may.
  std::function<void(const std::string&)> on_fault;
  // Everything that was ever active, for who looks whether numbers were given twice.
  std::function<void(const controller::PublishedPlan&)> on_plan;

 private:
  class Line;
  class Plans;

  Status lead();
  void wait_for_store();
  void keep_store();
  void look_at_store();
  void step_down(const std::string& why);
  void note_sent(const v1::ControllerEvent& event);
  void later(Duration wait, Executor::Task task);
  void step();
  void wake();
  void end_connections();
  // What an answer over that connection is carried by; null where it has ended.
  std::function<void(ControlNetwork::Task)> way_back(std::uint64_t connection, std::uint64_t call);

  Simulation& simulation_;
  ControlNetwork& network_;
  const Settings settings_;
  Dice dice_;
  const std::unique_ptr<Clock> clock_;
  const std::shared_ptr<const controller::Granting> granting_;  // null: groups need no grants
  const std::shared_ptr<controller::PlanSigner> signer_;        // null: it signs none
  std::shared_ptr<Disk> disk_;
  DiskStore* store_ = nullptr;  // the coordinator's

  int starts_ = 0;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<controller::Coordinator> coordinator_;
  controller::PublishedPlanPtr active_;  // as told last
  std::shared_ptr<bool> alive_;
  bool is_woken_ = false;
  Duration until_next_{0};
  Executor::TimerId timer_ = 0;
  std::map<std::uint64_t, std::shared_ptr<Line>> lines_;  // by connection
  std::uint32_t last_sent_ = 0;                           // an epoch
  std::uint64_t planned_in_ = 0;                          // the store's term
  std::map<std::string, TimePoint> waiting_;              // nodes, and when they called last
};

// By address.
using Controllers = std::map<std::string, ControllerProcess*>;

}  // namespace square::test
