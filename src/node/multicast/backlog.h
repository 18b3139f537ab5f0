// What the sources on a node have still to put on streams: of a session earlier operations go first.
#pragma once

#include <cstddef>
#include <map>
#include <utility>

#include "square/ids.h"

namespace square {

// Used on the node's strand.
class Backlog {
 public:
  // Before one operation so many others are looked at: more are far more than it has to know of.
  static constexpr int kMaxOperations = 64;

  void set(SessionId session, OperationId operation, std::size_t bytes) {
    if (bytes == 0) {
      bytes_.erase({session, operation});
    } else {
      bytes_[{session, operation}] = bytes;
    }
  }
  // Of the session's operations before this one.
  [[nodiscard]] std::size_t before(SessionId session, OperationId operation) const {
    std::size_t bytes = 0;
    auto next = bytes_.lower_bound({session, operation});
    for (int looked = 0; next != bytes_.begin() && looked < kMaxOperations; ++looked) {
      --next;
      if (next->first.first != session) break;
      bytes += next->second;
    }
    return bytes;
  }

 private:
  std::map<std::pair<SessionId, OperationId>, std::size_t> bytes_;  // none is 0
};

}  // namespace square
