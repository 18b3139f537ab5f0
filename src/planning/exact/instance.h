// What the policy "exact" solves: who needs which trees, and what there is to carry them.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "planning/packing/digraph.h"
#include "planning/problem/problem.h"
#include "square/clock.h"
#include "square/ids.h"

namespace square::planning {

// The links that a demand may use. Its arcs run away from the root: those of a reduce are
// the links turned round.
struct DemandGraph {
  Digraph graph{0};
  std::vector<int> link;        // by arc: the LinkId's index
  std::vector<double> latency;  // by arc: nanoseconds, so that sums are exact
};

// What one session needs, as a multicast: a tree from the root over the terminals.
struct Demand {
  bool reversed = false;
  int root = 0;
  std::vector<int> terminals;
  bool spanning = false;  // every node is the root or a terminal
  std::shared_ptr<const DemandGraph> graph;
  // By terminal: how long the way from the root may take, in nanoseconds; empty: no
  // bounds.
  std::vector<double> max_latency;
  // So many of each terminal's ways may be lost, whichever: as many as were asked for, or fewer where the
  // overlay has no more ways. 0: trees.
  int redundancy = 0;
  int most_ways = 1;  // with redundancy: that all terminals have, see independent_way_count()
};

// A part of a group: `fraction` times its rate is what each demand needs.
struct Alternative {
  std::vector<std::size_t> demands;
  std::vector<double> fractions;
};

// A collective. The rates of its alternatives sum to its rate g. Most have one; a planned
// all-reduce has one for each root that its tensor can be shared over.
struct Group {
  double weight = 1.0;
  std::vector<Alternative> alternatives;  // none: it sends nothing
};

struct Instance {
  const Problem* problem = nullptr;
  Network network;
  std::vector<NodeId> tail;  // by link
  std::vector<NodeId> head;
  std::vector<double> latency;                // nanoseconds
  std::vector<double> price;                  // US dollars an hour for a bit per second
  std::optional<double> budget_usd_per_hour;  // for all traffic together
  std::optional<TimePoint> deadline;          // when to stop solving
  std::vector<Demand> demands;                // by session
  std::vector<Group> groups;                  // by collective

  [[nodiscard]] bool is_late() const { return deadline.has_value() && steady_clock().now() >= *deadline; }
  [[nodiscard]] std::size_t link_count() const { return tail.size(); }
  [[nodiscard]] std::size_t node_count() const { return network.egress_bps.size(); }
};

// `problem.network` is what may be used; it must outlive the instance. Errors:
// FAILED_PRECONDITION naming collective, root and member where no way is left between
// them, or none within the latency bound.
Result<Instance> make_instance(const Problem& problem);

}  // namespace square::planning
