// What a node knows of its overlay, for a controller that does not: one that was restarted without its store,
// or another that takes over.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "controller/went_on.h"
#include "square/group.h"
#include "square/plan.h"
#include "square/v1/controller.pb.h"

namespace square::controller {

// Names of closed groups that are remembered, for when they are registered anew.
inline constexpr std::size_t kMaxClosedNames = 1024;

// Keeps the newest plan and the groups that members here have registered. Of the node's strand.
class Recollection {
 public:
  explicit Recollection(std::string node) : node_(std::move(node)) {}

  // The node's part of it. Errors: FAILED_PRECONDITION for one of a controller that another has followed,
  // which has not heard of it.
  Status note_plan(std::shared_ptr<const Plan> plan);
  // Where another node is, until it is gone.
  void note_address(const v1::Address& address);
  void forget_address(const std::string& node);
  // Nobody has heard of it: it may live, and have another controller.
  void note_silent(const std::string& node);
  void note_given(const v1::Given& given);
  // A member is about to register the group; of each call, until end_registering().
  void begin_registering(const std::string& group);
  void end_registering(const std::string& group);
  // Registered, as the spec says it, for the first time or with more collectives.
  void note_group(const GroupSpec& group, const GroupRegistration& made);
  // Its key, wrapped for its members, of a group that was registered and not closed; else empty.
  [[nodiscard]] std::string keys_of(const std::string& group) const;
  // The number of the group of that name that was registered and not closed.
  [[nodiscard]] std::optional<std::uint64_t> number_of(const std::string& group) const;
  // The highest number of a group of that name that was closed here; 0: none that is remembered.
  [[nodiscard]] std::uint64_t closed_number(const std::string& group) const;
  // Closed by all members here.
  void forget_group(const std::string& group, std::uint64_t number);

  // Nothing before the first plan: the process is new.
  [[nodiscard]] std::optional<v1::Past> past() const;

 private:
  struct Running {
    GroupSpec group;  // with all collectives that were registered
    std::uint64_t number = 0;
    std::map<CollectiveIdentity, CollectiveId> collectives;
  };

  const std::string node_;
  std::shared_ptr<const Plan> newest_;
  std::uint32_t next_collective_ = 0;
  std::uint32_t next_session_ = 0;
  std::uint64_t next_group_ = 0;
  std::map<std::string, Running> groups_;
  std::multiset<std::string> registering_;
  std::map<std::string, v1::Address> addresses_;
  WentOn went_on_;
  std::map<std::string, std::uint64_t> closed_;
  std::deque<std::string> closed_names_;  // the keys of closed_, oldest first
};

}  // namespace square::controller
