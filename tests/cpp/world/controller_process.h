// The controller's process in the simulation: the coordinator as it is, under virtual time.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "controller/answers.h"
#include "controller/coordinator.h"
#include "world/control_network.h"
#include "world/disk.h"
#include "world/draw.h"

namespace square::test {

inline const std::string kControllerHost = "controller";

// One after another, on one host. Nodes reach it over the network; see SimulatedControlWire.
class ControllerProcess {
 public:
  struct Settings {
    Duration lease = std::chrono::seconds(10);
    Duration install_timeout = std::chrono::seconds(10);
    Scenario scenario;
    bool has_store = true;
    // Of so many plans one is provisional at first; 0: none.
    std::size_t provisional_in = 4;
  };

  ControllerProcess(Simulation& simulation, ControlNetwork& network, Settings settings, std::uint64_t seed);
  ~ControllerProcess() { kill(); }

  Status start();
  // As SIGKILL does: what it has not said by then is not said.
  void kill();
  // Its host loses power: what its store has not synced is lost, and nobody hears of it.
  void lose_power();
  // The next write to the store is its last moment; `on_death` hears so.
  void kill_at_write(bool keeps_it, Duration until_next);
  std::function<void(Duration until_next)> on_death;
  [[nodiscard]] bool is_alive() const { return coordinator_ != nullptr; }
  [[nodiscard]] bool has_store() const { return settings_.has_store; }

  [[nodiscard]] controller::Coordinator* coordinator() { return coordinator_.get(); }

  // The controller's end of a node's connection.
  struct Connection {
    std::string node;
    std::uint64_t number = 0;                                  // of the network
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
    controller::answer(*coordinator_, question, [send, answered](const auto& answer) {
      send([answered, answer] { answered(answer); });
    });
  }
  void lose(std::uint64_t connection);
  [[nodiscard]] bool has(std::uint64_t connection) const { return lines_.contains(connection); }

  // Everything that was ever active, for who looks whether numbers were given twice.
  std::function<void(const controller::PublishedPlan&)> on_plan;

 private:
  class Line;
  class Plans;

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
  Disk disk_;
  std::uint64_t incarnation_ = 0;

  std::unique_ptr<Executor> executor_;
  std::unique_ptr<controller::Coordinator> coordinator_;
  std::shared_ptr<bool> alive_;
  bool is_woken_ = false;
  Duration until_next_{0};
  Executor::TimerId timer_ = 0;
  std::map<std::uint64_t, std::shared_ptr<Line>> lines_;  // by connection
  Epoch last_seen_{0};
};

}  // namespace square::test
