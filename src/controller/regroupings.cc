#include "controller/regroupings.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/planted.h"
#include "square/grant.h"

namespace square::controller {
namespace {

// Between the name that groups have in common and the number of the one.
constexpr char kMark = '~';
constexpr std::size_t kMarkBytes = 21;  // with the largest number

std::size_t mark_of(const std::string& group) {
  const std::size_t mark = group.find_last_of(kMark);
  if (mark == std::string::npos || mark + 1 == group.size()) return std::string::npos;
  const bool is_number = group.find_first_not_of("0123456789", mark + 1) == std::string::npos;
  return is_number ? mark : std::string::npos;
}

// One that no group has.
std::string next_name(const std::string& group, const GroupRegistry::Groups& groups,
                      const std::vector<Regroupings::Decision>& decided) {
  const std::string common = common_name(group);
  std::string name;
  const auto is_decided = [&] {
    return std::ranges::any_of(decided, [&](const auto& one) { return one.group.name == name; });
  };
  for (std::uint64_t number = 1; name.empty() || groups.contains(name) || name == group || is_decided();
       ++number)
    name = fmt::format("{}{}{}", common, kMark, number);
  return name;
}

GroupSpec spec_of(const std::string& name, const RegisteredGroup& group) {
  GroupSpec spec{name, group.tenant, group.nodes, {}};
  spec.origin = group.origin;
  spec.number = group.number;
  spec.redundancy = group.redundancy;
  return spec;
}

// Where tenants need grants: the operator's own groups need none. What lets the others be there must let the
// joiner, too, as they register what comes of it.
bool may_join(const Regroup& asked, const RegisteredGroup& group, const GroupRegistry& registry) {
  const auto has = [](const std::vector<std::string>& names, const std::string& name) {
    return names.empty() || std::ranges::find(names, name) != names.end();
  };
  if (!has(asked.request.tenants, group.tenant)) return false;
  if (registry.granting() == nullptr || group.grant.empty() || is_planted(Bug::kGrantUnlooked)) return true;
  auto found = asked.granted.find(group.tenant);
  if (found == asked.granted.end()) found = asked.granted.find(kAnyTenant);
  return found != asked.granted.end() && found->second && has(group.granted_nodes, asked.node);
}

bool has_part(const GroupOrigin& origin, const RegroupRequest& request) {
  if (request.joiner != 0) return std::ranges::find(origin.joiners, request.joiner) != origin.joiners.end();
  return !request.ranks.empty() && std::ranges::includes(origin.ranks, request.ranks);
}

std::vector<Rank> ranks_on(const RegisteredGroup& group, const std::string& node) {
  std::vector<Rank> ranks;
  for (std::uint32_t rank = 0; rank < group.nodes.size(); ++rank) {
    if (group.nodes[rank] == node) ranks.emplace_back(rank);
  }
  return ranks;
}

// Of its ranks on the node those that go on.
std::set<Rank> chosen(const RegisteredGroup& group, const std::string& node,
                      const std::vector<Rank>& wanted) {
  std::set<Rank> ranks;
  for (const Rank rank : ranks_on(group, node)) {
    if (std::ranges::find(wanted, rank) != wanted.end()) ranks.insert(rank);
  }
  return ranks;
}

// Its members there call nothing more in the group.
bool is_out(const RegisteredGroup& group, const std::string& node) {
  return group.closed.contains(node) || group.gone.contains(node);
}

// Those that nobody heard of for a lease may live, and have another controller, which would let them go on as
// well, with some that have died since: a node may change to that one, go on and end, sooner than it is
// missed here. So more than half of all that had not closed the group must be here, or half of them with the
// lowest rank. Returns those that may live, empty where they are too few to matter.
std::set<std::string> rivals(const RegisteredGroup& group,
                             const std::map<std::string, std::set<Rank>>& survivors, const Members& members) {
  std::set<std::string> silent;
  if (!members.has_successors() || is_planted(Bug::kLeftBehindGoesOn)) return silent;
  std::set<std::string> here;
  std::set<std::string> gone;
  std::optional<bool> is_first_here;
  for (const std::string& node : group.nodes) {
    const bool is_one = survivors.contains(node);
    if (!is_one && group.closed.contains(node)) continue;
    if (!is_first_here) is_first_here = is_one;
    (is_one ? here : gone).insert(node);
    if (!is_one && members.may_live(node)) silent.insert(node);
  }
  const bool is_half = here.size() == gone.size() && is_first_here.value_or(false);
  if (here.size() > gone.size() || is_half) silent.clear();
  return silent;
}

std::string describe(const RegisteredGroup& group, const std::set<std::string>& nodes) {
  std::vector<std::string> words;
  for (const std::string& node : nodes) {
    std::vector<std::uint32_t> ranks;
    for (const Rank rank : ranks_on(group, node)) ranks.push_back(rank.value());
    words.push_back(fmt::format("node \"{}\" (rank {})", node, fmt::join(ranks, ", ")));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace

// One look, and what it finds.
struct Regroupings::Round {
  const GroupRegistry& registry;
  const Members& members;
  TimePoint now;
  Deferred& deferred;
  Joiners joiners;
  Look found;
};

std::string common_name(const std::string& group) { return group.substr(0, mark_of(group)); }

Status Regroupings::add(Regroup asked, RegroupReply& reply) {
  if (asked.request.group.size() > kMaxGroupNameBytes + kMarkBytes ||
      asked.request.ranks.size() > kMaxGroupMembers || asked.request.joiners > kMaxGroupMembers) {
    return invalid_argument("no group has such a name, or so many members");
  }
  const auto of_node =
      std::ranges::count(waiting_, asked.node, [](const Waiting& one) { return one.asked.node; });
  if (waiting_.size() >= kMaxRegroupRequests ||
      static_cast<std::size_t>(of_node) >= kMaxNodeRegroupRequests) {
    return resource_exhausted(fmt::format(
        "{} members wait already for the groups that they go on in, {} of them on node \"{}\"; try later",
        waiting_.size(), of_node, asked.node));
  }
  std::ranges::sort(asked.request.ranks);
  waiting_.push_back({std::move(asked), std::move(reply)});
  return {};
}

Regroupings::Look Regroupings::look(const GroupRegistry& registry, const Members& members, TimePoint now,
                                    Deferred& deferred) {
  looked_at_ = now;
  Round round{registry, members, now, deferred, {}, {}};
  std::map<Key, std::vector<Waiting>> groups;
  for (Waiting& waiting : std::exchange(waiting_, {})) {
    const RegroupRequest& request = waiting.asked.request;
    if (request.joiner == 0) {
      groups[{request.group, request.number}].push_back(std::move(waiting));
    } else if (const auto joined = registry.find_joined(request.joiner)) {
      answer(waiting, spec_of(*joined, *registry.groups().at(*joined)), deferred);
    } else {
      join(std::move(waiting), round);
    }
  }
  for (auto& [key, asks] : groups) look_at(key, std::move(asks), round);
  for (auto& [name, asks] : round.joiners) {
    for (Waiting& waiting : asks) {
      if (now < waiting.asked.end) {
        waiting_.push_back(std::move(waiting));
      } else {
        answer(waiting, deadline_exceeded(fmt::format("nobody takes joiners into group \"{}\"", name)),
               deferred);
      }
    }
  }
  return std::move(round.found);
}

// Who asks again, over another line, comes in the place of what it asked before; who is not there is not
// counted.
void Regroupings::join(Waiting waiting, Round& round) {
  const RegroupRequest& request = waiting.asked.request;
  if (!round.members.speaks(waiting.asked.node, round.now) && round.now < waiting.asked.end)
    return waiting_.push_back(std::move(waiting));
  std::vector<Waiting>& joiners = round.joiners[common_name(request.group)];
  const auto before = std::ranges::find_if(
      joiners, [&](const Waiting& one) { return one.asked.request.joiner == request.joiner; });
  if (before == joiners.end()) return joiners.push_back(std::move(waiting));
  answer(*before, aborted("the same process has asked again"), round.deferred);
  *before = std::move(waiting);
}

// The group has gone on already: those that have a part in it are told so.
void Regroupings::tell(const GroupSpec& next, std::vector<Waiting> asks, Deferred& deferred) {
  for (Waiting& waiting : asks) {
    if (has_part(next.origin, waiting.asked.request)) {
      answer(waiting, next, deferred);
      continue;
    }
    answer(waiting,
           failed_precondition(fmt::format("group \"{}\" went on as \"{}\" without node \"{}\", which was "
                                           "taken for dead; join that with grow(), or make a new group",
                                           next.origin.group, next.name, waiting.asked.node)),
           deferred);
  }
}

// It went on, and is through. Those that come late must not go on once more, from where it was then.
void Regroupings::tell_of_ended(const Continuation& ended, std::vector<Waiting> asks, Deferred& deferred) {
  for (Waiting& waiting : asks) {
    answer(waiting,
           failed_precondition(
               fmt::format("group \"{}\" went on as \"{}\", and that has ended", ended.group, ended.next)),
           deferred);
  }
}

// Who has no member in the group has no say in how it goes on.
void Regroupings::refuse_strangers(const RegisteredGroup& group, std::vector<Waiting>& asks,
                                   Deferred& deferred) {
  std::erase_if(asks, [&](Waiting& waiting) {
    if (std::ranges::find(group.nodes, waiting.asked.node) != group.nodes.end()) return false;
    answer(waiting,
           permission_denied(fmt::format("group \"{}\" has no member on node \"{}\"",
                                         waiting.asked.request.group, waiting.asked.node)),
           deferred);
    return true;
  });
}

// Of the first that would join the group those that its tenant was not granted are told so. Returns how many
// there are then.
std::size_t Regroupings::count_joiners(const std::string& name, const RegisteredGroup& group,
                                       std::uint32_t wanted, Round& round) {
  std::vector<Waiting>& joiners = round.joiners[common_name(name)];
  for (std::size_t i = 0; i < std::min<std::size_t>(wanted, joiners.size());) {
    if (may_join(joiners[i].asked, group, round.registry)) {
      ++i;
    } else {
      answer(joiners[i],
             permission_denied(fmt::format("node \"{}\" has shown no grant for group \"{}\" of tenant \"{}\"",
                                           joiners[i].asked.node, name, group.tenant)),
             round.deferred);
      joiners.erase(joiners.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  return joiners.size();
}

void Regroupings::look_at(const Key& key, std::vector<Waiting> asks, Round& round) {
  const auto& [name, number] = key;
  const GroupRegistry::Groups& groups = round.registry.groups();
  if (const auto next = round.registry.find_next(name, number))
    return tell(spec_of(*next, *groups.at(*next)), std::move(asks), round.deferred);
  const auto found = groups.find(name);
  const auto ended = round.registry.went_on().find(name, number);
  if (ended && (found == groups.end() || found->second->tenant == ended->tenant))
    return tell_of_ended(*ended, std::move(asks), round.deferred);
  if (found != groups.end()) refuse_strangers(*found->second, asks, round.deferred);
  if (asks.empty()) return;
  const std::uint32_t wanted = asks.front().asked.request.joiners;
  Status refused;
  if (found == groups.end() || found->second->number != number) {
    refused = failed_precondition(
        fmt::format("the controller knows no group \"{}\" of number {}: it has ended", name, number));
  } else if (const auto other = std::ranges::find_if(
                 asks, [&](const Waiting& one) { return one.asked.request.joiners != wanted; });
             other != asks.end()) {
    refused = invalid_argument(fmt::format("some members of group \"{}\" ask for {} joiners, others for {}",
                                           name, wanted, other->asked.request.joiners));
  }
  if (!refused.is_ok()) {
    for (Waiting& waiting : asks) answer(waiting, refused, round.deferred);
    return;
  }
  const RegisteredGroup& group = *found->second;
  Survivors survivors;
  for (const Waiting& waiting : asks) {
    // Who asked may be gone, or have another controller by now; and another process its name.
    if (round.members.speaks(waiting.asked.node, round.now) && !is_out(group, waiting.asked.node))
      survivors[waiting.asked.node] = chosen(group, waiting.asked.node, waiting.asked.request.ranks);
  }
  // Who has asked and is gone has no say.
  const bool allow_minority = std::ranges::all_of(asks, [&](const Waiting& one) {
    return one.asked.request.allow_minority || !survivors.contains(one.asked.node);
  });
  const std::string missing = missing_for(name, group, survivors, {wanted, allow_minority}, round);
  if (missing.empty()) return decide(key, survivors, std::move(asks), round);
  for (Waiting& waiting : asks) {
    if (round.now < waiting.asked.end) {
      waiting_.push_back(std::move(waiting));
    } else {
      answer(waiting,
             deadline_exceeded(fmt::format("group \"{}\" cannot go on yet: it waits for {}", name, missing)),
             round.deferred);
    }
  }
}

// In words who must still ask, or be gone; empty: nobody.
std::string Regroupings::missing_for(const std::string& name, const RegisteredGroup& group,
                                     const Survivors& survivors, const Wish& wish, Round& round) {
  std::set<std::string> awaited;
  for (const std::string& node : group.nodes) {
    if (!survivors.contains(node) && !is_out(group, node) && round.members.contains(node))
      awaited.insert(node);
  }
  round.found.awaited.insert(awaited.begin(), awaited.end());
  if (!awaited.empty()) return describe(group, awaited);
  if (survivors.empty()) return "a node of it that is there";
  std::set<std::string> others = rivals(group, survivors, round.members);
  if (wish.allow_minority) round.found.given_up.merge(std::exchange(others, {}));
  // Their hosts may know better.
  round.found.awaited.insert(others.begin(), others.end());
  if (!others.empty())
    return fmt::format("{}, which were not heard of for a lease, and may have gone on elsewhere",
                       describe(group, others));
  // What would be decided could not be planned, and others might ask before it can.
  if (!round.members.has_quorum(round.now))
    return "more nodes to be heard of, as another controller may lead";
  const std::size_t come = count_joiners(name, group, wish.joiners, round);
  return come < wish.joiners ? fmt::format("{} of {} that are to join", wish.joiners - come, wish.joiners)
                             : std::string();
}

void Regroupings::decide(const Key& key, const Survivors& survivors, std::vector<Waiting> asks,
                         Round& round) {
  const auto& [name, number] = key;
  const GroupRegistry::Groups& groups = round.registry.groups();
  const RegisteredGroup& group = *groups.at(name);
  GroupSpec next{next_name(name, groups, round.found.decisions), group.tenant, {}, {}};
  next.origin = {name, number, {}, {}};
  next.redundancy = group.redundancy;
  for (std::uint32_t rank = 0; rank < group.nodes.size(); ++rank) {
    const auto survivor = survivors.find(group.nodes[rank]);
    if (survivor == survivors.end() || !survivor->second.contains(Rank(rank))) continue;
    next.nodes.push_back(group.nodes[rank]);
    next.origin.ranks.emplace_back(rank);
  }
  // Who was taken for dead, and is not.
  const auto out = std::stable_partition(
      asks.begin(), asks.end(), [&](const Waiting& one) { return survivors.contains(one.asked.node); });
  tell(next, {std::make_move_iterator(out), std::make_move_iterator(asks.end())}, round.deferred);
  asks.erase(out, asks.end());
  // Who came first joins, in an order that does not depend on that.
  std::vector<Waiting>& joiners = round.joiners[common_name(name)];
  const auto last = joiners.begin() + asks.front().asked.request.joiners;
  std::sort(joiners.begin(), last, [](const Waiting& one, const Waiting& other) {
    return std::tie(one.asked.node, one.asked.request.joiner) <
           std::tie(other.asked.node, other.asked.request.joiner);
  });
  for (auto joiner = joiners.begin(); joiner != last; ++joiner) {
    next.nodes.push_back(joiner->asked.node);
    next.origin.joiners.push_back(joiner->asked.request.joiner);
    asks.push_back(std::move(*joiner));
  }
  joiners.erase(joiners.begin(), last);
  Decision decision{std::move(next), {}};
  for (Waiting& waiting : asks) decision.replies.push_back(std::move(waiting.reply));
  round.found.decisions.push_back(std::move(decision));
}

std::map<std::string, std::string> Regroupings::settle(const GroupRegistry& registry, Members& members,
                                                       Requests& requests, TimePoint now,
                                                       Deferred& deferred) {
  Look found = look(registry, members, now, deferred);
  members.give_up(found.given_up);
  for (Decision& decision : found.decisions) {
    const auto told = [group = decision.group, replies = decision.replies](const Result<Answer>& answer) {
      GroupSpec made = group;
      if (answer.is_ok()) made.number = answer->group;
      for (const RegroupReply& one : replies)
        one(answer.is_ok() ? Result<GroupSpec>(made) : Result<GroupSpec>(answer.status()));
    };
    Reply reply = told;
    const Status refused = requests.add(std::move(decision.group), reply, now);
    if (!refused.is_ok()) deferred.push_back([told, refused] { told(refused); });
  }
  std::map<std::string, std::string> addresses;
  for (const std::string& node : found.awaited) {
    std::string address = members.last_address(node);
    if (!address.empty()) addresses.emplace(node, std::move(address));
  }
  return addresses;
}

void Regroupings::answer(Waiting& waiting, Result<GroupSpec> result, Deferred& deferred) {
  deferred.push_back([reply = std::move(waiting.reply), result = std::move(result)] { reply(result); });
}

void Regroupings::fail_all(const Status& reason, Deferred& deferred) {
  for (Waiting& waiting : std::exchange(waiting_, {})) answer(waiting, reason, deferred);
}

Regroupings::TimePoint Regroupings::next_end(TimePoint latest) const {
  return waiting_.empty() ? latest : std::min(latest, looked_at_ + kRegroupLook);
}

}  // namespace square::controller
