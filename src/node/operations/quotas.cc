#include "node/operations/quotas.h"

#include <fmt/format.h>

namespace square {

void Quotas::set(const Plan& plan) {
  granted_.clear();
  for (const PlanTenant& tenant : plan.tenants) {
    if (tenant.open != Quota{}) granted_.emplace(tenant.name, tenant.open);
  }
}

Status Quotas::check(const OperationKey& key, const std::string& tenant, std::uint64_t bytes) const {
  const auto granted = granted_.find(tenant);
  if (granted == granted_.end()) return {};
  const Quota& quota = granted->second;
  const auto found = uses_.find(tenant);
  const Use use = found == uses_.end() ? Use{} : found->second;
  if (use.operations >= quota.operations && !called_.contains(key)) {
    return resource_exhausted(
        fmt::format("tenant \"{}\" has {} operations under way on this node, as many as it was granted: wait "
                    "for one of them",
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
  const auto [called, is_new] = called_.try_emplace(key, Called{tenant, 0});
  Use& use = uses_[tenant];
  if (is_new) ++use.operations;
  called->second.bytes += bytes;
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
