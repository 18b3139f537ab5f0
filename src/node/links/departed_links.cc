#include "node/links/departed_links.h"

#include <utility>

namespace square {

void DepartedLinks::set_plan(std::shared_ptr<const Plan> plan) {
  plan_ = std::move(plan);
  for (const auto& [peer, link] : links_) look_at(peer);
}

void DepartedLinks::begin(const std::string& peer) {
  look_at(peer);
  node_.executor.post_at(node_.clock.now() + kLeaveGrace, life_.bind([this, peer] {
    if (!node_.departures.left_in_order(peer) || takes_nothing(peer)) return;
    node_.departures.end_grace(peer);
    give_up_(peer);
  }));
}

bool DepartedLinks::takes_nothing(const std::string& peer) const {
  if (!plan_ || !node_.departures.left_in_order(peer)) return false;
  const std::optional<NodeId> node = plan_->find_node(peer);
  return node && !plan_->nodes[node->index()].relays;
}

void DepartedLinks::look_at(const std::string& peer) {
  const auto link = links_.find(peer);
  if (link != links_.end()) link->second->set_departed(takes_nothing(peer));
}

}  // namespace square
