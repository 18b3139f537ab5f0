// The groups that members on this node have joined and not all closed.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "square/member_host.h"

namespace square {

// A node closes a group once the last of its ranks has, whichever process that is in. A rank that never came
// keeps it, as does one that is there. Thread-safe; always held by a shared_ptr.
class LocalGroups : public std::enable_shared_from_this<LocalGroups> {
 public:
  // `closes` is called with the name and number of a group that all ranks here have closed; it must not
  // block.
  using Close = std::function<void(const std::string& group, std::uint64_t number)>;
  LocalGroups(std::string node, Close closes) : node_(std::move(node)), closes_(std::move(closes)) {}

  // As MemberHost::join_group(). `registers` is given what is left of the time.
  using Register = std::function<Result<GroupRegistration>(Duration timeout)>;
  Result<GroupPart> join(const GroupSpec& group, Rank member, Duration timeout, const Register& registers);
  // Who waits in join() is told CANCELLED; nothing is closed any more.
  void stop();

  [[nodiscard]] std::size_t size() const;

 private:
  struct Local {
    std::uint64_t number = 0;
    std::set<Rank> ranks;                // of this node
    std::map<Rank, std::size_t> joined;  // and how often
    std::set<Rank> closed;
    std::size_t joining = 0;  // calls of join() that register
  };

  Status wait_for_others(std::unique_lock<std::mutex>& lock, const GroupSpec& group, Rank member,
                         std::chrono::steady_clock::time_point end);
  Status still_open(const std::string& group, Rank member) const;
  void leave(const std::string& group, Rank member);
  void end_if_closed(std::map<std::string, Local>::iterator group);

  const std::string node_;
  const Close closes_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool is_stopped_ = false;
  std::map<std::string, Local> groups_;
};

}  // namespace square
