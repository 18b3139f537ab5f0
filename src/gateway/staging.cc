#include "gateway/staging.h"

#include <fmt/format.h>

#include "base/check.h"

namespace square::gateway {

Status StagingBudget::check(const std::string& tenant, std::uint64_t bytes) const {
  if (bytes > limits_.tenant_bytes) {
    return resource_exhausted(
        fmt::format("an operation of {} bytes is over tenant_staging_bytes of the gateway, {}, for tenant "
                    "\"{}\"; raise it, or use smaller operations or a node in the process",
                    bytes, limits_.tenant_bytes, tenant));
  }
  if (bytes > limits_.total_bytes) {
    return resource_exhausted(
        fmt::format("an operation of {} bytes is over staging_bytes of the gateway, {}; raise it, or use "
                    "smaller operations or a node in the process",
                    bytes, limits_.total_bytes));
  }
  return {};
}

StagingBudget::Answer StagingBudget::take(const std::string& tenant, std::uint64_t bytes) {
  const auto found = by_tenant_.find(tenant);
  const std::uint64_t before = found == by_tenant_.end() ? 0 : found->second;
  // No sum of two can overflow: check() has passed, and what is used is below its limit.
  if (bytes > limits_.tenant_bytes - before) return Answer::kTenantIsFull;
  if (bytes > limits_.total_bytes - used_bytes_) return Answer::kAllIsFull;
  if (bytes > 0) by_tenant_[tenant] = before + bytes;
  used_bytes_ += bytes;
  return Answer::kTaken;
}

void StagingBudget::give_back(const std::string& tenant, std::uint64_t bytes) {
  if (bytes == 0) return;
  const auto found = by_tenant_.find(tenant);
  SQUARE_CHECK(found != by_tenant_.end() && found->second >= bytes && used_bytes_ >= bytes,
               "staging memory was given back twice");
  used_bytes_ -= bytes;
  found->second -= bytes;
  if (found->second == 0) by_tenant_.erase(found);
}

std::string StagingBudget::describe(const std::string& tenant) const {
  const auto found = by_tenant_.find(tenant);
  return fmt::format("{} of {} bytes of tenant \"{}\" and {} of {} in all are in use",
                     found == by_tenant_.end() ? 0 : found->second, limits_.tenant_bytes, tenant, used_bytes_,
                     limits_.total_bytes);
}

}  // namespace square::gateway
