// Registrations of groups that run: the controller may take as long as planning takes, so not on the loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gateway/event_loop.h"
#include "gateway/group_table.h"
#include "square/clock.h"
#include "square/member_host.h"

namespace square::gateway {

// Members whose groups go on wait on threads of their own, at most this many at once: also those whose
// process is gone, until the controller has answered. The same holds for members that join groups; more of
// those wait.
inline constexpr std::size_t kMaxRegroups = 512;
// Of another user than the gateway's, whose processes may be gone while what they asked for goes on.
inline constexpr std::size_t kMaxRegroupsOfUser = 128;
// Registrations of one process that run or wait.
inline constexpr std::size_t kMaxRegistrationsOfOne = 64;
// Of another user than the gateway's: the most of Gateway::kMaxRegistrations, and of the members that join
// groups at once. Its others wait, and those of other users pass them.
inline constexpr std::size_t kMaxRegistrationsOfUser = 8;
inline constexpr std::size_t kMaxJoinsOfUser = 128;
// No registration waits longer, whatever its process says.
inline constexpr Duration kMaxRegistrationWait = std::chrono::hours(24);
// The node is asked with this much time, and again with as much as the registration has waited: so the place
// of a process that is gone is free again soon.
inline constexpr Duration kRegistrationTurn = std::chrono::seconds(60);

// The process that registers.
struct Registrant {
  AttachmentId attachment = 0;
  std::uint32_t user = 0;
};

// Used on the loop's thread; destroyed when the loop has stopped.
class Registrations final : public std::enable_shared_from_this<Registrations> {
 public:
  using Done = std::function<void(const Result<GroupPart>&)>;

  // `node` outlives it.
  Registrations(MemberHost& node, std::shared_ptr<EventLoop> loop, Duration turn = kRegistrationTurn);
  // Waits for those that run.
  ~Registrations();

  // Errors: RESOURCE_EXHAUSTED if this attachment has too many that run or wait.
  [[nodiscard]] Status check(AttachmentId attachment) const;
  // Groups that members go on in wait for one another: they do not count with the others. Errors:
  // RESOURCE_EXHAUSTED if too many run, in all, of this user or of this attachment.
  [[nodiscard]] Status check_regroup(AttachmentId attachment, std::uint32_t user) const;
  using Regrouped = std::function<void(const Result<GroupSpec>&)>;
  void begin_regroup(AttachmentId attachment, std::uint32_t user, RegroupRequest request, Duration timeout,
                     Regrouped done);
  // Joins the group as `joins`; where that is nobody, adds collectives to it. Ranks that ask for the same
  // collectives of a group share one registration, however many they are; it waits while
  // Gateway::kMaxRegistrations others run, or kMaxRegistrationsOfUser of its user. `done` runs on the loop,
  // unless that stops or the attachment is forgotten before.
  void begin(Registrant from, GroupSpec group, std::optional<Rank> joins, Duration timeout, Done done);
  // The process is gone: what it waits for is dropped, and what runs for it alone is not asked for again.
  void forget(AttachmentId attachment);

 private:
  // What ranks have in common that share a registration.
  struct What {
    bool joins = false;
    std::string group;
    std::string tenant;
    std::vector<std::string> nodes;
    std::vector<CollectiveIdentity> collectives;
    friend auto operator<=>(const What&, const What&) = default;
  };
  struct Request {
    Registrant from;
    GroupSpec group;
    std::optional<Rank> joins;
    TimePoint began;
    TimePoint deadline;
    Done done;
  };
  struct Shared {
    std::uint32_t user = 0;  // of the first request: the share that adding takes
    bool is_begun = false;
    std::size_t running = 0;        // calls of the node: of each rank that joins, or one for all that add
    std::vector<Request> requests;  // of joins those that are not running
  };

  // Runs `call`, which may block, and then `done` with what it returned.
  template <typename Call, typename Finish>
  void run(AttachmentId attachment, std::optional<std::uint32_t> regroups_for, Call call, Finish done);
  [[nodiscard]] std::size_t count_regroups(AttachmentId attachment) const;
  Result<GroupPart> enrol(const GroupSpec& group, std::optional<Rank> joins, Duration timeout);
  // A user's share of what may be at once. The gateway's own user may take all.
  class Shares {
   public:
    explicit Shares(std::size_t of_user) : of_user_(of_user) {}
    [[nodiscard]] std::size_t count(std::uint32_t user) const;
    [[nodiscard]] bool has_room(std::uint32_t user) const;
    void take(std::uint32_t user) { ++taken_[user]; }
    void give_back(std::uint32_t user);

   private:
    const std::size_t of_user_;
    std::map<std::uint32_t, std::size_t> taken_;
  };
  void begin_waiting();
  void stop_waiting(const What& what, std::uint32_t user);
  void go_on(const What& what, Shared& shared);
  // When the node's next answer to a request is due.
  [[nodiscard]] TimePoint end_of_turn(const Request& request) const;
  // Whether that came at the end of its turn, and not of its time.
  static bool goes_on(const Request& request, TimePoint turn_end, const Result<GroupPart>& result);
  void run_join(const What& what, Request request);
  void run_adding(const What& what, const Shared& shared);
  void added(const What& what, TimePoint turn_end, const Result<GroupPart>& result);
  void over(const What& what);
  void tell(const Request& request, const Result<GroupPart>& result);
  struct Running {
    AttachmentId attachment = 0;
    std::optional<std::uint32_t> regroups_for;  // the user; of a registration nobody
    std::thread thread;
  };
  void ended(std::uint64_t id);

  MemberHost& node_;
  const std::shared_ptr<EventLoop> loop_;
  const Duration turn_;
  std::map<std::uint64_t, Running> running_;
  std::uint64_t last_ = 0;
  std::map<What, Shared> shared_;
  std::map<std::uint32_t, std::deque<What>> waiting_;  // those that have not begun, by user, in order
  std::size_t begun_ = 0;
  Shares begun_of_{kMaxRegistrationsOfUser};
  std::size_t joining_ = 0;  // members
  Shares joining_of_{kMaxJoinsOfUser};
  struct Own {
    std::size_t requests = 0;  // that run or wait
    bool is_gone = false;
  };
  std::map<AttachmentId, Own> of_attachment_;
};

}  // namespace square::gateway
