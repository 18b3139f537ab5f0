// How the nodes of a group's members come to its key: the first that registers the group brings it, wrapped
// for each of them, and the controller hands it to the others, who alone can unwrap it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "square/group.h"
#include "square/v1/controller.pb.h"
#include "trust/group_keys.h"

namespace square::controller {

// Between looks whether all nodes of a group are connected.
inline constexpr Duration kMinShareWait = std::chrono::milliseconds(20);
inline constexpr Duration kMaxShareWait = std::chrono::milliseconds(500);

// Thread-safe.
class KeyExchange {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Ask = std::function<Status(const v1::ListKeySharesRequest& request,
                                   v1::ListKeySharesResponse& response, TimePoint end)>;
  // False where the node leaves meanwhile.
  using Pause = std::function<bool(Duration wait)>;
  // `keys`: null where this node seals nothing.
  KeyExchange(std::shared_ptr<trust::GroupKeys> keys, Ask ask, Pause pause)
      : keys_(std::move(keys)), ask_(std::move(ask)), pause_(std::move(pause)) {}

  // A key for a group that has none yet. Waits until its nodes are connected. Errors: DEADLINE_EXCEEDED
  // naming one that is not; FAILED_PRECONDITION naming one that seals nothing; those of GroupKeys::wrap().
  Result<std::string> make(const GroupSpec& group, TimePoint end) const;
  // Of a registered group; null where it has no key. Errors: FAILED_PRECONDITION where one end seals and the
  // other does not; those of GroupKeys::unwrap().
  Result<trust::GroupKeyPtr> open(const GroupSpec& group, std::uint64_t number,
                                  const std::string& wrapped) const;
  [[nodiscard]] bool is_on() const { return keys_ != nullptr; }

 private:
  const std::shared_ptr<trust::GroupKeys> keys_;
  const Ask ask_;
  const Pause pause_;
};

}  // namespace square::controller
