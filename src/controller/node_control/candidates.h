// Where a node finds its controller: at one of the addresses that it was given, or, where nodes bring
// successors, at that of the first that lives.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "square/clock.h"
#include "square/controller_client.h"
#include "square/status.h"

namespace square::controller {

// The answer of a controller that stands by.
inline constexpr const char* kStandsBy = "this controller stands by until those before it are gone";
// The answer of a controller without a quorum. Its nodes then dial kLookedAt others, in turn, as one of them
// may lead.
inline constexpr const char* kHearsTooFew =
    "this controller hears too few of its nodes to plan, as another may lead in its place";
inline constexpr std::size_t kLookedAt = 3;
// A controller that is silent for this long, though its host does not say that it is gone, is taken for dead.
inline constexpr Duration kSuccessionLease = std::chrono::seconds(10);
// It is then dialled once more, and has this long to answer: a process that was stopped may go on.
inline constexpr Duration kLastLook = std::chrono::seconds(2);
// A node that calls a controller that stands by counts as waiting there for this long. A round takes less: of
// the silent ones each may have kLastLook.
inline constexpr Duration kWaitingTime = std::chrono::seconds(30);
// One that is refused so soon after the line to the last broke is dead, and leads nowhere. Later another may
// have followed, and ended since: the line may have been silent for half the lease before it broke, and this
// process been stopped for kProofTime without noticing.
inline constexpr Duration kProofTime = kSuccessionLease / 4;
// A controller whose host refuses connections this often in a row is gone. Refusals within kRefusalDistance
// count once.
inline constexpr int kRefusalsOfGone = 2;
inline constexpr Duration kRefusalDistance = std::chrono::milliseconds(50);
// With several addresses, a silent one is given up after this long and the next is dialled. Each round in
// vain doubles it.
inline constexpr Duration kFirstPatience = std::chrono::seconds(1);
inline constexpr std::size_t kMaxGiven = 16;

// "host:port" or several with commas, each as gRPC knows it, too. Errors: INVALID_ARGUMENT.
Result<std::vector<std::string>> usual_addresses(const std::string& list);

using Successor = SuccessorOptions;

// Nodes dial in rounds: the controller that they had, then the others by their standing; with several
// addresses given the one that was lost comes last, as it may be silent, and so does one that hears too few
// nodes. Where one welcomes
// them it is theirs. A node whose own comes first of those that live wakes it: see docs/controller.md. Of the
// node's strand.
class Candidates {
 public:
  // `given` are the controllers to begin with, at least one; `own` is what this node brings, if it brings
  // any.
  Candidates(std::string node, std::vector<std::string> given, std::optional<Successor> own);

  // What the controller tells of others; an empty address: it brings none.
  void learn(const std::string& node, std::uint32_t standing, const std::string& address);
  void forget(const std::string& node);

  // The controller that welcomed this node last.
  [[nodiscard]] const std::string& current() const { return current_; }
  // Its controller may lead others, elsewhere.
  void doubt(const std::string& node) { doubtful_.insert(node); }
  // The controllers that are gone, where the own is to be woken before anybody is dialled.
  std::optional<std::vector<LostController>> to_be_followed();
  // The address to dial now.
  const std::string& next(TimePoint now);
  // The own has woken: it is dialled now.
  const std::string& dial_own(TimePoint now);
  // Others are left in this round, to be dialled without a pause.
  [[nodiscard]] bool has_more() const { return !round_.empty(); }
  void welcomed(const std::string& address);
  // How long the one that is dialled now may say nothing.
  [[nodiscard]] Duration patience() const;
  // The line to that controller broke, like this. `was_stopped`: this process may have been just before.
  void lost(TimePoint now, const Status& why, bool was_stopped = false);
  // The attempt failed like this.
  void failed(const std::string& address, const Status& why, TimePoint now);

 private:
  struct State {
    int refusals = 0;
    TimePoint refused_at;
    std::optional<TimePoint> silent_since;
    bool is_given_up = false;  // also at the last look
    bool was_soon_refused = false;
    [[nodiscard]] bool is_dead() const { return refusals >= kRefusalsOfGone; }
    [[nodiscard]] bool is_gone() const { return is_dead() || is_given_up; }
    [[nodiscard]] bool is_overdue(TimePoint now) const {
      return silent_since && now - *silent_since >= kSuccessionLease;
    }
  };
  using Standing = std::pair<std::uint32_t, std::string>;  // and the node's name

  void begin_round();
  void look_around();
  // kLookedAt of them, others each time.
  std::vector<std::string> some_of(const std::vector<std::string>& addresses);
  [[nodiscard]] bool is_gone(const std::string& address) const;
  [[nodiscard]] bool is_last_look(const std::string& address) const;
  [[nodiscard]] bool should_wake() const;

  const std::string node_;
  const std::vector<std::string> given_;
  const std::optional<Successor> own_;
  std::string current_;
  std::optional<TimePoint> lost_at_;  // it is silent since then, if it is
  bool was_stopped_ = false;          // at that time
  std::map<Standing, std::string> addresses_;
  std::map<std::string, State> states_;  // by address, of this search
  std::set<std::string> doubtful_;       // nodes
  std::vector<std::string> round_;       // the next last
  std::string dialled_;                  // by the last next()
  TimePoint dialled_at_{};
  int rounds_ = 0;                 // of this search
  bool must_look_around_ = false;  // in the next round
  bool looks_around_ = false;      // in this one
  std::size_t looked_at_ = 0;      // in all
};

}  // namespace square::controller
