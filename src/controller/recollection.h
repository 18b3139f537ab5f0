// What a node knows of its overlay, for a controller that does not: one that was restarted without its store,
// or another that takes over.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "square/group.h"
#include "square/plan.h"
#include "square/v1/controller.pb.h"

namespace square::controller {

// Keeps the newest plan and the groups that members here have registered. Thread-safe.
class Recollection {
 public:
  explicit Recollection(std::string node) : node_(std::move(node)) {}

  void note_plan(std::shared_ptr<const Plan> plan);
  // Registered, as the spec says it, for the first time or with more collectives.
  void note_group(const GroupSpec& group, const GroupRegistration& made);

  // Nothing before the first plan: the process is new.
  [[nodiscard]] std::optional<v1::Past> past() const;

 private:
  struct Running {
    GroupSpec group;  // with all collectives that were registered
    std::map<CollectiveIdentity, CollectiveId> collectives;
  };

  const std::string node_;
  mutable std::mutex mutex_;
  std::shared_ptr<const Plan> newest_;
  std::uint32_t next_collective_ = 0;
  std::uint32_t next_session_ = 0;
  std::map<std::string, Running> groups_;
};

}  // namespace square::controller
