// Which links their tails say are broken, which nodes their neighbours do not hear, and which relays lose
// blocks.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "controller/admission.h"
#include "controller/agenda.h"
#include "controller/detours.h"
#include "controller/members.h"
#include "square/clock.h"

namespace square::controller {

// More of one node are not believed: it has no more than kMaxBrokenLinks.
inline constexpr int kMaxReportedLinks = 1'000;
// Of lossy relays: no more of one node are believed.
inline constexpr int kMaxReportedRelays = 8;
// A node that lives says something over its line within so long of the word before, and of a report that a
// neighbour does not hear it: else it is the node that is silent, not the link.
inline constexpr Duration kLastWord = std::chrono::seconds(1);
inline constexpr Duration kNextWord = std::chrono::milliseconds(250);
// Links to a node that speaks again are found well within so long, or are broken.
inline constexpr Duration kRecovery = std::chrono::seconds(3);
// A link that breaks again and again (each time within the first of these of the time before) is not planned
// with as soon as its tail finds it well: every plan costs the nodes, and where those are short of CPU the
// next one would break it again. The time doubles from the second break on.
inline constexpr Duration kFlapMemory = std::chrono::seconds(60);
inline constexpr Duration kFirstHold = std::chrono::seconds(4);
inline constexpr Duration kLongestHold = std::chrono::seconds(32);

// Of a report those that the overlay has: others, which a node may make up, are nobody.
v1::BrokenLinks known_of(const v1::BrokenLinks& report, const Members& members, const Topology& topology);

// A link is broken when its tail says so and its head is heard here; a head that is not is silent, and one
// that is not connected is somebody else's to judge (Absences). Not thread-safe.
class LinkReports {
 public:
  using TimePoint = Members::TimePoint;

  // All that the tail has to report, in the place of what it said before. One that breaks for the first time
  // in kFlapMemory is planned around at once.
  Urgency note(const std::string& tail, const v1::BrokenLinks& report, const Members& members, TimePoint now);
  // It said something over its line; that may have come up. Returns whether that is news, as those below do.
  bool note_heard(const std::string& node, TimePoint now);
  // Its line broke.
  void note_lost(const std::string& node);
  // It has left: it reports nothing, and no link to it is any.
  bool forget(const std::string& node);
  // What was to be waited for is over. Who is found silent is marked so, and planned around at once.
  Urgency fade(Members& members, TimePoint now);
  // When fade() is due; `latest` at the latest.
  [[nodiscard]] TimePoint next_end(TimePoint latest) const;

  // Tells the state which links are broken, which nodes are silent, and which nodes are not to relay,
  // `unreachable` among them. Returns whether that asks for another plan.
  bool absorb(PlanningState& state, const std::set<std::string>& unreachable = {}) const;
  // A plan of the state is published; `is_whole`: it avoids nothing. Returns whether it avoids a link that
  // the one before did not.
  bool note_published(const PlanningState& state, bool is_whole);

 private:
  enum class Fault {
    kLinks,       // it is there, those to it are broken
    kAsked,       // it may be silent: until then it says something
    kSilent,      // it is
    kRecovering,  // it was: until then links to it are well again, or broken
    kAway,        // it is not connected
  };
  // A node that somebody has a broken link to.
  struct Head {
    Fault fault = Fault::kLinks;
    TimePoint until{};
    // Until when it is believed: those that do not say so any more are held for a while.
    std::map<std::string, TimePoint> tails{};
  };
  // Of a link.
  struct Flaps {
    int breaks = 0;
    TimePoint last{};
  };

  [[nodiscard]] Urgency note_lossy(const std::string& reporter, const v1::BrokenLinks& report,
                                   const Members& members);
  [[nodiscard]] Urgency note_broken(const LinkName& link, TimePoint now);
  [[nodiscard]] Duration hold_of(const LinkName& link) const;
  void note_well(const std::string& tail, const std::set<std::string>& broken, TimePoint now);
  bool end_holds(TimePoint now);

  std::map<std::string, Head> heads_;
  std::map<LinkName, Flaps> flaps_;  // of links that broke of late
  // By relay and reporter; whether it is the whole way that begins there.
  std::map<std::string, std::map<std::string, bool>> lossy_;
  std::set<LinkName> avoided_;  // by the plan that was published last
};

}  // namespace square::controller
