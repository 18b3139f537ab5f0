// How much each tenant's members on this node may have under way: what its operator has granted.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "node/operations/operation_key.h"
#include "square/plan.h"
#include "square/status.h"

namespace square {

// Counts what members here have called and what has not ended yet. What others have called and passes through
// is not counted: members that call in another order would wait for one another. Not thread-safe.
class Quotas {
 public:
  // In the place of those of an earlier plan.
  void set(const Plan& plan);

  // Whether the members here may ever call an operation on so many bytes, all of them together. Errors:
  // RESOURCE_EXHAUSTED naming what the tenant was granted.
  [[nodiscard]] Status check_size(const std::string& tenant, std::uint64_t bytes) const;
  // Whether they may call it now: yes once one of them has. Errors: RESOURCE_EXHAUSTED naming what its tenant
  // has under way.
  [[nodiscard]] Status check(const OperationKey& key, const std::string& tenant, std::uint64_t bytes) const;
  // One of them has: nothing where another one had.
  void add(const OperationKey& key, const std::string& tenant, std::uint64_t bytes);
  // Nothing where it was not called here.
  void end(const OperationKey& key);

 private:
  struct Called {
    std::string tenant;
    std::uint64_t bytes = 0;
  };
  struct Use {
    std::uint64_t operations = 0;
    std::uint64_t bytes = 0;
  };

  std::map<std::string, Quota> granted_;  // those that have one
  std::map<OperationKey, Called> called_;
  std::map<std::string, Use> uses_;  // by tenant
};

}  // namespace square
