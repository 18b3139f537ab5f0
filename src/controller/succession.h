// How one controller follows another: what its store has, what nodes bring, and what it leaves to the next.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "controller/admission.h"
#include "controller/adoption.h"
#include "controller/closed_parts.h"
#include "controller/deferred.h"
#include "controller/epoch_planner.h"
#include "controller/ledger.h"
#include "controller/members.h"
#include "square/v1/controller.pb.h"
#include "store/store.h"

namespace square::controller {

// Where tenants need grants nodes bring plans, numbers and groups of other controllers for so long only.
inline constexpr Duration kRecollectionTime = std::chrono::seconds(60);
// A store that is an older copy can have missed so many numbers of each kind.
inline constexpr std::uint64_t kMostMissed = std::uint64_t{1} << 20U;

// Not thread-safe: note() and check() are called under the coordinator's lock, as what absorbs is; keep() by
// the thread that plans.
class Succession {
 public:
  // In an overlay that `is_open` nodes have the numbers that the past gave them.
  Succession(std::unique_ptr<store::Store> store, bool is_open)
      : ledger_(std::move(store), is_open), is_open_(is_open) {}

  [[nodiscard]] PlanOrigin origin() const { return ledger_.origin(); }

  // What the store has goes into `state` and `planner`. Returns the nodes that may come back. Errors: those
  // of Ledger::read(), FAILED_PRECONDITION where it is of another topology.
  Result<std::vector<std::string>> take_up(PlanningState& state, EpochPlanner& planner);
  // The first plan is there: what is registered from now on has other numbers than with any controller that
  // knows nothing of this one, most likely. Errors: those of Ledger::keep().
  Status begin(PlanningState& state, EpochPlanner& planner);

  // Of a node that comes. Errors: those of check_past().
  [[nodiscard]] Status check(const v1::Hello& hello, const PlanningState& state, bool has_plan) const;
  // Keeps what it brings from an earlier controller until it is absorbed: true if it brings anything.
  // A plan of those `published` that lacks what the node runs is nothing to it: it gets a later one first.
  bool note(const v1::Hello& hello, Member& member, const std::vector<PublishedPlanPtr>& published);

  // What a node brought.
  struct Brought {
    std::string node;
    Status right;                    // not OK: nothing came of it
    std::vector<std::string> nodes;  // that it knows, and that may come back
    std::vector<v1::Address> addresses;
    std::vector<v1::Closed> closed;  // groups whose names it registers anew
    std::set<std::string> groups;    // that it tells of
    bool is_news = false;            // a new plan is due
  };
  struct Missing {
    std::string group;
    std::string node;
    std::uint64_t incarnation = 0;  // of the process that had a part in it; 0: it is nobody's
  };
  struct Absorbed {
    std::vector<Brought> brought;
    // Who has no part in what: it has closed it, and nobody who heard that is left, or has not begun; or
    // where another process has its name by now.
    std::vector<Missing> missing;
  };
  Absorbed absorb(PlanningState& state, EpochPlanner& planner, bool has_plan, TimePoint now);
  // Lets the other parts know of what was absorbed, and ends the lines of those that cannot come. Returns
  // whether a new plan is due.
  static bool spread(const Absorbed& absorbed, PlanningState& state, Members& members, ClosedParts& closed,
                     Deferred& deferred);

  // What the next controller must know, and no plan says, each member that is connected is told once.
  static void tell(const GroupRegistry& registry, Members& members);

  // Who left has no part in any group. Returns whether one ended by that.
  bool absorb_departures(PlanningState& state, Members& members);

  // The node has closed the group.
  void note_closed(const std::string& node, const std::string& group) {
    if (const auto found = running_.find(node); found != running_.end()) found->second.erase(group);
  }

  // Before anybody is told of what was admitted. What the store does not take is not there: the admission
  // is then one of `before`, without a plan, and refuses. Errors: those of Ledger::keep().
  Status keep(Admission& admission, const PlanningState& before, EpochPlanner& planner);

 private:
  // Of the store where there is no teller.
  Result<bool> adopt_past(const v1::Past& past, const std::string& teller, PlanningState& state,
                          EpochPlanner& planner) const;
  [[nodiscard]] Result<v1::Past> accept(const v1::Past& told, const std::string& node,
                                        const PlanningState& state, const GivenNumbers& given, bool has_plan,
                                        TimePoint now) const;

  Ledger ledger_;
  const bool is_open_;
  bool is_first_ = true;  // nobody led before
  struct Beginning {
    TimePoint when;
    GivenNumbers given;
  };
  std::optional<Beginning> began_;         // of this one, at the first look
  std::map<std::string, v1::Past> pasts_;  // by node
  std::set<std::string> without_plan_;     // of those, who has no plan of this controller before the next
  // The groups that a node ran, or was about to register, when it came from an earlier controller.
  std::map<std::string, std::set<std::string>> running_;
};

}  // namespace square::controller
