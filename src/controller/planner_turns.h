// Whose demands are planned next: tenants take turns at the planner by what their plans cost.
#pragma once

#include <chrono>
#include <map>
#include <string>

#include "square/clock.h"
#include "square/units.h"

namespace square::controller {

// A tenant whose demands took long to plan waits as long again before the next of them is planned, where
// other tenants have asked lately: so nobody has more than half of the planner, and who asks for expensive
// plans waits for them alone. Not thread-safe.
class PlannerTurns {
 public:
  // Of the planner, while others ask.
  static constexpr double kPart = 0.5;
  // What a tenant may have spent before it waits.
  static constexpr Duration kFree = std::chrono::milliseconds(100);
  static constexpr Duration kMemory = std::chrono::minutes(1);

  void ask(const std::string& tenant, TimePoint now);
  // Planning took so long because of the tenant's demands.
  void charge(const std::string& tenant, Duration took, TimePoint now);
  // When its next demand may be planned; in the past where that is now.
  [[nodiscard]] TimePoint due(const std::string& tenant) const;

 private:
  struct Account {
    TimePoint asked;
    TimePoint paid;  // when what it has spent is paid off
  };
  std::map<std::string, Account> accounts_;
};

}  // namespace square::controller
