// What members of a group do to go on in another one: as Communicator::shrink() without those that are gone,
// as grow() with others, which join as Communicator::join() does.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "world/site.h"

namespace square::test {

// Of one group.
class GoingOn {
 public:
  // The members that go on, how they register, and what comes of that; called on no strand.
  struct Events {
    // What a member was answered: the group, and the number of the one that it goes on from.
    std::function<void(std::uint64_t, const GroupSpec&)> regrouped;
    std::function<void(const GroupSpec&, const GroupRegistration&)> registered;
    std::function<void(const std::string&)> fault;
  };
  GoingOn(Simulation& simulation, std::vector<std::unique_ptr<Site>>& sites, Events events)
      : simulation_(simulation), sites_(sites), events_(std::move(events)) {}

  // A member goes on, with this many that join, and calls in the next group; `done` is called once it is
  // through with that, or with what went wrong, unless its process ends before.
  using Done = std::function<void(Status)>;
  struct Old {
    std::string group;
    std::uint64_t number = 0;
  };
  void begin(const Old& old, std::size_t rank, std::size_t site, std::uint32_t joiners, Done done);
  // A process joins what the group becomes, and goes on as a member. It calls itself `joiner`, a number above
  // all ranks, which it never had before.
  void join(const std::string& group, std::uint64_t joiner, std::size_t site, Done done);

 private:
  struct Member {
    std::uint64_t name = 0;  // its rank in the group before, or what it calls itself as it joins
    std::size_t site = 0;
    Done done;
    GroupSpec group{};
    GroupRegistration made{};
    std::uint64_t calls = 0;
    std::vector<float> input{};
    std::vector<float> output{};
  };
  using MemberPtr = std::shared_ptr<Member>;

  void ask(const MemberPtr& member, const RegroupRequest& request);
  void register_next(const MemberPtr& member);
  void call(const MemberPtr& member);
  void ended(const MemberPtr& member, const Status& outcome);
  void close(const MemberPtr& member, const Status& outcome);
  static Rank rank_of(const Member& member);
  [[nodiscard]] Site& site_of(const Member& member) { return *sites_[member.site]; }

  Simulation& simulation_;
  std::vector<std::unique_ptr<Site>>& sites_;
  const Events events_;
};

}  // namespace square::test
