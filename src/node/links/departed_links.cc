#include "node/links/departed_links.h"

#include <utility>

namespace square {

void DepartedLinks::set_plan(std::shared_ptr<const Plan> plan) {
  plan_ = std::move(plan);
  for (auto& [peer, grace] : departed_) look_at(peer, grace);
}

void DepartedLinks::begin(const std::string& peer) { look_at(peer, departed_[peer]); }

void DepartedLinks::forget(const std::string& peer) {
  node_.departures.forget(peer);
  const auto departed = departed_.find(peer);
  if (departed == departed_.end()) return;
  look_at(peer, departed->second);
  node_.executor.cancel(departed->second);
  departed_.erase(departed);
}

bool DepartedLinks::takes_nothing(const std::string& peer) const {
  if (!plan_ || !node_.departures.left_in_order(peer)) return false;
  const std::optional<NodeId> node = plan_->find_node(peer);
  return node && !plan_->nodes[node->index()].relays;
}

void DepartedLinks::look_at(const std::string& peer, Executor::TimerId& grace) {
  const bool is_passed_by = takes_nothing(peer);
  const auto link = links_.find(peer);
  if (link != links_.end()) link->second->set_departed(is_passed_by);
  if (is_passed_by) {
    node_.executor.cancel(std::exchange(grace, 0));
  } else if (grace == 0) {
    grace = node_.executor.post_at(node_.clock.now() + kLeaveGrace,
                                   life_.bind([this, peer] { end_grace(peer); }));
  }
}

void DepartedLinks::end_grace(const std::string& peer) {
  departed_.erase(peer);
  node_.departures.end_grace(peer);
  give_up_(peer);
}

}  // namespace square
