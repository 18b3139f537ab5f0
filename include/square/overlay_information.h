// What any process may ask the controller of an overlay: its links, its nodes, and how they are.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "square/controller.h"
#include "square/identity.h"
#include "square/ids.h"
#include "square/link_report.h"
#include "square/status.h"
#include "square/topology.h"

namespace square {

// What is known of a link of an overlay.
struct LinkInformation {
  struct Point {
    double system_seconds = 0;  // since the epoch of the controller's system clock
    double capacity_bps = 0;
    bool is_probed = false;
  };
  std::string from;
  std::string to;
  LinkProperties given;  // by the topology
  double planned_bps = kUnlimited;
  LinkReport measured;         // capacity 0: not measured
  Duration age{0};             // of that capacity
  std::vector<Point> history;  // the oldest first
};

struct OverlayInformation {
  Topology topology;  // as it was given
  std::vector<LinkInformation> links;
};

// The topology of the controller at that address, and what was measured of its links. Blocks for `timeout` at
// most. Errors: UNAVAILABLE, UNAUTHENTICATED, DEADLINE_EXCEEDED.
Result<OverlayInformation> list_links(const std::string& controller_address,
                                      const std::shared_ptr<Identity>& identity, Duration timeout);

// The nodes of an overlay and whether they are connected, as its controller knows them; any process
// may ask. Blocks for `timeout` at most. Thread-safe. Errors: INVALID_ARGUMENT for an address that is
// none, UNAVAILABLE if no controller answers there, UNAUTHENTICATED for who is not believed,
// DEADLINE_EXCEEDED.
Result<std::vector<NodeInformation>> list_nodes(const std::string& controller_address,
                                                const std::shared_ptr<Identity>& identity, Duration timeout);

// A node as its controller and the node itself see it.
struct ExaminedNode {
  std::string name;
  std::string address;  // as it advertises it
  bool connected = false;
  bool answered = false;
  std::vector<std::string> peers;  // that it was asked to reach
  // How far its wall clock is ahead of the controller's, and how wrong that may be at the most.
  Duration clock_ahead{0};
  Duration clock_doubt{0};
  std::string report_json;  // empty where it did not answer
};

// Neighbours that differ about blocks which went from the one to the other: one of them changes blocks, or
// lies.
struct Suspicion {
  std::string from;
  std::string to;
  std::uint64_t count = 0;  // of blocks
  SessionId session;        // of the last
  double seconds = 0;       // when that was, since 1970
};

struct Examination {
  std::string version;  // of the controller
  std::uint32_t control_protocol = 0;
  std::vector<ExaminedNode> nodes;      // of the topology, there or not, then the others
  std::vector<Suspicion> suspicions{};  // since the controller began; the most frequent first
};

// Has every node of an overlay look at itself and try to reach its peers; docs/doctor.md says what they tell.
// Any process may ask. Blocks for `timeout` and a second at most; nodes that have not answered by then are
// marked. Thread-safe. Errors: as list_nodes(), and UNIMPLEMENTED where what answers is no controller of this
// release, RESOURCE_EXHAUSTED while many others ask.
Result<Examination> examine(const std::string& controller_address, const std::shared_ptr<Identity>& identity,
                            Duration timeout);

}  // namespace square
