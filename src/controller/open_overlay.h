// An overlay without a scenario: its topology is made of the nodes that join.
#pragma once

#include <set>
#include <string>

#include "controller/admission.h"
#include "square/topology.h"

namespace square::controller {

// Nodes of an overlay without a topology: they are fully meshed, so links grow as the square.
inline constexpr std::size_t kMaxMeshedNodes = 2'000;

// Keeps who came and who left until the topology follows, at the next plan. A node that left keeps
// its links while a group has it as a member, and its id for ever. Not thread-safe.
class OpenOverlay {
 public:
  // For one node more than `nodes`. Errors: RESOURCE_EXHAUSTED.
  static Status check_room(std::size_t nodes);

  // `topology` as update() left it.
  void join(const std::string& node, const Topology& topology);
  void leave(const std::string& node);

  // Adds to the state's topology who came, and takes the links of those that left. Returns whether a new
  // plan is due.
  bool update(PlanningState& state);

  // Those that left, and have no links any more.
  [[nodiscard]] const std::set<std::string>& gone() const { return gone_; }
  // It is one of them.
  [[nodiscard]] bool is_gone(const std::string& node) const { return gone_.contains(node); }

 private:
  std::set<std::string> arrivals_;  // not in the topology yet
  std::set<std::string> left_;
  std::set<std::string> gone_;  // of those left, the ones without links
};

}  // namespace square::controller
