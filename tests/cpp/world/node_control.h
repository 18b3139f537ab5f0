// A node's end of its line to the controller, under virtual time: says and does what ControllerClient does,
// with the same messages, times and memory of what the node runs, over the simulation's network instead of
// gRPC.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controller/part_reader.h"
#include "controller/recollection.h"
#include "square/controller_client.h"
#include "world/controller_process.h"

namespace square::test {

class NodeControl {
 public:
  using Registered = std::function<void(Result<GroupRegistration>)>;

  struct Identity {
    std::string node;
    std::string address;
    std::uint64_t incarnation = 0;
  };
  // What it refers to must live longer; `executor` is the node's.
  NodeControl(ControlNetwork& network, ControllerProcess& controller, const Clock& clock, Executor& executor,
              Identity identity, ControllerEvents events);

  // As ControllerClient::register_group(); `done` is called once, on the executor.
  void register_group(GroupSpec group, Duration timeout, Registered done);
  void close_group(const std::string& group, std::uint64_t number);
  void note_use(CollectiveId collective, std::uint64_t bytes) { used_[collective] += bytes; }
  // As ControllerClient::report_broken_links().
  void report_broken_links(LinkTroubles troubles);
  // Says goodbye.
  void leave(const FinishedOperations& finished);
  // Its connection breaks, and the node sees it.
  void break_line();
  // Its process ends, and its host says so.
  void reset();
  [[nodiscard]] bool is_welcome() const { return is_welcome_; }

 private:
  // One registration, asked for until it is answered or its time is over.
  struct Registering {
    GroupSpec group;
    TimePoint end;
    Registered done;
    Duration pause;
    std::uint64_t call = 0;  // under way
    std::uint64_t losses = 0;
    std::optional<GroupRegistration> made;  // whose plan is not active here yet
  };
  using RegisteringPtr = std::shared_ptr<Registering>;

  void dial();
  void connected(std::uint64_t connection);
  void lost(Status reason);
  void tell_of_end(std::uint64_t connection);
  void hear(const v1::ControllerEvent& event);
  void install(const v1::PlanPart& part);
  void welcome(const v1::Welcome& message);
  void beat(std::uint64_t connection);
  void ping(std::uint64_t connection);
  void say(const v1::NodeEvent& event);
  void say_broken_links();
  void say_closed(const std::string& group, std::uint64_t number);

  void begin_registering(const RegisteringPtr& asked);
  void ask(const RegisteringPtr& asked);
  void ask_again(const RegisteringPtr& asked, Duration pause);
  void answered(std::uint64_t call, const Result<controller::Answer>& answer);
  void try_again_or_end(const RegisteringPtr& asked, const Status& failure);
  void end(const RegisteringPtr& asked, Result<GroupRegistration> result);
  void look_at_registrations();
  [[nodiscard]] bool has_heard_of_all_closed(const std::string& group) const;
  void later(Duration wait, Executor::Task task);

  ControlNetwork& network_;
  ControllerProcess& controller_;
  const Clock& clock_;
  Executor& executor_;
  const Identity identity_;
  const ControllerEvents events_;
  controller::Recollection recollection_;
  std::optional<controller::PartReader> parts_;  // of the connection

  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::uint64_t connection_ = 0;  // 0: none
  bool is_welcome_ = false;
  bool has_left_ = false;
  std::uint64_t losses_ = 0;
  std::uint64_t pings_ = 0;
  std::uint64_t pongs_ = 0;
  Duration wait_ = ControllerClient::kMinReconnectWait;
  Duration heartbeat_{0};
  Epoch activated_{0};
  std::map<CollectiveId, std::uint64_t> used_;
  std::set<std::pair<std::string, std::uint64_t>> closing_;
  std::optional<LinkTroubles> broken_links_;
  std::vector<RegisteringPtr> registering_;
};

}  // namespace square::test
