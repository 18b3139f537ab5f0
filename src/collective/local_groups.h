// The groups that members on this node have joined and not all closed.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "square/member_host.h"

namespace square {

// A node closes a group once the last of its ranks has, whichever process that is in. A rank that never came
// keeps it, as does one that is there. Thread-safe; always held by a shared_ptr.
class LocalGroups : public std::enable_shared_from_this<LocalGroups> {
 public:
  // `closes` is called with the name and number of a group that all ranks here have closed; it must not
  // block.
  using Close = std::function<void(const std::string& group, std::uint64_t number)>;
  // `leaves` is called with a rank that has closed a group which others here have not; it must not block.
  using Leave = std::function<void(const std::string& group, std::uint64_t number, Rank rank)>;
  LocalGroups(std::string node, Close closes, Leave leaves)
      : node_(std::move(node)), closes_(std::move(closes)), leaves_(std::move(leaves)) {}

  // As MemberHost::join_group(). `registers` is given what is left of the time.
  using Register = std::function<Result<GroupRegistration>(Duration timeout)>;
  Result<GroupPart> join(const GroupSpec& group, Rank member, Duration timeout, const Register& registers);
  // As MemberHost::regroup(), of a member: waits for the other ranks here, and then asks with all of them
  // that go on. `asks` is given those, the same for each, and what is left of the time. A rank that leaves
  // the group without having joined the next one has closed that, too.
  using Asks = std::function<Result<GroupSpec>(const RegroupRequest& request, Duration timeout)>;
  Result<GroupSpec> regroup(const RegroupRequest& request, Duration timeout, const Asks& asks);
  // Who waits in join() or regroup() is told CANCELLED; nothing is closed any more.
  void stop();

  [[nodiscard]] std::size_t size() const;

 private:
  struct Local {
    std::uint64_t number = 0;
    std::set<Rank> ranks;                // of this node
    std::map<Rank, std::size_t> joined;  // and how often
    std::set<Rank> closed;
    std::size_t joining = 0;  // calls of join() that register
    std::set<Rank> going_on;  // those in regroup()
    std::vector<Rank> asked;  // with these the controller is asked, until the last has its answer
    std::string next;         // the group that it went on in, and its ranks there, by those here
    std::uint64_t next_number = 0;
    std::map<Rank, Rank> next_ranks;
  };
  using Locals = std::map<std::string, Local>;

  Status wait_for_others(std::unique_lock<std::mutex>& lock, const GroupSpec& group, Rank member,
                         std::chrono::steady_clock::time_point end);
  Status still_open(const std::string& group, Rank member) const;
  Result<std::vector<Rank>> meet(const RegroupRequest& request, std::chrono::steady_clock::time_point end);
  // Of those that are to come to regroup() the ones that have not; nullopt where the group is not there.
  std::optional<std::set<Rank>> missing(const RegroupRequest& request) const;
  void leave(const std::string& group, Rank member);
  // The group goes on in that one, whose ranks here are to join.
  void expect(Local& before, const GroupSpec& next);
  // The rank has left the group: it joins no next one any more.
  void miss_next(const Local& before, Rank member);
  void end_if_closed(Locals::iterator group);

  const std::string node_;
  const Close closes_;
  const Leave leaves_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool is_stopped_ = false;
  Locals groups_;
};

}  // namespace square
