// Which nodes are away: what can be planned around them is.
#pragma once

#include <map>
#include <set>
#include <string>

#include "controller/admission.h"
#include "controller/members.h"
#include "square/clock.h"

namespace square::controller {

// A node whose line breaks is planned around after so long: a line that breaks alone is back by then.
inline constexpr Duration kAwayGrace = std::chrono::milliseconds(200);

// A node is away from kAwayGrace after its line broke, or since it was late with a plan, until it has
// installed one again. Not thread-safe.
class Absences {
 public:
  using TimePoint = Members::TimePoint;
  using Nodes = std::set<std::string>;

  // Its line broke, or it is one that may come back.
  void note_lost(const std::string& node, TimePoint now) { fading_.try_emplace(node, now + kAwayGrace); }
  // It is connected again: back, where there is no plan that it has to install.
  void note_line(const std::string& node, bool has_plan);
  // It has installed the newest plan. Returns whether it was away.
  bool note_installed(const std::string& node) { return away_.erase(node) > 0; }
  // Returns whether that is news.
  bool note_away(const std::string& node);
  // It has left in order: its groups go on with what it has done its part of. Call note_away(), too.
  void note_left(const std::string& node) { departed_.insert(node); }
  // It is no node any more.
  void forget(const std::string& node);
  // Those that were lost for long are away now. Returns whether there are any.
  bool fade(TimePoint now);
  // When fade() is due; `latest` at the latest.
  [[nodiscard]] TimePoint next_end(TimePoint latest) const;

  // Tells the state who is away; `gone` are those without links. Returns whether other nodes relay than
  // before.
  bool absorb(PlanningState& state, const Nodes& gone);
  // A plan of the state is published; `is_whole`: it leads through nodes that are away. Returns whether it
  // avoids a node that the one before did not.
  bool note_published(const PlanningState& state, const Nodes& gone, bool is_whole);

 private:
  std::map<std::string, TimePoint> fading_;  // until when they may come back as if nothing had been
  Nodes away_;
  Nodes departed_;
  Nodes avoided_;  // by the plan that was published last
};

}  // namespace square::controller
