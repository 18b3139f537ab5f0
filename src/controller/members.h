// Who is there: the leases, incarnations and lines of nodes.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controller/deferred.h"
#include "controller/node_line.h"
#include "square/clock.h"
#include "square/controller.h"
#include "square/ids.h"
#include "square/lost_controller.h"
#include "square/topology.h"

namespace square::controller {

struct Member {
  using TimePoint = square::TimePoint;

  std::string node;               // its name
  std::uint64_t incarnation = 0;  // 0: expected, see Members::expect()
  std::uint64_t joined = 0;       // number of the event
  std::string address;
  std::string fingerprint;     // of its certificate; empty: it has shown none
  std::uint32_t protocol = 0;  // that it and this controller speak
  std::string key_share;       // what others wrap keys of groups with
  std::string successor;       // the controller that stands by there, if one does
  std::uint32_t standing = 0;
  std::shared_ptr<NodeLine> line;  // null once it broke, until the lease is over
  TimePoint lease_end;
  TimePoint heard_at;                   // over its line, or its end
  std::optional<TimePoint> spoke_at{};  // over its line, or to a controller that this one followed at once
  std::set<std::string> hears{};        // the nodes, by its last heartbeat
  // How much of what was given it has been told: the number after all groups', and how many went on.
  std::uint64_t told_group = 0;
  std::uint64_t told_went_on = 0;
  bool is_silent =
      false;  // its neighbours do not hear it, nor has it said anything here since: no plan waits
  // Plans up to this one are nothing to it: it has had later ones, from an earlier controller.
  Epoch floor{0};
  // How far it is with plans; see Publication.
  Epoch sent{0};
  Epoch received{0};  // it has said so, and installs it when its operations have left an older one
  Epoch installed{0};
  TimePoint sent_at;
  bool is_reached = false;  // it had received the plan before the one that was sent last
  Epoch activated{0};
  Epoch last_activated{0};  // also over an earlier line
  TimePoint install_end;
  bool is_lagging = false;  // with those sent: plans become active without it, its own groups wait
  bool is_late = false;     // with one, and has installed none since: nobody waits for it
};

// expire() looks so often in a lease; a look that is late by more of them found this process stopped.
inline constexpr int kLooksPerLease = 8;
inline constexpr int kLateLooks = 2;
// What is read for this long after that may have waited meanwhile.
inline constexpr Duration kStaleWords = std::chrono::seconds(2);
// This process takes itself for cut off, for this many leases at most, while several members are silent: all
// of them, or most of them where another controller may lead.
inline constexpr int kLongestCutOff = 6;

// Who comes is told of so many that have left, the latest: it may have been away when they did.
inline constexpr std::size_t kMaxRememberedDepartures = 256;

// Who is expected is back within so long if it lives: it looks for the controller every kMaxReconnectWait.
// Plans wait for it so long, for a node that has not installed one drops what others send under it.
inline constexpr Duration kReturnTime = std::chrono::milliseconds(700);

// Who had the controller before, and is taken for gone, has so long to be heard of here.
inline constexpr Duration kPresumedTime = std::chrono::seconds(2);

struct Departure {
  std::string node;
  std::uint64_t number = 0;  // of the event
};

// Errors: FAILED_PRECONDITION for a node with which no version of the protocol is shared, INVALID_ARGUMENT
// for a name or address that no node may have.
Status check_hello(const v1::Hello& hello);

// A member is a process under a name. It stays while it is heard of, and after its line broke until its
// lease is over. Not thread-safe: whoever owns it calls it under a lock, and runs what is deferred
// outside.
class Members {
 public:
  using TimePoint = Member::TimePoint;

  explicit Members(Duration lease) : lease_(lease) {}

  // A node that an earlier controller had: it may come back until a lease is over, and counts as one whose
  // line broke. Returns whether it was not there.
  bool expect(const std::string& node, TimePoint now);
  // Should they be expected, it is for kPresumedTime only. Where all of them are dead, the last one has led
  // until now: the nodes expected from it count as if they had spoken now, as nobody else can have led them.
  void presume_gone(const std::vector<LostController>& lost, TimePoint now);
  // The address and the successor of an expected node, as others tell.
  void locate(const v1::Address& told);
  [[nodiscard]] bool is_expected(const std::string& node) const;
  // Until when those expected may be back by themselves, if they live; nothing once that is over.
  [[nodiscard]] std::optional<TimePoint> return_end(TimePoint now) const;

  // A process whose line broke yields its name to another process: true if it has left by that.
  // Errors: ALREADY_EXISTS while it is connected.
  Result<bool> yield_name(const v1::Hello& hello);

  struct Joined {
    Member& member;                      // without a plan
    std::shared_ptr<NodeLine> replaced;  // the line it had before, to be closed; or null
  };
  // Welcomes the node, and tells it and the others the addresses that they do not know.
  // Preconditions: check_hello(hello) and yield_name(hello) were no errors.
  Joined join(const v1::Hello& hello, const std::shared_ptr<NodeLine>& line, TimePoint now);

