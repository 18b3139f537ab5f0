#include "node/operations/quotas.h"

#include <fmt/format.h>

namespace square {

void Quotas::set(const Plan& plan) {
  granted_.clear();
  for (const PlanTenant& tenant : plan.tenants) {
    if (tenant.open != Quota{}) granted_.emplace(tenant.name, tenant.open);
  }
}

Status Quotas::check_size(const std::string& tenant, std::uint64_t bytes) const {
  const auto granted = granted_.find(tenant);
  if (granted == granted_.end() || bytes <= granted->second.bytes) return {};
  return resource_exhausted(fmt::format(
      "tenant \"{}\" was granted {} bytes of operations under way on a node, and one of {} bytes, "
      "all ranks of this node together, never has room: use smaller ones",
      tenant, granted->second.bytes, bytes));
}

Status Quotas::check(const OperationKey& key, const std::string& tenant, std::uint64_t bytes) const {
  const auto granted = granted_.find(tenant);
  if (granted == granted_.end() || called_.contains(key)) return {};
  const Quota& quota = granted->second;
  const auto found = uses_.find(tenant);
  const Use use = found == uses_.end() ? Use{} : found->second;
  if (use.operations >= quota.operations) {
    return resource_exhausted(
        fmt::format("tenant \"{}\" has {} operations under way on this node, as many as it was granted",
                    tenant, use.operations));
  }
  if (bytes > quota.bytes || use.bytes > quota.bytes - bytes) {
    return resource_exhausted(
        fmt::format("tenant \"{}\" was granted {} bytes of operations under way on a node, and has {} here: "
                    "{} more are too many",
                    tenant, quota.bytes, use.bytes, bytes));
  }
  return {};
}

void Quotas::add(const OperationKey& key, const std::string& tenant, std::uint64_t bytes) {
  if (!called_.try_emplace(key, Called{tenant, bytes}).second) return;
  Use& use = uses_[tenant];
  ++use.operations;
  use.bytes += bytes;
}

void Quotas::end(const OperationKey& key) {
  const auto called = called_.find(key);
  if (called == called_.end()) return;
  const auto use = uses_.find(called->second.tenant);
  use->second.bytes -= called->second.bytes;
  if (--use->second.operations == 0) uses_.erase(use);
  called_.erase(called);
}

}  // namespace square
