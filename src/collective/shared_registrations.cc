#include "collective/shared_registrations.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace square {
namespace {

// Longer times are as good as this one, and can be added to any clock.
constexpr Duration kLongestTime = std::chrono::hours(24 * 30);

}  // namespace

Result<GroupRegistration> SharedRegistrations::get(const GroupSpec& group, bool joins, Duration timeout,
                                                   const Register& registers) {
  const auto end = std::chrono::steady_clock::now() + std::clamp(timeout, Duration(0), kLongestTime);
  const auto left = [end] { return std::max(Duration(0), Duration(end - std::chrono::steady_clock::now())); };
  What what{joins, group.name, group.tenant, group.nodes, {}};
  for (const GroupCollective& collective : group.collectives)
    what.collectives.push_back(identity_of(collective));
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto [place, is_first] = running_.try_emplace(what);
    if (is_first) {
      const Outcome outcome = place->second = std::make_shared<std::optional<Result<GroupRegistration>>>();
      lock.unlock();
      auto made = registers(left());
      lock.lock();
      *outcome = made;
      running_.erase(what);
      changed_.notify_all();
      return made;
    }
    const Outcome outcome = place->second;
    changed_.wait_until(lock, end, [&] { return outcome->has_value(); });
    if (!outcome->has_value()) {
      return deadline_exceeded(
          fmt::format("group \"{}\" was not registered within {:.3g} s", group.name, to_seconds(timeout)));
    }
    // The one that asked may have had less time.
    const bool is_late = (*outcome)->status().code() == StatusCode::kDeadlineExceeded;
    if (!is_late || left() == Duration(0)) return **outcome;
  }
}

}  // namespace square
