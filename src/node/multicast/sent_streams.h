// What a source knows of the streams that it sends on, and of who receives.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "node/links/lossy_relays.h"
#include "node/links/outgoing_stream.h"
#include "node/messages/answers.h"
#include "node/multicast/block_set.h"
#include "node/multicast/cargo_frames.h"
#include "node/plan/installed_collective.h"
#include "square/clock.h"
#include "square/ids.h"

namespace square {

// Without news for this long, a source asks every destination what it has; each time
// without an answer it waits longer.
inline constexpr Duration kMinProbeWait = std::chrono::milliseconds(250);
inline constexpr Duration kMaxProbeWait = std::chrono::seconds(1);

// At the end of an operation a slow stream may be passed over; not for longer than this.
inline constexpr Duration kPassOverTime = std::chrono::seconds(1);
// A stream is silent when nothing of what is under way on it was settled for so long, or for several times
// what a block takes, while other streams moved: some link further down holds it up. It is asked every
// kMaxProbeWait, however much the others have to say.
inline constexpr Duration kMinSilentTime = std::chrono::seconds(1);
inline constexpr Duration kMaxSilentTime = std::chrono::seconds(8);

namespace sending {

struct Assignment {
  std::uint64_t sequence;
  std::size_t block;
  TimePoint at{};
};

// A generation that a way has no room for yet.
struct Owed {
  std::uint64_t sequence;
  std::size_t first;  // block
  bool are_floats;    // as which the generation is coded
};

// A stream that begins at the source, and its first links.
struct Way {
  const LocalStream* local = nullptr;
  std::vector<std::shared_ptr<OutgoingStream>> hops{};  // one a child
  // Of a code with redundancy, which does not wait for all its ways; oldest first. What everybody has is
  // left out when its turn comes, so there are no more than of blocks that somebody lacks (kMaxSpreadBlocks).
  std::deque<Owed> owed{};

  template <typename Test>
  [[nodiscard]] bool all_hops(const Test& test) const {
    return std::ranges::all_of(hops, test);
  }
  [[nodiscard]] bool has_room() const;
  [[nodiscard]] bool has_sent(OperationId operation, std::uint64_t sequence) const;
  // As far as there is room; what is not needed any more is left out.
  void send_owed(const std::function<bool(const Owed&)>& is_needed, const CargoFrames& frames);
};

// What takes blocks: a tree, one at a time; or a code, a generation at a time, over all of its streams that
// begin here. The numbers of a code are those of generations.
struct Stream {
  std::vector<Way> ways;
  double rate_bps = 0;     // of the session's bytes
  std::size_t blocks = 1;  // that it takes at once
  const PlanCode* code = nullptr;
  bool is_spare = false;  // a code's tree: for what goes again
  std::uint64_t next_sequence = 1;
  double next_turn = 0;  // seconds of what it took at its rate, where it had room
  std::deque<Assignment> in_flight;
  TimePoint last_assignment{};
  std::uint64_t losses = 0;  // of its first links, as far as what was under way is sent again
  TimePoint moved_at{};      // something was settled, or nothing was under way
  TimePoint settled_at{};
  TimePoint probed_at{};
  TimePoint room_at{};  // there was room
  Duration least_patience = kMinSilentTime;
  Duration patience = kMinSilentTime;
  bool is_silent = false;
  std::uint64_t silent_from = 0;  // until all has been looked at that was sent up to here
  std::size_t told_bytes = 0;     // of what is under way, to its first links
  // Of a tree, by destination: the relays on the way. None of a code.
  std::vector<std::optional<RelayOnWay>> relays{};

