// Nodes that have closed a group, and groups that all have.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "controller/group_registry.h"
#include "controller/members.h"
#include "square/clock.h"

namespace square::controller {

// A group that has ended leaves the plan with the next change, after so long at the latest.
inline constexpr Duration kForgetTime = std::chrono::milliseconds(500);

// Not thread-safe.
class ClosedParts {
 public:
  using TimePoint = Members::TimePoint;

  // The node's members call nothing more in the group of that name and number.
  void note(const std::string& node, const std::string& group, std::uint64_t number) {
    parts_.push_back({node, group, number});
  }
  // Groups that end by what was noted leave the registry.
  void absorb(GroupRegistry& registry, const std::function<bool(const std::string&)>& is_there,
              TimePoint now);

  // Groups that have ended are still in the plan, and should go.
  [[nodiscard]] bool is_due(TimePoint now) const { return forget_at_ && now >= *forget_at_; }
  [[nodiscard]] TimePoint next_end(TimePoint latest) const;
  // Whatever has ended is not in the plan that was made.
  void note_planned() { forget_at_.reset(); }

 private:
  struct Part {
    std::string node;
    std::string group;
    std::uint64_t number = 0;
  };
  std::vector<Part> parts_;  // that the registry does not know of yet
  std::optional<TimePoint> forget_at_;
};

}  // namespace square::controller
