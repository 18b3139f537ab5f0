// Registrations with the controller that several ranks of this node ask for at once.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "square/group.h"
#include "square/status.h"
#include "square/units.h"

namespace square {

// Ranks that ask for the same while one of them does share its registration, and hear its outcome.
// Thread-safe.
class SharedRegistrations {
 public:
  // `registers` is given what is left of the time. `joins`: as a new member of the group. Blocks for
  // `timeout` at most. Errors: those of `registers`; DEADLINE_EXCEEDED.
  using Register = std::function<Result<GroupRegistration>(Duration timeout)>;
  Result<GroupRegistration> get(const GroupSpec& group, bool joins, Duration timeout,
                                const Register& registers);

 private:
  struct What {
    bool joins = false;
    std::string group;
    std::string tenant;
    std::vector<std::string> nodes;
    std::vector<CollectiveIdentity> collectives;
    friend auto operator<=>(const What&, const What&) = default;
  };
  using Outcome = std::shared_ptr<std::optional<Result<GroupRegistration>>>;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<What, Outcome> running_;
};

}  // namespace square
