// What the parts of a node share. Used on the node's strand only, but for `landing`, `heard` and
// `measured`.
//
// The rule for lifetimes, for all of src/node: every part has one owner, and is made and destroyed on
// the strand, or after the executor has stopped. What runs later (a task that is posted, a timer, the
// end of payload work) owns no part. It is bound to the part that it calls, with a member
// `Lifetime life_` and `life_.bind(task)`, and does nothing once the part is gone; so the order in which
// a node's parts and an executor's tasks go does not matter. What payload work reads and writes it
// owns, or the operation does not end before that work has said on the strand that it is done. A part
// whose task may let go of it (an operation that ends by a timer) is kept by who calls out, until the
// call is over. Slots of windows (IncomingStream::take) own their stream, never the link.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "base/seldom.h"
#include "node/audit/auditor.h"
#include "node/landing/landing.h"
#include "node/links/departures.h"
#include "node/links/heard_peers.h"
#include "node/links/lossy_relays.h"
#include "node/links/measured_links.h"
#include "node/links/tick.h"
#include "node/multicast/backlog.h"
#include "node/plan/installed_collective.h"
#include "node/traffic_meter.h"
#include "square/clock.h"
#include "square/data_plane.h"
#include "square/executor.h"
#include "square/transport.h"

namespace square {

struct NodeContext {
  DataPlaneOptions options;
  const Clock& clock;
  Transport& transport;
  Executor& executor;
  NodeStatistics statistics{};
  TrafficMeter traffic{options.name};
  LandingTable landing{};
  HeardPeers heard{};
  Departures departures{};
  MeasuredLinks measured{};
  Auditor auditor{clock, executor};
  LossyRelays lossy{options.name, clock, executor};
  Backlog backlog{};
  // Nothing is begun any more.
  bool is_stopping = false;
  // Blocks leave at multiples of it (links/tick.h).
  Duration pace_tick = kPaceTick;
  // Bytes of blocks that wait for a local member; at most hold_limit_bytes.
  std::size_t held_bytes = 0;
  std::size_t hold_limit_bytes = 0;
  std::map<std::string, std::size_t, std::less<>> held_by_tenant{};
  Seldom wrong_generations{};
  TimePoint forged_said_at{};  // when it was said last; since then so many came:
  std::uint64_t forged_unsaid = 0;

  // A frame that nobody can place: dropped and counted.
  void refuse_frame() { ++statistics.frames_refused; }
  // What `from` passed on is not what `source` has sealed: dropped, counted and said, once in a while.
  void refuse_forged(std::string_view from, const std::string& source, const std::string& what);
  void add_in_transit(SessionTally& session, std::size_t bytes) {
    session.on_taken(bytes);
    statistics.bytes_in_transit += bytes;
    statistics.bytes_in_transit_max = std::max(statistics.bytes_in_transit_max, statistics.bytes_in_transit);
  }
  void remove_in_transit(SessionTally& session, std::size_t bytes) {
    session.on_released(bytes);
    statistics.bytes_in_transit -= bytes;
  }
  // A tenant may hold no more than what is still free (dynamic thresholds; Choudhury and
  // Hahne, IEEE/ACM Transactions on Networking, 1998): one alone half of the limit, and some
  // always stays for who comes next, however many members of others are absent.
  [[nodiscard]] bool may_hold(const std::string& tenant, std::size_t bytes) const {
    const auto own = held_by_tenant.find(tenant);
    const std::size_t held = own == held_by_tenant.end() ? 0 : own->second;
    return held + bytes <= hold_limit_bytes - std::min(hold_limit_bytes, held_bytes);
  }
  void add_held(SessionId session, const std::string& tenant, std::size_t bytes) {
    traffic.session(session)->on_held(bytes);
    held_bytes += bytes;
    held_by_tenant[tenant] += bytes;
  }
  void remove_held(SessionId session, const std::string& tenant, std::size_t bytes) {
    traffic.session(session)->on_let_go(bytes);
    held_bytes -= bytes;
    const auto own = held_by_tenant.find(tenant);
    if (own == held_by_tenant.end()) return;  // of blocks without bytes, the first to go
    own->second -= bytes;
    if (own->second == 0) held_by_tenant.erase(own);
  }
  // A source gave a block that was lost to these neighbours again.
  void add_resent(SessionId session, const std::vector<std::string>& peers) {
    traffic.on_resent(peers, session);
    ++statistics.blocks_resent;
  }
  void add_delivered(SessionId session, std::size_t bytes) {
    traffic.session(session)->on_delivered(bytes);
    statistics.bytes_delivered += bytes;
  }
};

}  // namespace square
