// How much memory a gateway may hold for operations, in all and for each tenant.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "square/status.h"

namespace square::gateway {

struct StagingLimits {
  std::uint64_t tenant_bytes = 0;
  std::uint64_t total_bytes = 0;
};

// Not thread-safe.
class StagingBudget {
 public:
  explicit StagingBudget(StagingLimits limits) : limits_(limits) {}

  // RESOURCE_EXHAUSTED, with the limit's name, for what can never fit.
  [[nodiscard]] Status check(const std::string& tenant, std::uint64_t bytes) const;

  enum class Answer { kTaken, kTenantIsFull, kAllIsFull };
  Answer take(const std::string& tenant, std::uint64_t bytes);
  void give_back(const std::string& tenant, std::uint64_t bytes);

  [[nodiscard]] std::uint64_t used_bytes() const { return used_bytes_; }
  // "900 of 1000 bytes of tenant ... are in use, ..."
  [[nodiscard]] std::string describe(const std::string& tenant) const;

 private:
  StagingLimits limits_;
  std::uint64_t used_bytes_ = 0;
  std::map<std::string, std::uint64_t> by_tenant_;
};

}  // namespace square::gateway
