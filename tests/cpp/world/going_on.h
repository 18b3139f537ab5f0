// What members of a group do when its operations have failed: as Communicator::shrink() they go on with those
// that are left.
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

  // A member goes on, and calls in the next group; `done` is called once it is through with that, or with
  // what went wrong, unless its process ends before.
  using Done = std::function<void(Status)>;
  void begin(const std::string& group, std::uint64_t number, std::size_t rank, std::size_t site, Done done);

 private:
  struct Member {
    std::size_t rank = 0;  // in the group before
    std::size_t site = 0;
    Done done;
    GroupSpec group{};
    GroupRegistration made{};
    std::uint64_t calls = 0;
    std::vector<float> input{};
    std::vector<float> output{};
  };
  using MemberPtr = std::shared_ptr<Member>;

  void register_next(const MemberPtr& member);
  void call(const MemberPtr& member);
  void ended(const MemberPtr& member, const Status& outcome);
  void close(const MemberPtr& member, const Status& outcome);
  [[nodiscard]] Site& site_of(const Member& member) { return *sites_[member.site]; }

  Simulation& simulation_;
  std::vector<std::unique_ptr<Site>>& sites_;
  const Events events_;
};

}  // namespace square::test
