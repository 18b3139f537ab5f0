// A node's part in finding out who changes blocks that are sealed.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "node/lifetime.h"
#include "square/block_sight.h"
#include "square/clock.h"
#include "square/executor.h"
#include "square/frame.h"

namespace square {

// For so long after a destination has said that a block did not open, the session's blocks are audited.
inline constexpr Duration kAuditTime = std::chrono::seconds(10);
// What was seen is told together, after this time or as soon as there is so much of it.
inline constexpr Duration kSightsDelay = std::chrono::milliseconds(100);
inline constexpr std::size_t kMaxSightsTold = 1'024;

// Not thread-safe: used on the node's strand.
class Auditor {
 public:
  using Report = std::function<void(std::vector<BlockSight> sights)>;

  Auditor(const Clock& clock, Executor& executor) : clock_(clock), executor_(executor) {}
  Auditor(const Auditor&) = delete;
  Auditor& operator=(const Auditor&) = delete;

  // Hears what is seen from now on; without one nothing is.
  void set_report(Report report) { report_ = std::move(report); }

  // A block of a session whose source is here did not open somewhere: those that go from now on are audited.
  void suspect(SessionId session);
  [[nodiscard]] bool is_suspect(SessionId session) const;

  // A frame that is audited, as it came from a neighbour, or as it begins here where `from` is empty.
  void note(const Frame& frame, std::string_view from);

 private:
  void tell();

  const Clock& clock_;
  Executor& executor_;
  Report report_;
  std::map<SessionId, TimePoint> suspects_;  // until when
  std::vector<BlockSight> sights_;
  Executor::TimerId timer_ = 0;
  Lifetime life_;
};

}  // namespace square
