#include "node/plan/installed_plan.h"

#include <algorithm>

#include "base/plan/lifeline.h"

namespace square {
namespace {

NodeNames names_of(const Plan& plan, const NodeNames& before) {
  const auto is_same = [](const PlanNode& node, const std::string& name) { return node.name == name; };
  if (before && std::ranges::equal(plan.nodes, *before, is_same)) return before;
  std::vector<std::string> names;
  for (const PlanNode& node : plan.nodes) names.push_back(node.name);
  return std::make_shared<const std::vector<std::string>>(std::move(names));
}

}  // namespace

InstalledPlan::InstalledPlan(std::shared_ptr<const Plan> plan, const std::string& self,
                             std::size_t window_bytes, const InstalledPlan* base,
                             const std::vector<const InstalledPlan*>& others)
    : plan_(plan->part ? std::move(plan) : with_lifelines(plan)), self_(plan_->find_node(self)) {
  names_ = names_of(*plan_, base == nullptr ? nullptr : base->names_);
  share(base, others);
  add_collectives();
  if (!self_) return;
  note_links();
  fit(window_bytes, base);
}

// What has not changed since a plan that is not newer than the other is in it as it is.
void InstalledPlan::share(const InstalledPlan* base, const std::vector<const InstalledPlan*>& others) {
  const auto part_in = [this](const InstalledPlan* other, const PlanCollective& planned) -> const Part* {
    if (other == nullptr || other->plan_->origin != plan_->origin || other->self_ != self_) return nullptr;
    const Part* const part = planned.since ? other->part_of(planned.id) : nullptr;
    return part != nullptr && part->collective->epoch() == *planned.since ? part : nullptr;
  };
  parts_.reserve(plan_->collectives.size());
  for (const PlanCollective& planned : plan_->collectives) {
    if (const Part* const before = part_in(base, planned)) {
      parts_.push_back(*before);
      continue;
    }
    for (const InstalledPlan* const other : others) {
      const Part* const before = part_in(other, planned);
      if (before == nullptr) continue;
      parts_.push_back({before->collective, nullptr});  // its links may be others
      break;
    }
  }
  std::ranges::sort(parts_, {}, [](const Part& part) { return part.collective->id(); });
}

void InstalledPlan::add_collectives() {
  std::map<CollectiveId, std::vector<InstalledCollective::Session>> fresh;
  for (const PlanCollective& planned : plan_->collectives) {
    if (part_of(planned.id) == nullptr) fresh.try_emplace(planned.id);
  }
  if (fresh.empty()) return;
  const std::vector<double> limits = plan_->part ? std::vector<double>() : block_limits(*plan_);
  for (std::size_t i = 0; i < plan_->sessions.size(); ++i) {
    const PlanSession& session = plan_->sessions[i];
    const auto found = fresh.find(session.collective);
    if (found == fresh.end()) continue;
    found->second.push_back({&session, plan_->part ? session.block_limit_bytes : limits[i]});
  }
  const PlanFrame frame(*plan_, names_, self_);
  for (const PlanCollective& planned : plan_->collectives) {
    const auto found = fresh.find(planned.id);
    if (found == fresh.end()) continue;
    parts_.push_back({std::make_shared<const InstalledCollective>(frame, planned, found->second), nullptr});
  }
  std::ranges::sort(parts_, {}, [](const Part& part) { return part.collective->id(); });
}

void InstalledPlan::note_links() {
  const std::vector<double> paces = plan_->part ? std::vector<double>() : link_paces(*plan_);
  for (std::size_t i = 0; i < plan_->links.size(); ++i) {
    const PlanLink& link = plan_->links[i];
    if (link.from != *self_ && link.to != *self_) continue;
    paces_.insert_or_assign({link.from, link.to}, plan_->part ? link.pace_bps : paces[i]);
    if (link.to == *self_)
      links_in_.emplace((*names_)[link.from.index()], LinkIn{link.latency, link.capacity_bps == kUnlimited});
    if (!(link.load_bps > 0)) continue;
    fastest_link_bps_ =
        std::max(fastest_link_bps_, std::min({link.capacity_bps, plan_->nodes[link.from.index()].egress_bps,
                                              plan_->nodes[link.to.index()].ingress_bps}));
  }
}

void InstalledPlan::fit(std::size_t window_bytes, const InstalledPlan* base) {
  const bool are_same_links = base != nullptr && base->links_in_ == links_in_;
  WindowClaims claims(window_bytes);
  for (Part& part : parts_) {
    if (!part.needs || !are_same_links)
      part.needs = std::make_shared<const std::vector<WindowNeed>>(window_needs(*part.collective, links_in_));
    claims.add(*part.collective, *part.needs);
  }
  claims.fit();
}

const InstalledPlan::Part* InstalledPlan::part_of(CollectiveId collective) const {
  const auto found = std::ranges::lower_bound(parts_, collective, {},
                                              [](const Part& part) { return part.collective->id(); });
  return found == parts_.end() || found->collective->id() != collective ? nullptr : &*found;
}

InstalledPlan::CollectivePointer InstalledPlan::find(CollectiveId collective) const {
  const Part* const part = part_of(collective);
  return part == nullptr ? nullptr : part->collective;
}

void InstalledPlan::each_not_in(const InstalledPlan* other,
                                const std::function<void(const CollectivePointer& collective)>& act) const {
  std::size_t i = 0;
  for (const Part& part : parts_) {
    const std::size_t count = other == nullptr ? 0 : other->parts_.size();
    while (i < count && other->parts_[i].collective->id() < part.collective->id()) ++i;
    if (i == count || other->parts_[i].collective != part.collective) act(part.collective);
  }
}

std::vector<const LocalStream*> InstalledPlan::streams() const {
  std::vector<const LocalStream*> streams;
  for (const Part& part : parts_) {
    for (const LocalStream& stream : part.collective->streams()) streams.push_back(&stream);
  }
  return streams;
}

std::optional<double> InstalledPlan::pace_bps(const std::string& peer) const {
  return pace_between(self_, plan_->find_node(peer));
}

std::optional<double> InstalledPlan::pace_from_bps(const std::string& peer) const {
  return pace_between(plan_->find_node(peer), self_);
}

std::optional<double> InstalledPlan::pace_between(std::optional<NodeId> tail,
                                                  std::optional<NodeId> head) const {
  if (!tail || !head) return std::nullopt;
  const auto found = paces_.find({*tail, *head});
  return found == paces_.end() ? std::nullopt : std::optional(found->second);
}

double InstalledPlan::egress_bps() const {
  return self_ ? plan_->nodes[self_->index()].egress_bps : kUnlimited;
}

}  // namespace square
