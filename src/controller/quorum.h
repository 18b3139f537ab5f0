// Whether this controller may publish, or another may lead in its place.
#pragma once

#include <optional>

#include "controller/deferred.h"
#include "controller/members.h"
#include "square/clock.h"
#include "square/status.h"

namespace square::controller {

// A controller without a quorum sends its nodes to look whether another leads: at first after so long, then
// each time after so long.
inline constexpr Duration kFirstLookAround = std::chrono::seconds(3);
inline constexpr Duration kNextLookAround = std::chrono::seconds(10);

// Not thread-safe, as Members.
class Quorum {
 public:
  // `members` must live longer.
  explicit Quorum(const Members& members) : members_(members) {}

  // At the last look; see Members::has_quorum().
  [[nodiscard]] bool holds() const { return !next_round_; }
  // Returns whether it holds again.
  bool look(TimePoint now, Deferred& deferred);
  // When nodes are sent next; `latest` with a quorum.
  [[nodiscard]] TimePoint next_end(TimePoint latest) const;

 private:
  const Members& members_;
  std::optional<TimePoint> next_round_;  // set: there is none
};

// What is not done without one.
Status no_quorum();

}  // namespace square::controller
