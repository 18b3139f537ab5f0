// Links that were up and are down.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "node/plan/installed_plan.h"
#include "square/clock.h"
#include "square/status.h"
#include "square/transport.h"

namespace square {

// An operation that is called while a link that it uses is lost waits for the link so long: if the
// neighbour is a member, and if it only relays, so that a plan may go around it. The second is longer
// than a controller takes to miss a node (its lease) and to change the plan.
inline constexpr Duration kMemberReturnTime = std::chrono::seconds(2);
inline constexpr Duration kRelayReturnTime = std::chrono::seconds(30);

// Links that have not been up yet are not lost.
class LostLinks {
 public:
  // `node` is this node's name.
  explicit LostLinks(std::string node) : node_(std::move(node)) {}

  void note(LinkEnd end, const std::string& peer, const std::string& reason) { lost_[{end, peer}] = reason; }
  void forget(LinkEnd end, const std::string& peer) { lost_.erase({end, peer}); }
  [[nodiscard]] bool empty() const { return lost_.empty(); }

  // An operation of the collective was called at `since`, and runs under the plan. UNAVAILABLE for a
  // link that it has waited for long enough; else, where it waits for one, `next` is when to look
  // again.
  struct Question {
    const InstalledPlan& plan;
    CollectiveId collective;
    TimePoint since;
  };
  [[nodiscard]] Status check(const Question& question, TimePoint now, std::optional<TimePoint>& next) const;

 private:
  std::string node_;
  std::map<std::pair<LinkEnd, std::string>, std::string> lost_;  // and why
};

}  // namespace square