  // The streams of a tree or a code are alike in what the plan says of all.
  [[nodiscard]] const LocalStream& local() const { return *ways.front().local; }
  // Calls `visit` with each first link's stream.
  template <typename Visit>
  void for_each_hop(const Visit& visit) const {
    for (const Way& way : ways) std::ranges::for_each(way.hops, visit);
  }
  template <typename Test>
  [[nodiscard]] bool all_hops(const Test& test) const {
    return std::ranges::all_of(ways, [&](const Way& way) { return way.all_hops(test); });
  }
  // So many of the ways to a destination may fail.
  [[nodiscard]] std::size_t redundancy() const { return code == nullptr ? 0 : code->redundancy; }
  // As many ways pass the test as it takes to bring everything to everybody.
  template <typename Test>
  [[nodiscard]] bool enough_ways(const Test& test) const {
    std::vector<StreamIndex> failing;
    for (const Way& way : ways) {
      if (!test(way)) failing.push_back(way.local->key.stream);
    }
    return can_do_without(failing);
  }
  [[nodiscard]] bool can_do_without(const std::vector<StreamIndex>& failing) const;
  // All destinations have looked at everything up to `settled`. With redundancy a way may never tell: what
  // everybody has is settled, too.
  void forget_settled(std::uint64_t settled, const std::function<bool(std::size_t block)>& everyone_has,
                      TimePoint now);
  [[nodiscard]] std::vector<std::string> peers() const;
  // A block reaches everybody in so many times what it takes on its first link, at the most.
  [[nodiscard]] double delivery_links() const;
  // How long one is likely to take where nothing is before it.
  [[nodiscard]] double delivery_seconds(std::size_t block_bytes) const;
  [[nodiscard]] bool has_room() const;
  [[nodiscard]] bool is_usable() const;
  // Of this operation or of others, which share its room with it: when each first link sent a block of late.
  [[nodiscard]] TimePoint last_block_at() const;
  // Asks what has come of what was put on it.
  void probe(const CargoFrames& frames, TimePoint now);
  // Takes blocks, or did so of late: what helps it out is not needed.
  [[nodiscard]] bool is_moving(TimePoint now) const;
  // Until all has been looked at that was sent.
  void fall_silent();
  // Tells its first links how much this operation has under way. Before it goes: nothing.
  void tell_under_way(std::size_t block_bytes);
  // Of all operations, this one as it is now.
  [[nodiscard]] std::size_t under_way_bytes(std::size_t block_bytes) const;
  // Of one first link, that where most are in line.
  [[nodiscard]] std::size_t queued_blocks() const;
  [[nodiscard]] double seconds_per_block(std::size_t block_bytes) const;
  // What a block may take where nothing holds it up, as far as the plan tells.
  [[nodiscard]] Duration slow_delivery(std::size_t block_bytes) const;
};

// Blocks that an older plan made as large as a frame leave no room for what travels with a sum of a code.
bool has_room_for_sums(const Stream& stream, std::size_t block_bytes);

// Who takes the next block: streams take turns, in the proportion of their rates (as in fair queueing: Goyal
// et al., SIGCOMM 1996).
class Turns {
 public:
  // When the stream would be through with what it takes next, in seconds of streams at their rates.
  [[nodiscard]] static double end(const Stream& stream, std::size_t block_bytes);
  void take(Stream& stream, std::size_t block_bytes);
  // One that takes nothing now does not catch up later: what it could not take goes to the others.
  void miss(Stream& stream) const;

 private:
  double begin_ = 0;  // of the turn that was taken last
};

// Those of a session that begin here: its trees, then its codes.
std::vector<Stream> streams_from_here(
    const InstalledCollective& plan, SessionId session,
    const std::function<std::shared_ptr<OutgoingStream>(const std::string& child, const StreamKey& key)>&
        find_hop);

// How long the streams need for what is under way on them, as far as the plan tells; 0 where nothing is.
Duration time_under_way(const std::vector<Stream>& streams, std::size_t block_bytes);

// What a destination has looked at on one of a code's streams.
struct Seen {
  std::uint64_t sequence = 0;
  TimePoint moved_at{};
};

struct Destination {
  NodeId node;
  BlockSet have;
  bool done = false;
  bool accepting = true;
  TimePoint heard_at{};
  TimePoint accepting_since{};                // blocks that were sent before may have found no room
  std::vector<std::uint64_t> seen;            // by stream: has looked at everything up to here
  std::map<StreamIndex, Seen> seen_of_codes;  // by a code's own streams
  std::vector<std::uint64_t> checked;         // by stream: this side has looked for losses up to here

