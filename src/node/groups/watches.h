// Members that wait to hear of an operation before they call it.
#pragma once

#include <cstddef>
#include <functional>
#include <map>

#include "node/lifetime.h"
#include "node/operations/operation_key.h"
#include "square/clock.h"
#include "square/executor.h"
#include "square/status.h"

namespace square {

// Operations that members wait to hear of, at once.
inline constexpr std::size_t kMaxWatches = 4'096;

// Each is told once. Used on the node's strand.
class Watches {
 public:
  using Arrived = std::function<void(Status)>;
  Watches(const Clock& clock, Executor& executor) : clock_(clock), executor_(executor) {}

  [[nodiscard]] bool is_full() const { return watches_.size() >= kMaxWatches; }
  // DEADLINE_EXCEEDED if nothing is told in time. Precondition: is_full() is not true.
  void add(const OperationKey& key, Duration timeout, Arrived arrived);
  void tell(const OperationKey& key, const Status& outcome);
  void tell_collective(CollectiveId collective, const Status& outcome);
  void tell_all(const Status& outcome);

 private:
  struct Watch {
    Executor::TimerId timer = 0;
    Arrived arrived;
  };

  const Clock& clock_;
  Executor& executor_;
  std::multimap<OperationKey, Watch> watches_;
  Lifetime life_;
};

}  // namespace square
