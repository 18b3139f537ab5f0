#include "node/operations/shares.h"

namespace square {

bool Shares::has_room(const std::string& tenant) const {
  const auto known = open_.find(tenant);
  const std::size_t own = known == open_.end() ? 0 : known->second;
  return own + tenants_.size() < room_;
}

bool Shares::take(const OperationKey& key, const std::string& tenant) {
  if (!has_room(tenant)) return false;
  take_besides(key, tenant);
  return true;
}

void Shares::take_besides(const OperationKey& key, const std::string& tenant) {
  tenants_.emplace(key, tenant);
  ++open_[tenant];
}

void Shares::give_back(const OperationKey& key) {
  const auto found = tenants_.find(key);
  if (found == tenants_.end()) return;
  const auto open = open_.find(found->second);
  if (--open->second == 0) open_.erase(open);
  tenants_.erase(found);
}

}  // namespace square
