// What a source knows of the streams that it sends on, and of who receives.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "node/links/outgoing_stream.h"
#include "node/multicast/block_set.h"
#include "node/plan/installed_collective.h"
#include "square/clock.h"
#include "square/ids.h"

namespace square {

// A stream is silent when nothing of what is under way on it was settled for so long, or for several times
// what a block takes, while other streams moved: some link further down holds it up. It is asked every
// kMaxProbeWait, however much the others have to say.
inline constexpr Duration kMinSilentTime = std::chrono::seconds(1);
inline constexpr Duration kMaxSilentTime = std::chrono::seconds(8);

namespace sending {

// A block reaches everybody in about so many times what it takes on its first link.
double delivery_links(const LocalStream& stream);

struct Assignment {
  std::uint64_t sequence;
  std::size_t block;
  TimePoint at{};
};

struct Stream {
  const LocalStream* local;
  std::vector<std::shared_ptr<OutgoingStream>> hops;  // one a child
  std::uint64_t next_sequence = 1;
  std::deque<Assignment> in_flight;
  TimePoint last_assignment{};
  std::uint64_t losses = 0;  // of its first links, as far as what was under way is sent again
  TimePoint moved_at{};      // something was settled, or nothing was under way
  TimePoint settled_at{};
  TimePoint probed_at{};
  Duration least_patience = kMinSilentTime;
  Duration patience = kMinSilentTime;
  bool is_silent = false;
  std::uint64_t silent_from = 0;  // until all has been looked at that was sent up to here

  [[nodiscard]] bool has_room() const;
  [[nodiscard]] bool is_usable() const;
  // Of one first link, that where most are in line.
  [[nodiscard]] std::size_t queued_blocks() const;
  [[nodiscard]] double seconds_per_block(std::size_t block_bytes) const;
  // What a block may take where nothing holds it up, as far as the plan tells.
  [[nodiscard]] Duration slow_delivery(std::size_t block_bytes) const;
};

// How long the streams need for what is under way on them, as far as the plan tells; 0 where nothing is.
Duration time_under_way(const std::vector<Stream>& streams, std::size_t block_bytes);

struct Destination {
  NodeId node;
  BlockSet have;
  bool done = false;
  bool accepting = true;
  TimePoint heard_at{};
  std::vector<std::uint64_t> seen;     // by stream: has looked at everything up to here
  std::vector<std::uint64_t> checked;  // by stream: this side has looked for losses up to here
};

struct LastAssignment {
  std::size_t stream = 0;
  std::uint64_t sequence = 0;  // 0: not on any stream of this plan
};

}  // namespace sending
}  // namespace square
