// Groups that members of a node are about to register: asked for until the controller, or the next one, has
// answered and the plan is active here.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "controller/node_control/calls.h"
#include "controller/node_control/key_exchange.h"
#include "controller/node_control/recollection.h"
#include "square/group.h"

namespace square::controller {

// Between attempts to register a name that others have not closed yet.
inline constexpr Duration kMinBusyWait = std::chrono::milliseconds(2);
inline constexpr Duration kMaxBusyWait = std::chrono::milliseconds(50);
// Registrations whose answers are kept for other members of the group at this node.
inline constexpr std::size_t kMaxAnswered = 64;

// The members of a group at one node register the same, mostly at the same time: one registration is asked
// for all. Of the node's strand.
class Registering {
 public:
  using Done = std::function<void(Result<GroupRegistration>)>;
  Registering(Calls& calls, Recollection& recollection, const NodeControlOptions& options);

  // As ControllerClient::register_group(), called at `begun`; `done` is called once.
  void ask(GroupSpec group, TimePoint begun, Duration timeout, Done done);
  // The line is not as it was.
  void look();
  void close_group(const std::string& group, std::uint64_t number);
  // All fail with `reason`.
  void stop(const Status& reason);

 private:
  struct Registration {
    std::string key;
    GroupSpec group;
    std::vector<Asker<GroupRegistration>> askers{};
    std::string wrapped_keys{};  // made here, for a group that has none yet
    Call call{};
    std::uint64_t making_keys = 0;  // a number of its own for each attempt
    Duration pause = kMinBusyWait;
    std::optional<std::uint64_t> running{};   // the group's number before the call
    std::optional<GroupRegistration> made{};  // its plan is not active here yet
    std::optional<Status> busy{};             // others have not closed the name
    std::optional<Status> lost{};             // the last attempt's end
    [[nodiscard]] TimePoint end() const;
  };
  using RegistrationPtr = std::shared_ptr<Registration>;
  struct Answered {
    std::string key;
    std::string group;
    GroupRegistration made;
    std::uint64_t losses = 0;
  };

  void step(const RegistrationPtr& one);
  void begin_call(const RegistrationPtr& one);
  void make_keys(const RegistrationPtr& one);
  void give_up_call(const RegistrationPtr& one);
  void answered(const RegistrationPtr& one, const Result<v1::RegisterGroupResponse>& response);
  bool try_again(const RegistrationPtr& one, const Status& status);
  void rest(const RegistrationPtr& one, Duration pause);
  void finish(const RegistrationPtr& one);
  void end(const RegistrationPtr& one, const Result<GroupRegistration>& result);
  void end_late(const RegistrationPtr& one);
  [[nodiscard]] Status why_late(const Registration& one, const Asker<GroupRegistration>& asker) const;
  [[nodiscard]] bool is_there(const RegistrationPtr& one) const;

  Calls& calls_;
  Recollection& recollection_;
  const std::string node_;
  const std::shared_ptr<Identity> identity_;
  const KeyExchange keys_;
  std::map<std::string, RegistrationPtr> registrations_;  // by key: what is asked
  std::deque<Answered> answered_;                         // over this connection; the newest first
};

}  // namespace square::controller
