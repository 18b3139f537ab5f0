// How the nodes of a group's members come to its key: the first that registers the group brings it, wrapped
// for each of them, and the controller hands it to the others. They alone can unwrap it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "controller/node_control/wire.h"
#include "square/executor.h"
#include "square/group.h"
#include "square/v1/controller.pb.h"
#include "trust/group_keys.h"

namespace square::controller {

// Between looks whether all nodes of a group are connected.
inline constexpr Duration kMinShareWait = std::chrono::milliseconds(20);
inline constexpr Duration kMaxShareWait = std::chrono::milliseconds(500);

// Of the node's strand.
class KeyExchange {
 public:
  using Share = v1::ListKeySharesResponse;
  // Asks the controller, which answers once, or never where it is lost.
  using Ask =
      std::function<void(const v1::ListKeySharesRequest& request, std::function<void(const Result<Share>&)>)>;
  using Made = std::function<void(Result<std::string>)>;
  // `keys`: null where this node seals nothing.
  KeyExchange(std::shared_ptr<trust::GroupKeys> keys, const Clock& clock, Executor& executor)
      : keys_(std::move(keys)), clock_(clock), executor_(executor) {}

  // A key for a group that has none yet, when its nodes are connected. `is_wanted` is asked before each look;
  // where it is not `made` is not called. Errors: DEADLINE_EXCEEDED naming a node that is not connected;
  // FAILED_PRECONDITION naming one that seals nothing; those of GroupKeys::wrap().
  void make(const GroupSpec& group, TimePoint end, Ask ask, std::function<bool()> is_wanted, Made made) const;
  // Of a registered group; null where it has no key. Errors: FAILED_PRECONDITION where one end seals and the
  // other does not; those of GroupKeys::unwrap().
  Result<trust::GroupKeyPtr> open(const GroupSpec& group, std::uint64_t number,
                                  const std::string& wrapped) const;
  [[nodiscard]] bool is_on() const { return keys_ != nullptr; }

 private:
  struct Making;
  using MakingPtr = std::shared_ptr<Making>;
  void look(const MakingPtr& making) const;
  void weigh(const MakingPtr& making, const Result<Share>& shares) const;
  void wrap(const MakingPtr& making, std::vector<std::string> shares) const;

  const std::shared_ptr<trust::GroupKeys> keys_;
  const Clock& clock_;
  Executor& executor_;
};

}  // namespace square::controller
