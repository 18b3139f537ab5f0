// Calls of members here that wait for room on the node: for what their tenant has under way to end.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <string>

#include "node/lifetime.h"
#include "node/operations/operation_key.h"
#include "square/clock.h"
#include "square/data_plane.h"
#include "square/executor.h"

namespace square {

// A group's calls begin in the order in which they came, whichever collective they are of: members that began
// them in different orders would wait for one another. Communicators bound how many a member posts at
// once (CallLimits), a gateway those of each process (GatewayOptions). Used on the node's strand.
class WaitingCalls {
 public:
  struct Host {
    // Begins the call, or refuses it. False: there is no room yet.
    std::function<bool(const MemberOperation&)> begin;
    // Its time is over.
    std::function<void(const OperationKey&, const Status&)> fail;
  };
  // `node` is this node's name.
  WaitingCalls(std::string node, const Clock& clock, Executor& executor, Host host)
      : node_(std::move(node)), clock_(clock), executor_(executor), host_(std::move(host)) {}

  // `group` is the collective's, `lacks` says what it waits for.
  void add(const std::string& group, MemberOperation call, const Status& lacks);
  // Whether calls of the group wait.
  [[nodiscard]] bool has(const std::string& group) const { return waiting_.contains(group); }
  [[nodiscard]] bool has(CollectiveId collective) const;
  [[nodiscard]] bool has(const OperationKey& key) const;
  // There may be room: looks soon, not in this call.
  void look();
  // They end.
  void end(CollectiveId collective, const Status& cause);
  void end_all(const Status& cause);

 private:
  struct Waiting {
    MemberOperation call;
    TimePoint deadline;
    Executor::TimerId timer = 0;
  };
  template <typename Test>
  [[nodiscard]] bool any(const Test& test) const;
  void begin_waiting();
  void begin_waiting(const std::string& group);
  void end(const Waiting& one, const Status& cause);
  void on_timeout(const OperationKey& key, Rank rank, Duration timeout, const std::string& lacks);

  const std::string node_;
  const Clock& clock_;
  Executor& executor_;
  const Host host_;
  std::map<std::string, std::deque<Waiting>> waiting_;  // by group
  bool is_looking_ = false;
  Lifetime life_;
};

}  // namespace square
