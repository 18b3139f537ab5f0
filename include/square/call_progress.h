// How far one call has come on its node. The node writes it; any thread reads it.
#pragma once

#include <atomic>

#include "square/clock.h"
#include "square/group_call.h"
#include "square/ids.h"

namespace square {

// Thread-safe.
class CallProgress {
 public:
  CallProgress(CollectiveId collective, OperationId operation, GroupCall call)
      : collective_(collective), operation_(operation), call_(call) {}

  [[nodiscard]] CollectiveId collective() const { return collective_; }
  [[nodiscard]] OperationId operation() const { return operation_; }
  [[nodiscard]] GroupCall call() const { return call_; }

  // The plan under which the call began; 0 until the node has it, and for a call through a gateway.
  [[nodiscard]] Epoch epoch() const { return Epoch(epoch_.load(std::memory_order_relaxed)); }
  // When the first and the last block, or confirmation of a block, arrived, by the node's clock;
  // TimePoint::min() before.
  [[nodiscard]] TimePoint first_byte() const { return read(first_byte_); }
  [[nodiscard]] TimePoint last_byte() const { return read(last_byte_); }

  // For the node, on its strand.
  void begin(Epoch epoch) { epoch_.store(epoch.value(), std::memory_order_relaxed); }
  void note_bytes(TimePoint now) {
    const Duration::rep at = now.time_since_epoch().count();
    if (first_byte() == TimePoint::min()) first_byte_.store(at, std::memory_order_relaxed);
    last_byte_.store(at, std::memory_order_relaxed);
  }

 private:
  using Moment = std::atomic<Duration::rep>;
  static TimePoint read(const Moment& moment) {
    return TimePoint(Duration(moment.load(std::memory_order_relaxed)));
  }

  const CollectiveId collective_;
  const OperationId operation_;
  const GroupCall call_;
  std::atomic<Epoch::value_type> epoch_{0};
  Moment first_byte_{Duration::min().count()};
  Moment last_byte_{Duration::min().count()};
};

}  // namespace square
