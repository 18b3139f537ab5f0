#include "controller/planner_turns.h"

#include <algorithm>

namespace square::controller {

void PlannerTurns::ask(const std::string& tenant, TimePoint now) {
  std::erase_if(accounts_, [&](const auto& entry) {
    return entry.second.asked + kMemory < now && entry.second.paid < now;
  });
  accounts_.try_emplace(tenant, Account{now, now}).first->second.asked = now;
}

void PlannerTurns::charge(const std::string& tenant, Duration took, TimePoint now) {
  const auto found = accounts_.find(tenant);
  if (found == accounts_.end()) return;
  TimePoint& paid = found->second.paid;
  paid = std::max(paid, now) + std::chrono::duration_cast<Duration>(took / kPart);
}

TimePoint PlannerTurns::due(const std::string& tenant) const {
  const auto found = accounts_.find(tenant);
  if (found == accounts_.end() || accounts_.size() == 1) return TimePoint::min();
  return found->second.paid - std::chrono::duration_cast<Duration>(kFree / kPart);
}

}  // namespace square::controller
