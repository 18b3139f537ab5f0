#include "controller/group_registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/check.h"
#include "base/plan/figures.h"
#include "base/weight.h"
#include "controller/granting.h"
#include "trust/group_keys.h"

namespace square::controller {
namespace {

// An ascending list without duplicates, of ranks that there are, the root among them.
Status check_members(const GroupCollective& collective, std::size_t group_size) {
  const std::vector<Rank>& members = collective.members;
  if (members.empty()) return {};
  const bool is_ascending = std::ranges::adjacent_find(members, std::greater_equal<>()) == members.end();
  if (!is_ascending || members.back().index() >= group_size) {
    return invalid_argument(fmt::format("the members of its {} are not ascending ranks below {}",
                                        to_string(collective.op), group_size));
  }
  if (has_root(collective.op) && !std::ranges::binary_search(members, collective.root)) {
    return invalid_argument(fmt::format("the root of its {}, rank {}, is not among the members",
                                        to_string(collective.op), collective.root.value()));
  }
  return {};
}

Status check_collective(const GroupCollective& collective, std::size_t members) {
  SQUARE_RETURN_IF_ERROR(
      check_weight(collective.weight).with_context(fmt::format("its {}", to_string(collective.op))));
  if (has_root(collective.op) && collective.root.index() >= members) {
    return invalid_argument(fmt::format("the root of its {} is rank {}, but it has {} members",
                                        to_string(collective.op), collective.root.value(), members));
  }
  return check_members(collective, members);
}

Status check_spec(const GroupSpec& spec, const Topology& topology) {
  if (spec.tenant.empty()) return invalid_argument("its tenant has no name");
  if (spec.tenant.size() > kMaxGroupNameBytes) {
    return invalid_argument(
        fmt::format("the name of its tenant is longer than {} bytes", kMaxGroupNameBytes));
  }
  if (spec.nodes.empty()) return invalid_argument("it has no members");
  if (spec.keys.size() > trust::max_wrapped_bytes(spec.nodes.size()))
    return invalid_argument("its keys are more than those of its members");
  if (spec.redundancy > kMaxRedundancy) {
    return invalid_argument(
        fmt::format("its redundancy is {}; at most {} is possible", spec.redundancy, kMaxRedundancy));
  }
  if (spec.nodes.size() > kMaxGroupMembers || spec.collectives.size() > kMaxGroupCollectives) {
    return invalid_argument(
        fmt::format("it has {} members and {} collectives; at most {} and {} are possible", spec.nodes.size(),
                    spec.collectives.size(), kMaxGroupMembers, kMaxGroupCollectives));
  }
  for (const std::string& node : spec.nodes) {
    if (!topology.find_node(node))
      return invalid_argument(
          fmt::format("node \"{}\" has not joined, and the topology does not have it", node));
  }
  for (const GroupCollective& collective : spec.collectives) {
    SQUARE_RETURN_IF_ERROR(check_collective(collective, spec.nodes.size()));
  }
  return {};
}

// What two members disagree on: the first difference, in words.
Status check_same(const RegisteredGroup& group, const GroupSpec& spec) {
  if (group.tenant != spec.tenant) {
    return invalid_argument(fmt::format("another member registered it for tenant \"{}\", this one for \"{}\"",
                                        group.tenant, spec.tenant));
  }
  if (group.redundancy != spec.redundancy) {
    return invalid_argument(fmt::format("another member registered it with redundancy {}, this one with {}",
                                        group.redundancy, spec.redundancy));
  }
  if (group.nodes.size() != spec.nodes.size()) {
    return invalid_argument(fmt::format("another member registered it with {} members, this one with {}",
                                        group.nodes.size(), spec.nodes.size()));
  }
  const auto [known, given] = std::mismatch(group.nodes.begin(), group.nodes.end(), spec.nodes.begin());
  if (known == group.nodes.end()) return {};
  return invalid_argument(fmt::format("another member registered rank {} on node \"{}\", this one on \"{}\"",
                                      known - group.nodes.begin(), *known, *given));
}

Status still_closing(const RegisteredGroup& group, const std::string& name, const std::string& node) {
  std::set<std::string> others(group.nodes.begin(), group.nodes.end());
  std::erase_if(others, [&](const std::string& other) { return group.closed.contains(other); });
  return aborted(
      fmt::format("node \"{}\" has closed group \"{}\", and the name is free again when these have: {}", node,
                  name, fmt::join(others, ", ")));
}

NodeId node_id(const Topology& topology, const std::string& name) {
  const auto id = topology.find_node(name);
  SQUARE_CHECK(id.has_value(), name);
  return *id;
}

// In the order of the ranks; ranks that share a node are one member.
std::vector<NodeId> unique_nodes(const std::vector<NodeId>& by_rank) {
  std::vector<NodeId> nodes;
  std::unordered_set<NodeId> seen;
  for (const NodeId node : by_rank) {
    if (seen.insert(node).second) nodes.push_back(node);
  }
  return nodes;
}

// Redundancy is for what all members get.
RegisteredCollective registered_in(const RegisteredGroup& group, CollectiveId id,
                                   const GroupCollective& wanted) {
  RegisteredCollective made{id, wanted};
  if (wanted.op == CollectiveOp::kBroadcast && wanted.members.empty()) made.redundancy = group.redundancy;
  return made;
}

RegisteredGroup begun_earlier(const GroupRegistry::Adopted& group) {
  const GroupSpec& spec = group.spec;
  RegisteredGroup made{spec.tenant, spec.nodes, {}, false, group.number, {}, {}};
  made.closed = group.closed;
  made.is_adopted = made.is_untried = true;
  made.origin = spec.origin;
  made.redundancy = spec.redundancy;
  made.keys = spec.keys;
  return made;
}

void take_terms(const Grant& grant, const GroupSpec& shown, RegisteredGroup& group) {
  group.weight = grant.weight;
  group.open = grant.open;
  group.grant = shown.grant;
  group.granted_nodes = grant.nodes;
}

}  // namespace

GroupRegistry::GroupRegistry(const Scenario& scenario, std::shared_ptr<const Granting> granting)
    : granting_(std::move(granting)) {
  for (std::size_t i = 0; i < scenario.collectives.size(); ++i) {
    const CollectiveSpec& spec = scenario.collectives[i];
    RegisteredGroup group{spec.tenant, {}, {}, true, 0, {}, {}};
    GroupCollective collective{spec.op, Rank(0), spec.weight, spec.size_bytes};
    for (std::size_t rank = 0; rank < spec.members.size(); ++rank) {
      group.nodes.push_back(scenario.topology.node(spec.members[rank]).name);
      if (has_root(spec.op) && spec.members[rank] == spec.root)
        collective.root = Rank(static_cast<Rank::value_type>(rank));
    }
    group.collectives.push_back({spec.id, collective, spec.algorithm, spec.required_bps, spec.max_latency,
                                 spec.redundancy, spec.group});
    groups_.emplace(fmt::format("collective/{}", i),
                    std::make_shared<const RegisteredGroup>(std::move(group)));
    next_id_ = std::max(next_id_, spec.id.value() + 1);
  }
}

Result<GroupRegistry::Registered> GroupRegistry::add(const GroupSpec& spec, const Topology& topology) {
  if (spec.name.empty() || spec.name.size() > kMaxGroupNameBytes) {
    return invalid_argument(fmt::format("a group needs a name of 1 to {} bytes", kMaxGroupNameBytes));
  }
  const std::string context = fmt::format("group \"{}\"", spec.name);
  SQUARE_RETURN_IF_ERROR(check_spec(spec, topology).with_context(context));
  // First: who has no right to it is told nothing of a group.
  const auto grant = granted(spec);
  if (!grant.is_ok()) return grant.status().with_context(context);
  const auto found = groups_.find(spec.name);
  const bool is_new = found == groups_.end();
  // A controller that was restarted may not have heard of the close.
  const bool is_closed =
      !is_new && !found->second->permanent &&
      (found->second->closed.contains(spec.registrant) || found->second->number == spec.closed_number);
  if (is_closed) return still_closing(*found->second, spec.name, spec.registrant);
  if (!is_new && !found->second->unplannable.is_ok()) {
    return failed_precondition(fmt::format("{} cannot be planned any more: {}; close it and make a new one",
                                           context, found->second->unplannable.message()));
  }
  RegisteredGroup group =
      is_new ? RegisteredGroup{spec.tenant, spec.nodes, {}, false, next_number_, {}, {}} : *found->second;
  if (is_new) group.origin = spec.origin;
  if (is_new) group.redundancy = spec.redundancy;
  if (is_new && groups_.size() >= kMaxGroups) {
    return resource_exhausted(fmt::format("{}: there are {} groups already", context, kMaxGroups));
  }
  SQUARE_RETURN_IF_ERROR(check_same(group, spec).with_context(context));
  if (*grant) SQUARE_RETURN_IF_ERROR(apply(**grant, group, spec).with_context(context));
  auto registered = extend(group, spec);
  if (!registered.is_ok()) return registered.status().with_context(context);
  registered->number = group.number;
  const bool is_member = std::ranges::find(group.nodes, spec.registrant) != group.nodes.end();
  const bool is_keyed = group.keys.empty() && !spec.keys.empty() && is_member;
  if (is_keyed) group.keys = spec.keys;
  registered->keys = group.keys;
  if (is_new) ++next_number_;
  const bool is_back = group.gone.erase(spec.registrant) > 0;
  registered->changed =
      registered->changed ||
      (!is_new && (group.weight != found->second->weight || group.open != found->second->open));
  if (is_new || is_back || is_keyed || registered->changed)
    groups_[spec.name] = std::make_shared<const RegisteredGroup>(std::move(group));
  return registered;
}

Result<std::optional<Grant>> GroupRegistry::granted(const GroupSpec& spec) const {
  if (!granting_ || spec.registrant.empty()) return std::optional<Grant>();
  SQUARE_ASSIGN_OR_RETURN(Grant grant, granting_->check(spec, Granting::Time::kCounts));
  const auto found = groups_.find(spec.name);
  if (found != groups_.end() && found->second->tenant != spec.tenant)
    return permission_denied("it is another tenant's");
  return std::optional<Grant>(std::move(grant));
}

Status GroupRegistry::apply(const Grant& grant, RegisteredGroup& group, const GroupSpec& spec) const {
  std::set<CollectiveIdentity> identities;
  for (const RegisteredCollective& known : group.collectives) identities.insert(identity_of(known.spec));
  for (const GroupCollective& wanted : spec.collectives) identities.insert(identity_of(wanted));
  SQUARE_RETURN_IF_ERROR(Granting::check_quota(grant, spec, identities, groups_));
  take_terms(grant, spec, group);
  return {};
}

Result<GroupRegistry::Registered> GroupRegistry::extend(RegisteredGroup& group, const GroupSpec& spec) {
  Registered registered;
  std::map<CollectiveIdentity, std::size_t> known;
  for (std::size_t i = 0; i < group.collectives.size(); ++i)
    known[identity_of(group.collectives[i].spec)] = i;
  CollectiveId::value_type next = next_id_;
  for (const GroupCollective& wanted : spec.collectives) {
    const auto [entry, added] = known.try_emplace(identity_of(wanted), group.collectives.size());
    if (added) {
      if (group.collectives.size() >= kMaxGroupCollectives ||
          next == std::numeric_limits<decltype(next)>::max()) {
        return resource_exhausted(fmt::format("it has {} collectives already", group.collectives.size()));
      }
      group.collectives.push_back(registered_in(group, CollectiveId(next++), wanted));
      registered.changed = true;
    }
    RegisteredCollective& collective = group.collectives[entry->second];
    if (collective.spec.weight != wanted.weight) {
      return invalid_argument(fmt::format("another member registered its {} with weight {}, this one with {}",
                                          to_string(wanted.op), collective.spec.weight, wanted.weight));
    }
    if (collective.spec.size_bytes == 0 && wanted.size_bytes != 0) {
      collective.spec.size_bytes = wanted.size_bytes;
      registered.changed = true;
    }
    registered.collectives.push_back(collective.id);
  }
  next_id_ = next;
  return registered;
}

std::optional<std::string> GroupRegistry::find_next(const std::string& name, std::uint64_t number) const {
  // Anybody may say of a group that it is another's successor: of a tenant's groups only its own are.
  const auto before = groups_.find(name);
  const auto next = std::ranges::find_if(groups_, [&](const auto& entry) {
    const RegisteredGroup& group = *entry.second;
    const bool is_foreign =
        before != groups_.end() && before->second->number == number && before->second->tenant != group.tenant;
    return !is_foreign && group.origin.group == name && group.origin.number == number;
  });
  return next == groups_.end() ? std::nullopt : std::optional(next->first);
}

std::optional<std::string> GroupRegistry::find_joined(std::uint64_t joiner) const {
  const auto joined = std::ranges::find_if(groups_, [&](const auto& entry) {
    const std::vector<std::uint64_t>& joiners = entry.second->origin.joiners;
    return std::ranges::find(joiners, joiner) != joiners.end();
  });
  return joined == groups_.end() ? std::nullopt : std::optional(joined->first);
}

GroupRegistry::Owners GroupRegistry::owners() const {
  Owners owners;
  for (const auto& [name, group] : groups_) {
    for (const RegisteredCollective& collective : group->collectives) owners.emplace(collective.id, name);
  }
  return owners;
}

Status GroupRegistry::check_adopted(const Adopted& group, const Owners& owners) const {
  const std::string& name = group.spec.name;
  const auto taken = [&](CollectiveId id) {
    return failed_precondition(fmt::format("a collective of group \"{}\" had number {}", name, id.value()));
  };
  if (name.empty() || name.size() > kMaxGroupNameBytes ||
      group.collectives.size() != group.spec.collectives.size()) {
    return invalid_argument("a group without a name, or without numbers");
  }
  if (granting_ && group.needs_grant())
    SQUARE_RETURN_IF_ERROR(granting_->check(group.spec, Granting::Time::kIsOver).status());
  std::map<CollectiveId, CollectiveIdentity> own;
  std::set<CollectiveIdentity> identities;
  for (std::size_t i = 0; i < group.collectives.size(); ++i) {
    own.emplace(group.collectives[i], identity_of(group.spec.collectives[i]));
    identities.insert(identity_of(group.spec.collectives[i]));
    const auto owner = owners.find(group.collectives[i]);
    if (owner != owners.end() && owner->second != name) return taken(group.collectives[i]);
  }
  const auto found = groups_.find(name);
  if (found == groups_.end()) return {};
  const RegisteredGroup& known = *found->second;
  SQUARE_RETURN_IF_ERROR(check_same(known, group.spec).with_context(name));
  if (known.number != group.number)
    return failed_precondition(fmt::format("group \"{}\" had number {}", name, group.number));
  for (const RegisteredCollective& collective : known.collectives) {
    const CollectiveIdentity identity = identity_of(collective.spec);
    const auto same = own.find(collective.id);
    if (same != own.end() ? same->second != identity : identities.contains(identity))
      return taken(collective.id);
  }
  return {};
}

Result<bool> GroupRegistry::adopt(const Adopted& group, const Topology& topology) {
  const GroupSpec& spec = group.spec;
  SQUARE_RETURN_IF_ERROR(check_spec(spec, topology).with_context(spec.name));
  const auto found = groups_.find(spec.name);
  bool changed = found == groups_.end();
  if (changed && groups_.size() >= kMaxGroups)
    return resource_exhausted(fmt::format("there are {} groups already", kMaxGroups));
  RegisteredGroup made = changed ? begun_earlier(group) : *found->second;
  const auto is_known = [&](CollectiveId id) {
    return std::ranges::find(made.collectives, id, &RegisteredCollective::id) != made.collectives.end();
  };
  // A known group may be told with more than it was given. What runs is not counted against quotas.
  if (granting_ && group.needs_grant() && (changed || !std::ranges::all_of(group.collectives, is_known))) {
    SQUARE_ASSIGN_OR_RETURN(const Grant grant, granting_->check(spec, Granting::Time::kIsOver));
    if (changed) take_terms(grant, spec, made);
  }
  for (std::size_t i = 0; i < group.collectives.size(); ++i) {
    const CollectiveId id = group.collectives[i];
    if (is_known(id)) continue;
    made.collectives.push_back(registered_in(made, id, spec.collectives[i]));
    give_none_below(CollectiveId(id.value() + 1), group.number + 1);
    changed = made.is_untried = true;
  }
  if (changed) groups_[spec.name] = std::make_shared<const RegisteredGroup>(std::move(made));
  // What the store has may have been told to nobody.
  if (!group.is_kept) went_on_.note(spec.name, spec.tenant, spec.origin);
  return changed;
}

void GroupRegistry::give_none_below(CollectiveId collective, std::uint64_t group) {
  next_id_ = std::max(next_id_, collective.value());
  next_number_ = std::max(next_number_, group);
}

bool RegisteredGroup::is_over(const std::function<bool(const std::string&)>& still_there) const {
  return std::ranges::none_of(nodes, [&](const std::string& node) {
    return !closed.contains(node) && !gone.contains(node) && still_there(node);
  });
}

bool GroupRegistry::replace(Groups::iterator at, RegisteredGroup group,
                            const std::function<bool(const std::string&)>& still_there) {
  const bool ends = group.is_over(still_there);
  if (ends) {
    groups_.erase(at);
  } else {
    at->second = std::make_shared<const RegisteredGroup>(std::move(group));
  }
  return ends;
}

std::vector<std::string> GroupRegistry::untried() const {
  std::vector<std::string> names;
  for (const auto& [name, group] : groups_) {
    if (group->is_untried) names.push_back(name);
  }
  return names;
}

void GroupRegistry::set_aside(const std::string& name, const Status& why) {
  RegisteredGroup group = *groups_.at(name);
  group.is_untried = false;
  group.unplannable = why;
  groups_[name] = std::make_shared<const RegisteredGroup>(std::move(group));
}

void GroupRegistry::try_again() {
  for (auto& [name, entry] : groups_) {
    if (entry->unplannable.is_ok()) continue;
    RegisteredGroup group = *entry;
    group.is_untried = true;
    entry = std::make_shared<const RegisteredGroup>(std::move(group));
  }
}

bool GroupRegistry::miss(const std::string& name, const std::string& node,
                         const std::function<bool(const std::string&)>& still_there) {
  const auto found = groups_.find(name);
  if (found == groups_.end() || found->second->permanent) return false;
  RegisteredGroup group = *found->second;
  group.gone.insert(node);
  group.told.erase(node);
  return replace(found, std::move(group), still_there);
}

void GroupRegistry::note_told(const std::string& name, std::uint64_t number,
                              const std::vector<std::string>& nodes) {
  const auto found = groups_.find(name);
  if (found == groups_.end() || found->second->number != number) return;
  RegisteredGroup group = *found->second;
  group.told.insert(nodes.begin(), nodes.end());
  went_on_.note(name, group.tenant, group.origin);
  found->second = std::make_shared<const RegisteredGroup>(std::move(group));
}

bool GroupRegistry::note_failed(const std::string& name, std::uint64_t number, const std::string& node,
                                const std::function<bool(const std::string&)>& still_there) {
  const auto found = groups_.find(name);
  if (found == groups_.end() || found->second->number != number) return false;
  // Who was told by an earlier controller is not known here, nor for whom somebody else registered it.
  const std::set<std::string>& told = found->second->told;
  if (found->second->is_adopted || told.contains(node) || told.contains("")) return false;
  return miss(name, node, still_there);
}

bool GroupRegistry::close(const std::string& name, std::uint64_t number, const std::string& node,
                          const std::function<bool(const std::string&)>& still_there) {
  const auto found = groups_.find(name);
  if (found == groups_.end() || found->second->number != number || found->second->permanent) return false;
  RegisteredGroup group = *found->second;
  group.closed.insert(node);
  return replace(found, std::move(group), still_there);
}

std::vector<std::string> GroupRegistry::remove_abandoned(
    const std::string& left, const std::function<bool(const std::string&)>& still_there) {
  std::vector<std::string> removed;
  for (auto it = groups_.begin(); it != groups_.end();) {
    const auto entry = it++;
    const RegisteredGroup& group = *entry->second;
    if (std::ranges::find(group.nodes, left) == group.nodes.end()) continue;
    if (group.permanent) {
      // Who comes in its place could not open the key; who is there brings another.
      RegisteredGroup changed = group;
      changed.keys.clear();
      if (!group.keys.empty()) entry->second = std::make_shared<const RegisteredGroup>(std::move(changed));
      continue;
    }
    if (group.is_over(still_there)) {
      removed.push_back(entry->first);
      groups_.erase(entry);
    } else if (!group.gone.contains(left)) {
      RegisteredGroup changed = group;
      changed.gone.insert(left);
      changed.told.erase(left);
      entry->second = std::make_shared<const RegisteredGroup>(std::move(changed));
    }
  }
  return removed;
}

bool GroupRegistry::uses(std::string_view node) const {
  return std::any_of(groups_.begin(), groups_.end(), [&](const auto& entry) {
    const std::vector<std::string>& nodes = entry.second->nodes;
    return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
  });
}

bool GroupRegistry::has_group_without(std::string_view node) const {
  return std::any_of(groups_.begin(), groups_.end(), [&](const auto& entry) {
    const std::vector<std::string>& nodes = entry.second->nodes;
    return std::find(nodes.begin(), nodes.end(), node) == nodes.end();
  });
}

std::vector<TenantUses> GroupRegistry::collectives_by_tenant() const {
  std::map<std::string_view, TenantUses> tenants;
  for (const auto& [name, group] : groups_) {
    if (group->permanent) continue;
    std::map<JobTurn, std::vector<CollectiveId>> turns;
    for (const RegisteredCollective& collective : group->collectives)
      turns[job_turn_of(collective.spec.op, collective.id)].push_back(collective.id);
    auto& added = tenants[group->tenant].emplace_back();
    for (auto& [turn, ids] : turns) added.push_back(std::move(ids));
  }
  std::vector<TenantUses> lists;
  for (auto& [tenant, groups] : tenants) lists.push_back(std::move(groups));
  return lists;
}

void GroupRegistry::fill(Scenario& scenario) const {
  std::unordered_map<std::string, std::size_t> tenants;
  for (const TenantSpec& tenant : scenario.tenants) tenants.emplace(tenant.name, tenants.size());
  for (const auto& [name, group] : groups_) {
    if (!group->unplannable.is_ok()) continue;
    const auto [tenant, is_new] = tenants.emplace(group->tenant, tenants.size());
    if (is_new) scenario.tenants.push_back({group->tenant, group->weight});
    Quota& open = scenario.tenants[tenant->second].open;
    open.operations = std::min(open.operations, group->open.operations);
    open.bytes = std::min(open.bytes, group->open.bytes);
    std::vector<NodeId> by_rank;
    for (const std::string& node : group->nodes) by_rank.push_back(node_id(scenario.topology, node));
    const std::vector<NodeId> all = unique_nodes(by_rank);
    for (const RegisteredCollective& collective : group->collectives) {
      std::vector<NodeId> chosen;
      for (const Rank rank : collective.spec.members) chosen.push_back(by_rank[rank.index()]);
      const std::vector<NodeId> members = chosen.empty() ? all : unique_nodes(chosen);
      const NodeId root =
          has_root(collective.spec.op) ? by_rank[collective.spec.root.index()] : members.front();
      scenario.collectives.push_back(
          {collective.id, group->tenant, collective.spec.weight, collective.spec.op, collective.algorithm,
           root, members, collective.spec.size_bytes, collective.required_bps, collective.max_latency,
           collective.redundancy, group->permanent ? collective.group : group_label(name, group->number)});
    }
  }
  std::sort(scenario.collectives.begin(), scenario.collectives.end(),
            [](const CollectiveSpec& a, const CollectiveSpec& b) { return a.id < b.id; });
}

}  // namespace square::controller
