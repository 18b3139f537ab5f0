// How long a node may let what comes in wait, so that more comes with it.
#pragma once

#include <cstddef>
#include <map>

#include "node/context.h"
#include "node/lifetime.h"
#include "node/operations/operation_key.h"
#include "node/plan/installed_plan.h"

namespace square {

// A wake-up costs more than a block, and over slow links every packet is one. Who waits for a long
// operation does not see a wait at every hop that is this part of its planned time. More is not
// gathered than this on the fastest link, where batches are large by themselves, and waits under the
// least bring no more with them than they cost.
inline constexpr double kPatiencePart = 0.004;
inline constexpr double kGatheredBytes = 64 << 10;
inline constexpr Duration kLeastPatience = std::chrono::milliseconds(2);
inline constexpr Duration kMostPatience = std::chrono::milliseconds(8);
// Blocks of operations without members here may be of short ones: for so long after one nothing waits.
inline constexpr Duration kRelayedTime = std::chrono::milliseconds(100);

// That of an operation on so many bytes that runs alone. 0 where a link that the node uses has no limit.
Duration patience_of(const InstalledPlan& plan, CollectiveId collective, std::size_t bytes);

// Has the transport wait as the least patient of a node's operations allows. Not at all while none runs,
// or one that no member here has called yet. Used on the node's strand.
class Patience {
 public:
  explicit Patience(NodeContext& node) : node_(node) {}

  void begin(const OperationKey& key) { set(key, Duration(0)); }
  void set(const OperationKey& key, Duration patience);
  void end(const OperationKey& key);
  // A block came that this node only passes on. Cheap.
  void on_relayed();

 private:
  void remove(const OperationKey& key);
  void tell();
  void tell_again_at(TimePoint when);

  NodeContext& node_;
  std::map<OperationKey, Duration> known_;
  std::map<Duration, std::size_t> counts_;
  Duration told_{0};
  TimePoint relays_until_{};
  bool is_waiting_ = false;  // to tell again
  Lifetime life_;
};

}  // namespace square
