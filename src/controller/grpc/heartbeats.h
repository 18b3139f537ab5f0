// What a node says again and again, and what it has said.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "square/controller_client.h"
#include "square/v1/controller.pb.h"

namespace square::controller {

// Thread-safe.
class Heartbeats {
 public:
  // `events` lives longer. `keys`: null where the node seals nothing.
  Heartbeats(std::string node, const ControllerEvents& events, std::shared_ptr<trust::GroupKeys> keys)
      : node_(std::move(node)), events_(events), keys_(std::move(keys)) {}

  // Goes with the next one.
  void note_use(CollectiveId collective, std::uint64_t bytes);
  // To a controller that is new: what it is told only when it changes.
  void introduce(v1::Hello& hello);
  [[nodiscard]] v1::NodeEvent next();

 private:
  [[nodiscard]] std::string share() const;

  const std::string node_;
  const ControllerEvents& events_;
  const std::shared_ptr<trust::GroupKeys> keys_;
  std::mutex mutex_;
  std::map<CollectiveId, std::uint64_t> used_;  // bytes, since the last heartbeat
  std::string told_share_;
};

}  // namespace square::controller