  // What it has and takes.
  void hear(const Acknowledgement& ack, TimePoint now);
  // Nothing is known of these streams.
  void begin(std::size_t streams);
};
std::vector<Destination> destinations_of(const PlanSession& session, std::size_t block_count);

// A destination has looked at everything on one stream of the session up to here. Of a code it has where it
// has on all of its streams; with redundancy, on all but so many that have stood still for longer than the
// code has patience, while others moved.
void note_seen(Destination& destination, const std::vector<Stream>& streams, const PlanSession& session,
               const Acknowledgement::Seen& seen, TimePoint now);

// All goes over codes with redundancy, and gets through over what is left of their ways.
bool outlive_losses(const std::vector<Stream>& streams, TimePoint now);

// Those that lack something: whether none takes anything, and whether one does not yet.
bool all_refuse(const std::vector<Destination>& destinations);
bool waits_for_calls(const std::vector<Destination>& destinations);

// Every destination has the block, or all; and the first that one lacks, or far beyond the last.
bool everyone_has(const std::vector<Destination>& destinations, std::size_t block);
std::size_t first_missing(const std::vector<Destination>& destinations);
// Whether some destination lacks one of the blocks from `first` up to `end`.
bool lacks_any(const std::vector<Destination>& destinations, std::size_t first, std::size_t end);
// On this stream all destinations have looked for losses up to here.
std::uint64_t settled_on(const std::vector<Stream>& streams, std::size_t stream,
                         const std::vector<Destination>& destinations);

// Those where something is under way, and the fastest of the others: by whatever way, an answer says what has
// come. Many operations that ask on a thin stream would leave it no room for blocks. All where nobody
// answered.
std::vector<Stream*> worth_asking(std::vector<Stream>& streams, bool was_answered);

// The operation has nothing under way on them any more, as the others are to know.
void close(std::vector<Stream>& streams);

// A tree of less rate whose last block still waits for its turn on each first link, or none. For a tree that
// has nothing in line: one block is no generation, and a generation does not move.
Stream* slower_that_waits(std::vector<Stream>& streams, const Stream& faster, OperationId operation);

// Of a destination that has left in order, and may have taken its last word along: it has everything.
std::optional<Acknowledgement> last_word_of_departed(const std::vector<Destination>& destinations,
                                                     const InstalledCollective& plan, OperationId operation,
                                                     const Departures& departures);

// Names those that do not have everything, and how much they have.
std::string describe_missing(const std::vector<Destination>& destinations, const InstalledCollective& plan);

// Whether others go on while nothing of what is under way on the stream gets anywhere. One with nothing to do
// is as good where every destination was heard since.
bool do_others_move(const std::vector<Stream>& streams, const std::vector<Destination>& destinations,
                    const Stream& stream, TimePoint now);

// What is left to do, and when that is asked.
struct Rest {
  std::size_t blocks = 0;        // that are on no stream
  std::size_t bytes_before = 0;  // of earlier operations, which are to go first
  std::size_t block_bytes = 0;
  bool is_again = false;  // they were lost, so that codes do not take them
  TimePoint now{};
};
// Would the faster streams be through with all that is left, and what earlier operations have left, before
// this one has delivered one more block? Then that block would hold up the end of the operation.
bool is_too_slow(const std::vector<Stream>& streams, const Stream& stream, const Rest& rest);

struct LastAssignment {
  std::size_t stream = 0;
  std::uint64_t sequence = 0;  // 0: not on any stream of this plan
};

}  // namespace sending
}  // namespace square
