// What a tenant's group does: its members register it, call its collectives one after another, check what
// they got, and close it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "world/draw.h"
#include "world/going_on.h"
#include "world/site.h"

namespace square::test {

// What is wrong, in words; empty: nothing so far.
using Complaints = std::vector<std::string>;

class Job {
 public:
  struct Call {
    std::size_t collective = 0;
    OperationId operation{0};
    std::vector<std::vector<float>> inputs;   // by rank
    std::vector<std::vector<float>> outputs;  // by rank
    std::vector<Duration> thought;            // by rank: how long after its call before
    std::vector<std::optional<Status>> outcomes;
    std::vector<TimePoint> called_at;
    std::vector<TimePoint> ended_at;
  };
  struct Script {
    GroupSpec group;
    std::vector<std::size_t> sites;  // by rank
    std::vector<Call> calls;
    std::vector<Duration> begins;  // by rank
    Duration timeout = std::chrono::seconds(120);
    int rounds = 1;  // so often the group is registered, used and closed
    // So many registrations of one member may end late.
    int late_registrations = 5;
    bool goes_on = false;  // without members that are gone, in another group
    // These join what the group becomes, whether its calls have ended well or not.
    struct Joiner {
      std::size_t site = 0;
      Duration begins{0};
    };
    std::vector<Joiner> joiners{};
    // What they call themselves, one after the other: no process has the number of another.
    std::uint64_t first_joiner = 0;
    // In place of these: where a member is gone, its process joins once it is started again.
    bool heals = false;
    std::optional<Joiner> stranger{};  // see let_intrude()
    bool is_calm = false;  // nothing ever happens to its members, or to whom they share a link or relay with
  };
  // The bits per second that the active plans gave a collective at least, from one time to another.
  using LeastRate = std::function<double(CollectiveId, TimePoint, TimePoint)>;

  Job(Simulation& simulation, Executor& world, std::vector<std::unique_ptr<Site>>& sites, Script script);

  // Before it starts: a node without a grant tries to join, and to register a group of the tenant.
  void let_intrude(Script::Joiner stranger) { script_.stranger = stranger; }
  void start();
  // Every member has closed the group, or its process is no more.
  [[nodiscard]] bool is_over() const;
  // A member, or a process that joins, is at the site.
  [[nodiscard]] bool has_part(std::size_t site) const;
  // Its members at the site, if there are any, have done all their calls, or gone on, and closed the group.
  [[nodiscard]] bool has_ended_well_at(std::size_t site) const;
  // The process of a member is no more.
  void note_death(std::size_t site);
  // Another process has its place.
  void note_restart(std::size_t site);
  // Nothing was heard of some members for long: all may be named.
  void note_absence() { has_absent_ = true; }
  // Every member has its number, or has had it.
  [[nodiscard]] bool has_begun() const;
  // Of one that is calm: what took longer than it may, whatever happens to others.
  [[nodiscard]] Complaints delays(const LeastRate& rate) const;
  // The same of calls alone, and of registrations alone. The controller could not reach all members before
  // `end_of_cut`.
  [[nodiscard]] Complaints slow_calls(const LeastRate& rate) const;
  [[nodiscard]] Complaints slow_registrations(std::optional<TimePoint> end_of_cut = {}) const;
  // Its process may be started again: a group that it was to register would wait for it for ever.
  [[nodiscard]] bool may_come_back(std::size_t site) const;
  // What members have seen that nobody should.
  [[nodiscard]] Complaints complaints() const;
  [[nodiscard]] const Script& script() const { return script_; }
  // Every number that was given to it.
  std::function<void(const GroupSpec&, const GroupRegistration&)> on_registered;
  // A member goes on from the group of that number in this one.
  std::function<void(std::uint64_t, const GroupSpec&)> on_regrouped;
  // A member has closed the group for the last time.
  std::function<void()> on_closed;
  // Of all outcomes, with their times.
  [[nodiscard]] std::uint64_t digest() const { return digest_; }

 private:
  enum class Phase { kWaiting, kRegistering, kCalling, kGoingOn, kClosed, kDead };
  struct Member {
    Phase phase = Phase::kWaiting;
    int round = 0;
    std::size_t next = 0;
    GroupRegistration made;
    std::string label;
    bool has_registered = false;
    bool has_failed = false;
    bool has_gone_on = false;
    TimePoint asked_at{};
    TimePoint answered_at{};
    int late_registrations = 0;
  };

  // One that joins.
  struct Joiner {
    std::size_t site = 0;
    Phase phase = Phase::kWaiting;
  };

  void begin(std::size_t rank);
  void registered(std::size_t rank, const Result<GroupRegistration>& made);
  void call_next(std::size_t rank);
  void post(std::size_t rank, std::size_t index);
  void ended(std::size_t rank, std::size_t index, Status outcome);
  void go_on(std::size_t rank);
  void begin_joining(std::size_t joiner);
  void intrude();
  [[nodiscard]] bool is_growing() const { return script_.heals || !script_.joiners.empty(); }
  void close(std::size_t rank);
  void check_result(std::size_t rank, const Call& call);
  void complain(std::size_t rank, const std::string& what);
  [[nodiscard]] bool is_excused(const Status& failure) const;
  // One that had died, and was dead for long when the time was over.
  [[nodiscard]] std::string waited_for(TimePoint called_at) const;
  [[nodiscard]] bool is_here(std::size_t rank) const;
  void later(std::size_t rank, Duration wait, Executor::Task task);

  Simulation& simulation_;
  Executor& world_;
  std::vector<std::unique_ptr<Site>>& sites_;
  Script script_;
  std::vector<std::vector<Call>> calls_;  // by round
  std::vector<Member> members_;
  std::vector<Joiner> joiners_;
  GoingOn going_on_;
  bool has_absent_ = false;
  std::set<std::string> dead_;                             // names
  std::map<std::string, TimePoint> registered_then_died_;  // by name: when first
  Complaints complaints_;
  std::uint64_t digest_ = 0xcbf29ce484222325U;
};

// So many times its calls, one after the other.
void lengthen(Job::Script& script, std::size_t times, Dice& dice);

// Perhaps some of these sites join at its end, or its members go on with one that was killed.
void let_grow(Job::Script& script, std::vector<std::size_t> others, Dice& dice);

// What the group's operations may be at random: of `sites`, for `tenant`.
Job::Script random_script(Dice& dice, const std::string& name, const std::string& tenant,
                          const std::vector<std::size_t>& sites,
                          const std::vector<std::unique_ptr<Site>>& all);

}  // namespace square::test
