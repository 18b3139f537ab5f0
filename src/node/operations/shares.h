// How many operations each tenant may have open on a node: no one takes all the room.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "node/operations/operation_key.h"

namespace square {

// A tenant may have as many as are free for all: alone half of the room, with n more like it one part in n +
// 2 each, so that there is room for who comes next. After the dynamic threshold with which switches share
// their memory: A. Choudhury and E. Hahne, "Dynamic queue length thresholds for shared-memory packet
// switches", 1998. Not thread-safe.
class Shares {
 public:
  explicit Shares(std::size_t room) : room_(room) {}

  // Counts the operation. False where the tenant has its share, or nothing is free. Precondition: the key is
  // new.
  bool take(const OperationKey& key, const std::string& tenant);
  [[nodiscard]] bool has_room(const std::string& tenant) const;
  // Whatever the tenant has.
  void take_besides(const OperationKey& key, const std::string& tenant);
  void give_back(const OperationKey& key);

 private:
  const std::size_t room_;
  std::map<OperationKey, std::string> tenants_;  // of what is open
  std::map<std::string, std::size_t> open_;      // by tenant
};

}  // namespace square
