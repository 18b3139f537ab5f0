// Members that go on in another group: who they are is decided here, once and for all of them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controller/deferred.h"
#include "controller/group_registry.h"
#include "controller/members.h"
#include "controller/requests.h"
#include "square/group.h"

namespace square::controller {

inline constexpr std::size_t kMaxRegroupRequests = 65'536;
// Of one node, whose processes all wait here.
inline constexpr std::size_t kMaxNodeRegroupRequests = 1'024;
// While somebody waits, lines may break and nodes leave: looked at so often.
inline constexpr Duration kRegroupLook = std::chrono::milliseconds(100);

// What a node asks for.
struct Regroup {
  RegroupRequest request;
  std::string node;
  Members::TimePoint end;  // when it is answered at the latest
  // Of which tenants' groups its node was granted to be in, or not; kAnyTenant: of those that are not named.
  std::map<std::string, bool> granted{};
};
using RegroupReply = std::function<void(Result<GroupSpec>)>;

// A decision is a group that has the old one as its origin, and is registered before anybody is told of it:
// so who asks again, or late, or another controller, finds it there. Not thread-safe.
class Regroupings {
 public:
  using TimePoint = Members::TimePoint;

  // Errors: RESOURCE_EXHAUSTED for more than kMaxRegroupRequests, or kMaxNodeRegroupRequests;
  // INVALID_ARGUMENT for what no group is called, or ranks that none has. Then `reply` is left as it was.
  Status add(Regroup asked, RegroupReply& reply);

  // A group that all have asked for, who live: to be registered, and then told.
  struct Decision {
    GroupSpec group;
    std::vector<RegroupReply> replies;
  };
  struct Look {
    std::vector<Decision> decisions;
    std::set<std::string> awaited;  // nodes
    // Those that may live, and of whom members that go on have said that they are not to count.
    std::set<std::string> given_up{};
  };
  // Answers what can be: where a group has gone on already, is not there, or the time is over. Call it when
  // a request has come, and by next_end().
  Look look(const GroupRegistry& registry, const Members& members, TimePoint now, Deferred& deferred);
  // A look whose decisions become demands, and are told when their groups are registered. Returns those
  // awaited whose lines are broken, which may be dead: their addresses, by node.
  std::map<std::string, std::string> settle(const GroupRegistry& registry, Members& members,
                                            Requests& requests, TimePoint now, Deferred& deferred);
  void fail_all(const Status& reason, Deferred& deferred);

  [[nodiscard]] bool is_empty() const { return waiting_.empty(); }
  [[nodiscard]] TimePoint next_end(TimePoint latest) const;

 private:
  struct Waiting {
    Regroup asked;
    RegroupReply reply;
  };
  struct Round;
  using Key = std::pair<std::string, std::uint64_t>;

  // Those that join, by the name that their groups have in common.
  using Joiners = std::map<std::string, std::vector<Waiting>>;
  // Its ranks that go on, by node.
  using Survivors = std::map<std::string, std::set<Rank>>;
  // Of all that have asked.
  struct Wish {
    std::uint32_t joiners;
    bool allow_minority;
  };
  void join(Waiting waiting, Round& round);
  void look_at(const Key& key, std::vector<Waiting> asks, Round& round);
  static void tell(const GroupSpec& next, std::vector<Waiting> asks, Deferred& deferred);
  static void tell_of_ended(const Continuation& ended, std::vector<Waiting> asks, Deferred& deferred);
  static void refuse_strangers(const RegisteredGroup& group, std::vector<Waiting>& asks, Deferred& deferred);
  static std::size_t count_joiners(const std::string& name, const RegisteredGroup& group,
                                   std::uint32_t wanted, Round& round);
  static std::string missing_for(const std::string& name, const RegisteredGroup& group,
                                 const Survivors& survivors, const Wish& wish, Round& round);
  static void decide(const Key& key, const Survivors& survivors, std::vector<Waiting> asks, Round& round);
  static void answer(Waiting& waiting, Result<GroupSpec> result, Deferred& deferred);

  std::vector<Waiting> waiting_;
  TimePoint looked_at_{};
};

// What a group and those that it became have in common: "a" of "a~2".
std::string common_name(const std::string& group);

}  // namespace square::controller
