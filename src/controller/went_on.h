// How groups went on: known after all of their members have closed them, too.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "square/group.h"

namespace square::controller {

// Of the latest.
inline constexpr std::size_t kMaxWentOn = 1'024;

// Copies share the list. Not thread-safe.
class WentOn {
 public:
  // `next` has an origin.
  void note(const GroupSpec& next);
  // Name, tenant and origin of what the group became.
  [[nodiscard]] std::optional<GroupSpec> find(const std::string& group, std::uint64_t number) const;

 private:
  std::shared_ptr<const std::deque<GroupSpec>> list_ = std::make_shared<const std::deque<GroupSpec>>();
};

}  // namespace square::controller
