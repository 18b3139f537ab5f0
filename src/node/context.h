// What the parts of a node share. Everything in it is used on the node's strand only.
#pragma once

#include <functional>
#include <string>

#include "node/installed_plan.h"
#include "square/clock.h"
#include "square/executor.h"
#include "square/node.h"
#include "square/transport.h"

namespace square {

struct NodeContext {
  NodeOptions options;
  const Clock& clock;
  Transport& transport;
  Executor& executor;
  NodeStatistics statistics{};
  // Bytes of blocks that wait for a local member; at most hold_limit_bytes.
  std::size_t held_bytes = 0;
  std::size_t hold_limit_bytes = 0;

  void add_in_transit(std::size_t bytes) {
    statistics.bytes_in_transit += bytes;
    statistics.bytes_in_transit_max = std::max(statistics.bytes_in_transit_max, statistics.bytes_in_transit);
  }
  void remove_in_transit(std::size_t bytes) { statistics.bytes_in_transit -= bytes; }
};

}  // namespace square
