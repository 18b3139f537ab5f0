#include "controller/open_overlay.h"

#include <fmt/format.h>

#include <utility>

#include "base/log.h"
#include "controller/overlay_change.h"

namespace square::controller {

Status OpenOverlay::check_room(std::size_t nodes) {
  if (nodes < kMaxMeshedNodes) return {};
  return resource_exhausted(fmt::format(
      "there are {} nodes already; start the controller with a topology for more", kMaxMeshedNodes));
}

void OpenOverlay::join(const std::string& node, const Topology& topology) {
  left_.erase(node);
  if (!topology.find_node(node) || gone_.contains(node)) arrivals_.insert(node);
}

void OpenOverlay::leave(const std::string& node) {
  arrivals_.erase(node);
  left_.insert(node);
}

bool OpenOverlay::update(PlanningState& state) {
  std::set<std::string> gone;
  for (const std::string& name : left_) {
    if (state.topology.find_node(name) && !state.registry.uses(name)) gone.insert(name);
  }
  if (arrivals_.empty() && gone == gone_) return false;
  auto meshed = remesh(state.topology, arrivals_, gone);
  arrivals_.clear();
  if (!meshed.is_ok()) {
    log(LogLevel::kError, "controller", "cannot add nodes to the overlay: {}", meshed.status().to_string());
    return false;
  }
  state.topology = std::move(*meshed);
  gone_ = std::move(gone);
  return !state.registry.is_empty();
}

}  // namespace square::controller
