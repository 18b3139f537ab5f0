// How long a node may let what comes in wait, so that more comes with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "node/context.h"
#include "node/lifetime.h"
#include "node/operations/operation_key.h"
#include "node/plan/installed_collective.h"

namespace square {

// A wake-up costs more than a block, and over slow links every packet is one. Who waits for a long
// operation does not see a wait at every hop that is this part of its planned time. More is not
// gathered than this on the fastest link, where batches are large by themselves, and waits under the
// least bring no more with them than they cost.
inline constexpr double kPatiencePart = 0.004;
inline constexpr double kGatheredBytes = 64 << 10;
inline constexpr Duration kLeastPatience = std::chrono::milliseconds(2);
inline constexpr Duration kMostPatience = std::chrono::milliseconds(8);
inline constexpr Duration kPatienceStep = std::chrono::microseconds(500);  // finer, ticks never settle
// Blocks of operations without members here may be of short ones: for so long after one nothing waits.
inline constexpr Duration kRelayedTime = std::chrono::milliseconds(100);
// So often a node looks how fast its operations really are: of capacity that others leave they may get
// many times what was planned, and windows, made for the planned rate, would be empty before the wait is
// over.
inline constexpr Duration kHasteTime = std::chrono::milliseconds(50);
inline constexpr Duration kLongestHasteTime = 10 * kHasteTime;  // a longer one says nothing: none ran

// Of an operation on so many bytes, if it runs alone at the planned rate.
struct PlannedPace {
  Duration patience{0};  // 0 where a link that the node uses has no limit
  double load_bps = 0;   // what the node sends and receives for it
  std::vector<SessionId> sessions{};
};
// `fastest_link_bps`: of the links that the node uses.
PlannedPace pace_of(const InstalledCollective& collective, double fastest_link_bps, std::size_t bytes);

// Has the transport wait as the least patient of a node's operations allows, and the less the more the
// fastest of its collectives runs ahead of its plan. Not at all while none runs, or one that no member here
// has called yet. Used on the node's strand.
class Patience {
 public:
  explicit Patience(NodeContext& node) : node_(node) {}

  void begin(const OperationKey& key) { set(key, {}); }
  void set(const OperationKey& key, const PlannedPace& pace);
  void end(const OperationKey& key);
  // A frame came. Cheap, as the next one.
  void on_frame();
  // A block came that this node only passes on.
  void on_relayed();

 private:
  // What a collective's operations share: its rate.
  struct Collective {
    PlannedPace pace;
    std::size_t operations = 0;
    TimePoint since{};
    std::uint64_t moved = 0;  // bytes, until then
  };

  void remove(const OperationKey& key);
  void tell();
  void tell_again_at(TimePoint when);
  bool look(TimePoint now);  // whether it was time to
  void measure_haste(TimePoint now);
  [[nodiscard]] std::uint64_t moved_bytes(const PlannedPace& pace) const;

  NodeContext& node_;
  std::map<OperationKey, Duration> known_;
  std::map<Duration, std::size_t> counts_;
  // Those that rest are forgotten at the next look: between short operations of one nothing is lost.
  std::map<CollectiveId, Collective> collectives_;
  double haste_ = 1;  // of one of them: how many times its planned load went by lately
  TimePoint looked_at_{};
  Duration told_{0};
  TimePoint relays_until_{};
  bool is_waiting_ = false;  // to tell again
  Lifetime life_;
};

}  // namespace square
