#include "node/operations/shares.h"

namespace square {

bool Shares::take(const OperationKey& key, const std::string& tenant) {
  const auto known = open_.find(tenant);
  const std::size_t own = known == open_.end() ? 0 : known->second;
  if (own >= room_ - tenants_.size()) return false;
  tenants_.emplace(key, tenant);
  ++open_[tenant];
  return true;
}

void Shares::give_back(const OperationKey& key) {
  const auto found = tenants_.find(key);
  if (found == tenants_.end()) return;
  const auto open = open_.find(found->second);
  if (--open->second == 0) open_.erase(open);
  tenants_.erase(found);
}

}  // namespace square
