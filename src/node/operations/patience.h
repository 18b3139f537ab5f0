// How long a node may let what comes in wait, so that more comes with it.
#pragma once

#include <cstddef>
#include <map>

#include "node/operations/operation_key.h"
#include "node/plan/installed_plan.h"
#include "square/transport.h"

namespace square {

// A wake-up costs more than a block, and over slow links every packet is one. Who waits for a long
// operation does not see a wait at every hop that is this part of its planned time. More is not
// gathered than this on the fastest link, where batches are large by themselves, and waits under the
// least bring no more with them than they cost.
inline constexpr double kPatiencePart = 0.004;
inline constexpr double kGatheredBytes = 64 << 10;
inline constexpr Duration kLeastPatience = std::chrono::milliseconds(2);
inline constexpr Duration kMostPatience = std::chrono::milliseconds(8);

// That of an operation on so many bytes that runs alone. 0 where a link that the node uses has no limit.
Duration patience_of(const InstalledPlan& plan, CollectiveId collective, std::size_t bytes);

// Has the transport wait as the least patient of a node's operations allows. Not at all while none runs,
// or one that no member here has called yet. Used on the node's strand.
class Patience {
 public:
  explicit Patience(Transport& transport) : transport_(transport) {}

  void begin(const OperationKey& key) { set(key, Duration(0)); }
  void set(const OperationKey& key, Duration patience);
  void end(const OperationKey& key);

 private:
  void remove(const OperationKey& key);
  void tell();

  Transport& transport_;
  std::map<OperationKey, Duration> known_;
  std::map<Duration, std::size_t> counts_;
  Duration told_{0};
};

}  // namespace square
