// Controllers and nodes on the loopback interface, for the tests of this folder.
#pragma once

#include <doctest/doctest.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "controller/mesh.h"
#include "square/controller.h"
#include "square/controller_client.h"
#include "square/overlay_information.h"

namespace square::test {

using namespace std::chrono_literals;

// Long enough for a loaded machine; a test that works never waits for it.
inline constexpr Duration kPatience = 20s;

GroupSpec broadcast_group(const std::string& name, const std::vector<std::string>& nodes,
                          Rank root = Rank(0));

std::unique_ptr<Controller> start(Scenario scenario, ControllerOptions options = {});

// A node that keeps everything the controller says.
class FakeNode final : private ControlledNode {
 public:
  struct Event {
    enum class Kind { kAddress, kPlan, kActivate, kLost } kind;
    std::string text;  // "peer@address", or the reason of a loss
    Epoch epoch;
    std::shared_ptr<const Plan> plan;
  };
  struct Options {
    std::shared_ptr<Identity> identity;
    bool installs = true;  // answers a plan at once; otherwise only in install()
    Duration connect_timeout = kPatience;
    std::string address;  // empty: made from the name
  };

  static Result<std::unique_ptr<FakeNode>> join(const std::string& controller, const std::string& name,
                                                Options options);
  static std::unique_ptr<FakeNode> join(const Controller& controller, const std::string& name);
  static std::unique_ptr<FakeNode> join(const Controller& controller, const std::string& name,
                                        Options options);

  ControllerClient& client() { return *client_; }
  void leave() { client_.reset(); }
  // Answers the plans that wait for it.
  void install();
  [[nodiscard]] std::vector<Event> events() const;
  bool wait_for(const std::function<bool(const std::vector<Event>&)>& condition,
                Duration timeout = kPatience);
  bool wait_for_active(Epoch epoch);

 private:
  void set_address(const std::string& peer, const std::string& address, std::uint64_t incarnation) override;
  void install_plan(const std::shared_ptr<const Plan>& plan,
                    const std::function<void(Epoch)>& installed) override;
  void activate_plan(Epoch epoch, bool moves) override;
  void lose_controller(const Status& reason) override;
  void add(Event event);

  bool installs_ = true;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Event> events_;
  std::vector<std::pair<Epoch, std::function<void(Epoch)>>> to_install_;
  std::unique_ptr<ControllerClient> client_;  // last: ends before what its events use
};

// True as soon as `condition` is; polls.
bool eventually(const std::function<bool()>& condition, Duration timeout = kPatience);

}  // namespace square::test
