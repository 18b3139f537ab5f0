// How groups went on: known after all of their members have closed them, too.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "square/group.h"

namespace square::controller {

struct Continuation {
  std::string group;
  std::uint64_t number = 0;
  std::string tenant;
  std::string next;  // the name of what it became
};

// Of the latest.
inline constexpr std::size_t kMaxWentOn = 1'024;

// Copies share the list. Not thread-safe.
class WentOn {
 public:
  // What has no origin went on from nothing, and what is known is kept as it is.
  void note(const std::string& next, const std::string& tenant, const GroupOrigin& origin);
  void note(const Continuation& one);
  // What the group became.
  [[nodiscard]] std::optional<Continuation> find(const std::string& group, std::uint64_t number) const;

  // Oldest first.
  [[nodiscard]] const std::deque<Continuation>& list() const { return *list_; }
  // In all, those that are not remembered any more included.
  [[nodiscard]] std::uint64_t count() const { return count_; }

 private:
  std::shared_ptr<const std::deque<Continuation>> list_ = std::make_shared<const std::deque<Continuation>>();
  std::uint64_t count_ = 0;
};

}  // namespace square::controller
