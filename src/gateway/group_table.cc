#include "gateway/group_table.h"

#include <fmt/format.h>

#include <algorithm>

namespace square::gateway {

bool stays_on(const GroupSpec& group, const GroupCollective& collective, const std::string& node) {
  const std::size_t members = collective.members.empty() ? group.nodes.size() : collective.members.size();
  return members_on(group, collective, node).size() == members;
}

const Group::Claim* Group::missing(CollectiveId collective, std::uint64_t operation) const {
  const auto known = collectives.find(collective);
  const auto takes_part = [&](Rank rank) {
    return known == collectives.end() || known->second.members.empty() ||
           std::ranges::binary_search(known->second.members, rank);
  };
  for (const auto& [rank, claim] : claims) {
    if (!claim.is_gone || !takes_part(rank)) continue;
    const auto posted = claim.posted.find(collective);
    if (posted == claim.posted.end() || posted->second <= operation) return &claim;
  }
  return nullptr;
}

void GroupTable::add(const GroupSpec& spec, const GroupRegistration& registration, AttachmentId attachment) {
  if (const auto before = groups_.find(spec.name); before != groups_.end()) {
    if (registration.number < before->second.spec.number) return;
    if (registration.number > before->second.spec.number) erase(before);
  }
  Group& group = groups_[spec.name];
  group.spec.name = spec.name;
  group.spec.number = registration.number;
  group.spec.tenant = spec.tenant;
  group.spec.nodes = spec.nodes;
  group.attachments.insert(attachment);
  for (std::uint32_t rank = 0; rank < spec.nodes.size(); ++rank) {
    if (spec.nodes[rank] == node_) group.local_ranks.insert(Rank(rank));
  }
  for (std::size_t i = 0; i < registration.collectives.size(); ++i) {
    // Every rank of the node registers it.
    if (!group.collectives.emplace(registration.collectives[i], spec.collectives[i]).second) continue;
    group_of_.insert_or_assign(registration.collectives[i], spec.name);
    if (stays_on(spec, spec.collectives[i], node_)) group.staying.insert(registration.collectives[i]);
  }
}

void GroupTable::join(const std::string& group, AttachmentId attachment, Rank rank,
                      std::shared_ptr<const void> membership) {
  groups_.at(group).memberships[attachment].emplace(rank, std::move(membership));
}

bool GroupTable::is_rank(const std::string& group, AttachmentId attachment, Rank rank) const {
  const auto found = groups_.find(group);
  if (found == groups_.end()) return false;
  const auto own = found->second.memberships.find(attachment);
  return own != found->second.memberships.end() && own->second.contains(rank);
}

Group* GroupTable::close(const std::string& name, AttachmentId attachment, Rank rank) {
  const auto found = groups_.find(name);
  if (found == groups_.end()) return nullptr;
  Group& group = found->second;
  const auto own = group.memberships.find(attachment);
  if (own == group.memberships.end()) return nullptr;
  const auto membership = own->second.find(rank);
  if (membership == own->second.end()) return nullptr;
  own->second.erase(membership);
  if (own->second.contains(rank)) return &group;  // it has joined again
  const auto claim = group.claims.find(rank);
  if (claim != group.claims.end() && claim->second.attachment == attachment) claim->second.is_gone = true;
  if (own->second.empty()) {
    group.memberships.erase(own);
    group.attachments.erase(attachment);
  }
  return &group;
}

Status GroupTable::claim(CollectiveId collective, OperationId operation, Rank rank, AttachmentId attachment,
                         const std::string& owner) {
  Group* group = find(collective);
  if (group == nullptr || !group->attachments.contains(attachment)) {
    return permission_denied(
        fmt::format("{} has not registered the group of collective {} at the gateway of "
                    "node \"{}\"",
                    owner, collective.value(), node_));
  }
  if (!group->local_ranks.contains(rank)) {
    return invalid_argument(fmt::format("rank {} of group \"{}\" does not live on node \"{}\"", rank.value(),
                                        group->spec.name, node_));
  }
  const auto known = group->claims.find(rank);
  if (known != group->claims.end() && known->second.attachment != attachment) {
    return already_exists(fmt::format(
        "rank {} of group \"{}\" on node \"{}\" {} {}; give each process a rank "
        "of its own, or make a new group",
        rank.value(), group->spec.name, node_, known->second.is_gone ? "was" : "is", known->second.owner));
  }
  if (const auto& failure = group->failure) {
    // A late call of the operation that failed gets the cause itself.
    if (failure->collective == collective && failure->operation == operation) return failure->cause;
    return failed_precondition(fmt::format("group \"{}\" failed before ({}); make a new group",
                                           group->spec.name, failure->cause.to_string()));
  }
  if (const Group::Claim* gone = group->missing(collective, operation.value())) {
    return unavailable(fmt::format("{} has left group \"{}\" on node \"{}\"; make a new group", gone->owner,
                                   group->spec.name, node_));
  }
  const auto posted = [&] {
    if (known == group->claims.end()) return std::uint64_t{0};
    const auto next = known->second.posted.find(collective);
    return next == known->second.posted.end() ? std::uint64_t{0} : next->second;
  }();
  if (operation.value() != posted) {
    return invalid_argument(fmt::format("{}, rank {}: operation {} of collective {}, where {} comes next",
                                        owner, rank.value(), operation.value(), collective.value(), posted));
  }
  Group::Claim& claim = group->claims[rank];
  claim.attachment = attachment;
  claim.owner = fmt::format("{}, rank {} of group \"{}\"", owner, rank.value(), group->spec.name);
  claim.posted[collective] = posted + 1;
  return {};
}

Group* GroupTable::find(CollectiveId collective) {
  const auto name = group_of_.find(collective);
  return name == group_of_.end() ? nullptr : &groups_.at(name->second);
}

bool GroupTable::stays_here(CollectiveId collective) const {
  const auto name = group_of_.find(collective);
  return name != group_of_.end() && groups_.at(name->second).staying.contains(collective);
}

std::size_t GroupTable::count_of(AttachmentId attachment) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      groups_, [&](const auto& entry) { return entry.second.attachments.contains(attachment); }));
}

bool GroupTable::has(const std::string& group, AttachmentId attachment) const {
  const auto found = groups_.find(group);
  return found != groups_.end() && found->second.attachments.contains(attachment);
}

std::vector<Departure> GroupTable::leave(AttachmentId attachment) {
  std::vector<Departure> departures;
  for (auto& [name, group] : groups_) {
    if (group.attachments.erase(attachment) == 0) continue;
    Departure departure{&group, {}, false};
    if (auto own = group.memberships.extract(attachment)) departure.memberships = std::move(own.mapped());
    for (auto& [rank, claim] : group.claims) {
      if (claim.attachment != attachment) continue;
      claim.is_gone = true;
      departure.ranks.push_back(rank);
    }
    departure.may_have_been_a_member =
        departure.ranks.empty() && group.claims.size() < group.local_ranks.size();
    departures.push_back(std::move(departure));
  }
  return departures;
}

void GroupTable::prune() {
  for (auto group = groups_.begin(); group != groups_.end();)
    group = group->second.attachments.empty() ? erase(group) : std::next(group);
}

GroupTable::Groups::iterator GroupTable::erase(Groups::iterator group) {
  for (const auto& [collective, unused] : group->second.collectives) group_of_.erase(collective);
  return groups_.erase(group);
}

}  // namespace square::gateway
