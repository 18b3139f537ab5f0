// What a source sees of the relays between it and its destinations: what they lose, hold back, or pass on.
#pragma once

#include <cstddef>
#include <vector>

#include "node/links/lossy_relays.h"
#include "node/multicast/sent_streams.h"
#include "node/plan/installed_collective.h"
#include "square/clock.h"
#include "square/ids.h"

namespace square::sending {

// Fills the stream's relays: of a tree by destination, none of a code.
void find_relays(Stream& stream, const std::vector<Destination>& destinations,
                 const InstalledCollective& plan, SessionId session);

// Blocks of one stream that a destination lost or got, as far as they can tell of a relay.
class RelayedBlocks {
 public:
  // Blocks that were sent before the destination accepted any do not count: they may have found no room.
  void note(const Destination& destination, const Assignment& assignment, bool is_lost);
  // `place` is the destination's.
  void report(const Stream& stream, std::size_t place, LossyRelays& lossy) const;

 private:
  std::size_t lost_ = 0;
  std::size_t passed_ = 0;
};

// Over the stream, which has this index, some destinations do not get what was sent up to `oldest`, though
// they were heard since: the relays on their ways are silent. Where there is none, or the stream's first link
// is down or silent, it is not their fault.
void blame_relays(const Stream& stream, std::size_t index, const std::vector<Destination>& destinations,
                  const Assignment& oldest, LossyRelays& lossy);

// Relays that take nothing more, for nothing leaves them, although all destinations behind them are heard and
// take blocks.
void find_full_relays(const std::vector<Stream>& streams, const std::vector<Destination>& destinations,
                      TimePoint now, LossyRelays& lossy);

// Something was settled on the stream: its relays pass blocks on.
void note_moves(const Stream& stream, const std::vector<Destination>& destinations, LossyRelays& lossy);

}  // namespace square::sending
