// What a node says again and again, and what it has said.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "square/clock.h"
#include "square/controller_client.h"
#include "square/v1/controller.pb.h"

namespace square::controller {

// Bytes that members here gave to operations.
using UsedBytes = std::map<CollectiveId, std::uint64_t>;

// Of the node's strand.
class Heartbeats {
 public:
  // `events` lives longer. `keys`: null where the node seals nothing. `take_used`: since it was called last.
  Heartbeats(std::string node, const ControllerEvents& events, std::shared_ptr<trust::GroupKeys> keys,
             std::function<UsedBytes()> take_used)
      : node_(std::move(node)), events_(events), keys_(std::move(keys)), take_used_(std::move(take_used)) {}

  // To a controller that is new: what it is told only when it changes.
  void introduce(v1::Hello& hello);
  [[nodiscard]] v1::NodeEvent next(TimePoint now);

 private:
  [[nodiscard]] std::string share() const;

  const std::string node_;
  const ControllerEvents& events_;
  const std::shared_ptr<trust::GroupKeys> keys_;
  const std::function<UsedBytes()> take_used_;
  std::string told_share_;
};

}  // namespace square::controller
