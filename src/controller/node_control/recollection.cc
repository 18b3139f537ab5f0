#include "controller/node_control/recollection.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/planted.h"
#include "controller/protocol.h"

namespace square::controller {
namespace {

// Those that the node has a part in.
void add_sessions(const Plan& plan, const std::string& node, v1::Past& past) {
  const auto name = [&](NodeId id) { return plan.nodes[id.index()].name; };
  const auto self = plan.find_node(node);
  for (const PlanSession& session : plan.sessions) {
    if (std::ranges::find(session.members, self) == session.members.end()) continue;
    v1::RunningSession& added = *past.add_sessions();
    added.set_id(session.id.value());
    added.set_collective(session.collective.value());
    added.set_kind(std::string(to_string(session.kind)));
    added.set_root(name(session.root));
    for (const NodeId member : session.members) {
      if (member != session.root) added.add_destinations(name(member));
    }
  }
}

}  // namespace

Status Recollection::note_plan(std::shared_ptr<const Plan> plan) {
  if (newest_ && plan->origin.store == newest_->origin.store && plan->origin.term < newest_->origin.term) {
    return failed_precondition(
        fmt::format("plan {} is of a controller of term {}, and one of term {} has followed it",
                    plan->epoch.value(), plan->origin.term, newest_->origin.term));
  }
  if (newest_ && plan->origin == newest_->origin && plan->epoch <= newest_->epoch) return {};
  if (plan->part) {
    next_collective_ = std::max(next_collective_, plan->part->next_collective);
    next_session_ = std::max(next_session_, plan->part->next_session);
  }
  newest_ = std::move(plan);
  return {};
}

void Recollection::note_address(const v1::Address& address) { addresses_[address.peer()] = address; }

void Recollection::forget_address(const std::string& node) { addresses_.erase(node); }

void Recollection::note_silent(const std::string& node) {
  const auto found = addresses_.find(node);
  if (found != addresses_.end()) found->second.set_may_live(true);
}

void Recollection::note_given(const v1::Given& given) {
  if (is_planted(Bug::kGivenUntold)) return;
  next_group_ = std::max(next_group_, given.next_group());
  for (const v1::WentOn& one : given.went_on()) went_on_.note(from_message(one));
}

void Recollection::begin_registering(const std::string& group) { registering_.insert(group); }

void Recollection::end_registering(const std::string& group) { registering_.erase(registering_.find(group)); }

void Recollection::forget_group(const std::string& group, std::uint64_t number) {
  const auto found = groups_.find(group);
  if (found != groups_.end() && found->second.number == number) groups_.erase(found);
  const auto [entry, is_new] = closed_.try_emplace(group, number);
  entry->second = std::max(entry->second, number);
  if (is_new) closed_names_.push_back(group);
  if (closed_names_.size() <= kMaxClosedNames) return;
  closed_.erase(closed_names_.front());
  closed_names_.pop_front();
}

std::uint64_t Recollection::closed_number(const std::string& group) const {
  const auto found = closed_.find(group);
  return found == closed_.end() ? 0 : found->second;
}

void Recollection::note_group(const GroupSpec& group, const GroupRegistration& made) {
  const auto [entry, is_new] = groups_.try_emplace(group.name);
  Running& running = entry->second;
  next_group_ = std::max(next_group_, made.number + 1);
  if (!is_planted(Bug::kGivenUntold)) went_on_.note(group.name, group.tenant, group.origin);
  if (is_new || running.number != made.number) {
    running = {{group.name, group.tenant, group.nodes, {}, {}, 0, group.origin}, made.number, {}};
    running.group.redundancy = group.redundancy;
    if (!is_planted(Bug::kKeysUntold)) running.group.keys = made.wrapped_keys;
  }
  if (!group.grant.empty()) running.group.grant = group.grant;
  for (std::size_t i = 0; i < group.collectives.size(); ++i) {
    const CollectiveId id = made.collectives[i];
    next_collective_ = std::max(next_collective_, id.value() + 1);
    const bool added = running.collectives.insert_or_assign(identity_of(group.collectives[i]), id).second;
    if (added) running.group.collectives.push_back(group.collectives[i]);
  }
}

std::optional<std::uint64_t> Recollection::number_of(const std::string& group) const {
  const auto running = groups_.find(group);
  return running == groups_.end() ? std::nullopt : std::optional(running->second.number);
}

std::string Recollection::keys_of(const std::string& group) const {
  const auto running = groups_.find(group);
  return running == groups_.end() ? std::string() : running->second.group.keys;
}

std::optional<v1::Past> Recollection::past() const {
  if (!newest_ || is_planted(Bug::kPastUntold)) return std::nullopt;
  v1::Past past;
  past.set_store(newest_->origin.store);
  past.set_term(newest_->origin.term);
  past.set_epoch(newest_->epoch.value());
  past.set_next_collective(next_collective_);
  past.set_next_session(next_session_);
  past.set_next_group(next_group_);
  for (const std::string& name : registering_) {
    past.add_registering(name);
    const auto closed = closed_.find(name);
    if (closed == closed_.end()) continue;
    past.add_closed()->set_group(name);
    past.mutable_closed(past.closed_size() - 1)->set_number(closed->second);
  }
  for (const PlanNode& node : newest_->nodes) past.add_nodes(node.name);
  for (const auto& [name, running] : groups_) {
    v1::RunningGroup& added = *past.add_groups();
    *added.mutable_group() = to_message(running.group);
    added.set_number(running.number);
    for (const GroupCollective& collective : running.group.collectives)
      added.add_collectives(running.collectives.at(identity_of(collective)).value());
  }
  for (const auto& [node, address] : addresses_) *past.add_addresses() = address;
  for (const Continuation& one : went_on_.list()) *past.add_went_on() = to_message(one);
  add_sessions(*newest_, node_, past);
  return past;
}

}  // namespace square::controller