  // Something came over its line, which prolongs the lease. Null when another line has taken its place.
  Member* hear(const std::string& node, const NodeLine* line, TimePoint now);
  // What its heartbeat says of itself and of whom it hears. Precondition: it is there.
  void note(const std::string& node, const v1::Heartbeat& beat, TimePoint now);
  // Until it says something over its line.
  void note_silent(const std::string& node);
  // Another node hears it: that prolongs its lease, too.
  void hear_of(const std::string& node, TimePoint now);
  // Its line broke: it may come back until the lease is over. False when another line has taken its place.
  bool lose(const std::string& node, const NodeLine* line, TimePoint now);
  // The others are told why, the goodbye of one that leaves in order, and whether it may live. Precondition:
  // it is there.
  void leave(const std::string& node, const std::string& reason,
             const std::optional<v1::Goodbye>& goodbye = {}, bool may_live = false);
  // FAILED_PRECONDITION naming one of the group's nodes that has gone since its registrant came, and why. One
  // that went before may be about to come as well.
  [[nodiscard]] Status check_present(const GroupSpec& group) const;
  // Nobody listens at the address any more, and has not `since` then: whose it was leaves, if its line is
  // broken. It lives no more, and has not gone on elsewhere, if it spoke here within half a lease before:
  // there it would have had to miss this one for a lease. What was read after this process was stopped may
  // have been said long before. Whether that is news.
  bool leave_refused(const std::string& node, const std::string& address, TimePoint since);
  // Those not heard of for a lease leave; their lines are to be closed. Returns their names. Call it by
  // next_end(): the time of a call that comes much later was not theirs but ours, for this process was
  // stopped, and what they said meanwhile waits to be read. It does not count.
  std::vector<std::string> expire(TimePoint now, Deferred& deferred);
  // As expire(), for who was busy meanwhile and would be late.
  void look(TimePoint now) { looked_at_ = now; }
  // It left after nobody had heard of it for a lease, and may live, or have gone on elsewhere and ended; its
  // process has not come back, nor another with its name.
  [[nodiscard]] bool may_live(const std::string& node) const { return silent_.contains(node); }
  // Where it was, if its line is broken; empty: nobody knows.
  [[nodiscard]] std::string last_address(const std::string& node) const;
  // Whether this controller hears more than half of the nodes that live or may live, or half of them with the
  // lowest standing. Where nodes bring controllers, another one may be awake, and only one of the two has a
  // quorum: the other publishes nothing. True where nodes bring none.
  [[nodiscard]] bool has_quorum(TimePoint now) const;
  // Whether they live does not matter any more.
  void give_up(const std::set<std::string>& nodes);
  // Where those were whose lines are broken.
  [[nodiscard]] std::map<std::string, std::string> lost_addresses() const;
  // Whether such a node lives is of no interest where it is a member of no group.
  void forget_silent(const std::function<bool(const std::string&)>& matters);
  // Some have brought controllers that stand by: this one may have been followed by one of these.
  [[nodiscard]] bool has_successors() const { return has_successors_; }
  // Nobody is there any more, and nobody has left.
  void close_all(const Status& reason, Deferred& deferred);

  // Who has left since the last call, in order.
  std::vector<Departure> take_departures();
  // It is there, and has been since before that.
  [[nodiscard]] bool was_there(const std::string& node, const Departure& departure) const;

  [[nodiscard]] const Member* find(const std::string& node) const;
  [[nodiscard]] bool contains(const std::string& node) const { return find(node) != nullptr; }
  // contains(), for as long as this object lives.
  [[nodiscard]] std::function<bool(const std::string& node)> presence() const {
    return [this](const std::string& node) { return contains(node); };
  }
  // It is connected, and said something lately: what it asked is still asked. A line may look alive for a
  // while after its other end is gone, or this process was stopped itself.
  [[nodiscard]] bool speaks(const std::string& node, TimePoint now) const {
    const Member* const member = find(node);
    return member != nullptr && member->line != nullptr && now - member->heard_at < lease_ / 2;
  }
  [[nodiscard]] std::size_t size() const { return members_.size(); }
  [[nodiscard]] auto begin() { return members_.begin(); }
  [[nodiscard]] auto end() { return members_.end(); }
  [[nodiscard]] auto begin() const { return members_.begin(); }
  [[nodiscard]] auto end() const { return members_.end(); }

  // The nodes of the topology, there or not, but for those that are gone and not there; then the others.
  [[nodiscard]] std::vector<NodeInformation> list(
      const Topology& topology, const std::function<bool(const std::string&)>& is_gone) const;

  // When expire() is due; `latest` at the latest.
  [[nodiscard]] TimePoint next_end(TimePoint latest) const;

 private:
  using Standing = std::pair<std::uint32_t, std::string>;  // and the node's name

  Member* reach(const std::string& node, const NodeLine* line, TimePoint now);
  void leave_silent(const std::string& node, const std::string& reason);
  [[nodiscard]] bool are_most_silent(TimePoint now) const;
  bool is_cut_off(TimePoint now);
  void end_cut_off(TimePoint now);
  void send_addresses(const std::string& name, const Member& member, bool tell_others);

  const Duration lease_;
  std::map<std::string, Member, std::less<>> members_;
  std::optional<TimePoint> cut_off_since_;
  TimePoint looked_at_{};                // by expire(), while there is anybody
  std::optional<TimePoint> resumed_at_;  // this process was stopped until then
  std::uint64_t events_ = 0;
  std::vector<Departure> departures_;
  std::map<std::string, std::uint32_t, std::less<>> silent_;  // those that may live: their standings
  std::map<std::string, bool> presumed_gone_;                 // whether it is dead
  std::optional<TimePoint> followed_at_;                      // a controller that is dead
  bool has_successors_ = false;
  struct Gone {
    Departure departure;
    std::shared_ptr<const v1::ControllerEvent> event;
  };
  std::deque<Gone> gone_;  // oldest first
};

}  // namespace square::controller
