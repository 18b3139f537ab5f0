#include "gateway/staging.h"

#include <fmt/format.h>

#include "base/check.h"

namespace square::gateway {

Status StagingBudget::check(const std::string& tenant, std::uint64_t bytes, std::size_t segments) const {
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
  if (segments > kMaxSegmentsOfTenant) {
    return resource_exhausted(
        fmt::format("an operation of {} segments is over the {} that the gateway has for a tenant; put fewer "
                    "ranks on this node, or use nodes in the processes",
                    segments, kMaxSegmentsOfTenant));
  }
  return {};
}

StagingBudget::Used StagingBudget::used_by(const std::string& tenant) const {
  const auto found = by_tenant_.find(tenant);
  return found == by_tenant_.end() ? Used() : found->second;
}

StagingBudget::Answer StagingBudget::take(const std::string& tenant, std::uint64_t bytes,
                                          std::size_t segments) {
  const Used before = used_by(tenant);
  // No sum of two can overflow: check() has passed, and what is used is below its limit.
  if (bytes > limits_.tenant_bytes - before.bytes || segments > kMaxSegmentsOfTenant - before.segments)
    return Answer::kTenantIsFull;
  if (bytes > limits_.total_bytes - used_bytes_ || segments > kMaxSegments - used_segments_)
    return Answer::kAllIsFull;
  if (bytes > 0 || segments > 0) by_tenant_[tenant] = {before.bytes + bytes, before.segments + segments};
  used_bytes_ += bytes;
  used_segments_ += segments;
  return Answer::kTaken;
}

void StagingBudget::give_back(const std::string& tenant, std::uint64_t bytes, std::size_t segments) {
  if (bytes == 0 && segments == 0) return;
  const auto found = by_tenant_.find(tenant);
  SQUARE_CHECK(found != by_tenant_.end() && found->second.bytes >= bytes && used_bytes_ >= bytes,
               "staging memory was given back twice");
  SQUARE_CHECK(found->second.segments >= segments && used_segments_ >= segments,
               "staging segments were given back twice");
  used_bytes_ -= bytes;
  used_segments_ -= segments;
  found->second.bytes -= bytes;
  found->second.segments -= segments;
  if (found->second.bytes == 0 && found->second.segments == 0) by_tenant_.erase(found);
}

std::string StagingBudget::describe(const std::string& tenant) const {
  const Used used = used_by(tenant);
  return fmt::format(
      "{} of {} bytes and {} of {} segments of tenant \"{}\" and {} of {} bytes and {} of {} segments in all "
      "are in use",
      used.bytes, limits_.tenant_bytes, used.segments, kMaxSegmentsOfTenant, tenant, used_bytes_,
      limits_.total_bytes, used_segments_, kMaxSegments);
}

}  // namespace square::gateway
