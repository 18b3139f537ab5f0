// Whose demands are planned next: tenants take turns at the planner by what their plans cost.
#pragma once

#include <chrono>
#include <map>
#include <string>

#include "square/clock.h"
#include "square/units.h"

namespace square::controller {

// A tenant whose demands took long to plan waits twice that time before the next of them is planned, where
// other tenants have asked lately: so no tenant has more than a third of the planner, and the price of
// expensive plans is its own. Not thread-safe.
class PlannerTurns {
 public:
  // How fast what was spent is paid off.
  static constexpr double kPart = 0.5;
  // What a tenant may have spent before it waits.
  static constexpr Duration kFree = std::chrono::milliseconds(100);
  static constexpr Duration kMemory = std::chrono::minutes(1);

  void ask(const std::string& tenant, TimePoint now);
  // The tenant's demands took this time to plan, which ended now.
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
