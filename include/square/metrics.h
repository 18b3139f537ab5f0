// What a node has carried, and what it was planned to carry: a snapshot for monitoring.
//
// Counters only grow, over changes of plan too; a session, tenant or neighbour that was
// away for long may start at 0 again (kMaxDepartedCounters). Bytes are payload unless said
// otherwise.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "square/data_plane.h"
#include "square/link_report.h"

namespace square {

// Of sessions, tenants and neighbours that are in no live plan any more, a node remembers
// the counters of this many each, those that left last.
inline constexpr std::size_t kMaxDepartedCounters = 1'024;

enum class LinkDirection {
  kOut,  // from this node to the peer
  kIn,   // from the peer to this node
};
std::string_view to_string(LinkDirection direction);

// One of this node's links in a live plan, or one that is still up.
struct LinkMetrics {
  std::string peer;
  LinkDirection direction = LinkDirection::kOut;
  bool is_up = false;
  std::uint64_t bytes = 0;
  std::uint64_t blocks = 0;
  // Blocks among them that this node, as a source, sent again after a loss. Out only.
  std::uint64_t blocks_resent = 0;
  // With headers, as a kernel's shaper counts them; out with this node's answers to what
  // comes from the peer, which share the link.
  std::uint64_t wire_bytes = 0;
  // Of the active plan; infinite where a link has no limit.
  double capacity_bps = 0;
  double planned_bps = 0;
  // What the pacer lets through; infinite if it does not pace. Out only.
  double pace_bps = 0;
  // Waiting to be sent. Out only.
  std::uint64_t queue_blocks = 0;
  std::uint64_t queue_bytes = 0;
  // As the transport measured it last; nothing if it did not.
  std::optional<Duration> round_trip;
  // Connections that carry the link; 0 while it is down.
  std::uint32_t channels = 0;
};

// One session of a live plan that has this node in one of its streams, or as a member.
struct SessionMetrics {
  SessionId id;
  CollectiveId collective;
  std::string tenant;
  SessionKind kind = SessionKind::kMulticast;
  // Of the active plan, 0 if the session is not in it: the session's rate, and what its
  // streams put on this node's links in each direction.
  double planned_bps = 0;
  double planned_sent_bps = 0;
  double planned_received_bps = 0;
  std::uint64_t bytes_sent = 0;       // over all links, relayed ones included
  std::uint64_t bytes_received = 0;   // over all links
  std::uint64_t bytes_delivered = 0;  // into members' buffers
  std::uint64_t blocks_sent = 0;
  std::uint64_t blocks_received = 0;
  std::uint64_t blocks_resent = 0;  // by this node as a source, after a loss
  std::uint64_t queue_blocks = 0;   // waiting to be sent
  std::uint64_t queue_bytes = 0;
};

// One tenant, over all its sessions here, past ones included.
struct TenantMetrics {
  std::string name;
  // Of the active plan: over the tenant's collectives anywhere, and over its sessions on
  // this node's links.
  double planned_bps = 0;
  double planned_sent_bps = 0;
  double planned_received_bps = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t bytes_delivered = 0;
  std::uint64_t blocks_resent = 0;
  // Right now: blocks from others that occupy granted credit, and blocks that wait for a
  // member here to call its operation.
  std::uint64_t bytes_in_transit = 0;
  std::uint64_t bytes_held = 0;
};

struct NodeMetrics {
  std::string node;
  std::optional<Epoch> epoch;  // of the active plan
  NodeStatistics totals;
  std::vector<LinkMetrics> links;        // by peer, out before in
  std::vector<SessionMetrics> sessions;  // by id
  std::vector<TenantMetrics> tenants;    // by name
  LinkTroubles troubles;                 // right now
};

}  // namespace square
