#include "controller/adoption.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/planted.h"
#include "base/weight.h"
#include "controller/ledger.h"
#include "controller/open_overlay.h"
#include "controller/overlay_change.h"
#include "controller/protocol.h"

namespace square::controller {
namespace {

Status given_twice(const std::string& what) {
  return failed_precondition(what +
                             "; the controller was started anew and has given it again meanwhile: end this "
                             "process and start another, or give the controller a store");
}

NodeId number(std::size_t index) { return NodeId(static_cast<NodeId::value_type>(index)); }

bool has_long_name(const v1::WentOn& one) {
  const std::size_t longest = std::max({one.group().size(), one.tenant().size(), one.next().size()});
  return longest > kMaxGroupNameBytes;
}

// What no controller can have given: numbers near their end, or past what was given in all. This overlay's
// own may be farther than what is taken of another, so that such a word leaves room for those that are given
// next.
Status check_bounds(const v1::Past& past, bool is_own) {
  constexpr std::uint32_t kRoom = std::uint32_t{1} << 26U;
  constexpr std::uint64_t kNumbers = std::uint64_t{1} << 32U;
  const std::uint64_t most = kNumbers - (is_own ? 2 * kNumbersAhead : 2 * kRoom);
  const std::uint64_t epochs = (kNumbers / 2) + (is_own ? kRoom : 0);
  const auto is_ahead = [&](const v1::RunningGroup& group) {
    return group.number() >= past.next_group() ||
           std::ranges::any_of(group.collectives(), [&](auto id) { return id >= past.next_collective(); });
  };
  const bool is_wrong =
      past.epoch() >= epochs || past.next_collective() >= most || past.next_session() >= most ||
      past.next_group() >= (std::uint64_t{1} << (is_own ? 63U : 62U)) ||
      static_cast<std::size_t>(past.groups_size()) > kMaxGroups ||
      static_cast<std::size_t>(past.nodes_size()) > kMaxNodes ||
      static_cast<std::size_t>(past.went_on_size()) > kMaxWentOn ||
      std::ranges::any_of(past.went_on(), has_long_name) || std::ranges::any_of(past.groups(), is_ahead) ||
      std::ranges::any_of(past.sessions(), [&](const auto& one) { return one.id() >= past.next_session(); });
  if (is_wrong) return invalid_argument("what the node tells of an earlier controller cannot be");
  return {};
}

// The nodes that both know have the same numbers.
Status check_nodes(const v1::Past& past, const Topology& topology) {
  for (int i = 0; i < past.nodes_size(); ++i) {
    const auto index = static_cast<std::size_t>(i);
    const auto known = topology.find_node(past.nodes(i));
    const bool is_taken = index < topology.node_count();
    if (known ? *known != number(index) : is_taken) {
      return given_twice(fmt::format("node \"{}\" had number {}", past.nodes(i), i));
    }
  }
  return {};
}

Result<GroupRegistry::Adopted> group_of(const v1::RunningGroup& running, bool is_kept) {
  SQUARE_ASSIGN_OR_RETURN(GroupSpec spec, from_message(running.group()));
  // It may have been registered when any weight was taken.
  for (GroupCollective& one : spec.collectives)
    one.weight = std::clamp(one.weight, kLeastWeight, kMostWeight);
  GroupRegistry::Adopted group{std::move(spec), {}, running.number(), {}, is_kept};
  for (const auto id : running.collectives()) group.collectives.emplace_back(id);
  group.closed.insert(running.closed().begin(), running.closed().end());
  return group;
}

std::optional<SessionKind> parse_kind(const std::string& text) {
  constexpr std::array kKinds{SessionKind::kMulticast, SessionKind::kReduce, SessionKind::kUnicast};
  const auto* const found = std::ranges::find(kKinds, text, [](SessionKind kind) { return to_string(kind); });
  return found == kKinds.end() ? std::nullopt : std::optional(*found);
}

// Nothing where a node is unknown: then the session is, too.
std::optional<SessionKey> key_of(const v1::RunningSession& session, const Topology& topology) {
  const auto kind = parse_kind(session.kind());
  const auto root = topology.find_node(session.root());
  if (!kind || !root) return std::nullopt;
  SessionKey key{CollectiveId(session.collective()), *kind, *root, {}, 0};
  for (const std::string& name : session.destinations()) {
    const auto node = topology.find_node(name);
    if (!node) return std::nullopt;
    key.destinations.push_back(*node);
  }
  std::ranges::sort(key.destinations);
  return key;
}

// The nodes in the order of their numbers, with those of the state behind, and then as they came.
Status take_nodes(const v1::Past& past, PlanningState& state) {
  Topology numbered;
  for (const std::string& name : past.nodes()) SQUARE_RETURN_IF_ERROR(numbered.add_node({name}).status());
  std::set<std::string> arrived(past.nodes().begin(), past.nodes().end());
  for (std::size_t i = 0; i < state.topology.node_count(); ++i)
    arrived.insert(state.topology.node(number(i)).name);
  SQUARE_RETURN_IF_ERROR(OpenOverlay::check_room(arrived.size() - 1));
  SQUARE_ASSIGN_OR_RETURN(state.topology, remesh(numbered, arrived, {}));
  return {};
}

// Nor the sessions of those groups.
v1::Past without(const v1::Past& past, const std::function<bool(const v1::RunningGroup&)>& is_out) {
  v1::Past left = past;
  std::set<std::uint32_t> out;
  left.clear_groups();
  left.clear_sessions();
  for (const v1::RunningGroup& running : past.groups()) {
    if (is_out(running)) {
      out.insert(running.collectives().begin(), running.collectives().end());
    } else {
      *left.add_groups() = running;
    }
  }
  for (const v1::RunningSession& session : past.sessions()) {
    if (!out.contains(session.collective())) *left.add_sessions() = session;
  }
  return left;
}

}  // namespace

Status check_past(const v1::Past& past, const std::string& teller, const PlanningState& state, bool has_plan,
                  bool is_own) {
  SQUARE_RETURN_IF_ERROR(check_bounds(past, is_own));
  if (has_plan) SQUARE_RETURN_IF_ERROR(check_nodes(past, state.topology));
  GroupRegistry::Owners owners = state.registry.owners();
  for (const v1::RunningGroup& running : past.groups()) {
    SQUARE_ASSIGN_OR_RETURN(const GroupRegistry::Adopted group, group_of(running, teller.empty()));
    if (!teller.empty() && std::ranges::find(group.spec.nodes, teller) == group.spec.nodes.end()) {
      return permission_denied(
          fmt::format("it tells of group \"{}\", which has no member on it", group.spec.name));
    }
    if (const Status free = state.registry.check_adopted(group, owners); !free.is_ok())
      return given_twice(free.message());
    for (const CollectiveId id : group.collectives) owners.emplace(id, group.spec.name);
  }
  return {};
}

bool exceeds(const v1::Past& past, const GivenNumbers& given) {
  return past.epoch() > given.epoch || past.next_collective() > given.collective ||
         past.next_session() > given.session || past.next_group() > given.group;
}

v1::Past without_gone_on(const v1::Past& past, const GroupRegistry& registry) {
  return without(past, [&](const v1::RunningGroup& running) {
    return registry.went_on().find(running.group().name(), running.number()).has_value();
  });
}

v1::Past without_ended(const v1::Past& past, const GroupRegistry& registry) {
  return without(past, [&](const v1::RunningGroup& running) {
    const auto found = registry.groups().find(running.group().name());
    return found != registry.groups().end() && found->second->number > running.number();
  });
}

v1::Past known_part(const v1::Past& past, const GroupRegistry& registry) {
  return without(past, [&](const v1::RunningGroup& running) {
    const auto found = registry.groups().find(running.group().name());
    return found == registry.groups().end() || found->second->number != running.number();
  });
}

Result<bool> adopt(const v1::Past& past, const std::string& teller, PlanningState& state, bool is_open) {
  const bool lacks_nodes = std::ranges::any_of(
      past.nodes(), [&](const std::string& name) { return !state.topology.find_node(name); });
  bool is_news = is_open && lacks_nodes;
  if (is_news) SQUARE_RETURN_IF_ERROR(take_nodes(past, state));
  for (const v1::RunningGroup& running : past.groups()) {
    SQUARE_ASSIGN_OR_RETURN(const GroupRegistry::Adopted group, group_of(running, teller.empty()));
    SQUARE_ASSIGN_OR_RETURN(const bool is_new, state.registry.adopt(group, state.topology));
    is_news = is_news || is_new;
  }
  if (!is_planted(Bug::kNumbersAgain))
    state.registry.give_none_below(CollectiveId(past.next_collective()), past.next_group());
  return is_news;
}

bool adopt_sessions(const v1::Past& past, const std::string& teller, const PlanningState& state,
                    SessionNumbers& numbers) {
  const auto node = state.topology.find_node(teller);
  const auto is_told = [&](const SessionKey& key) {
    if (teller.empty()) return true;
    return node && (key.root == *node || std::ranges::binary_search(key.destinations, *node));
  };
  bool is_news = false;
  std::map<SessionKey, std::size_t> occurrences;
  std::map<SessionId, SessionKey> owners;
  for (const auto& [key, id] : numbers.known) owners.emplace(id, key);
  for (const v1::RunningSession& session : past.sessions()) {
    auto key = key_of(session, state.topology);
    if (!key || !is_told(*key)) continue;
    key->occurrence = occurrences[*key]++;
    const auto owner = owners.emplace(SessionId(session.id()), *key).first;
    if (owner->second != *key) continue;  // another's
    // The older number wins: one of its members is who tells of it, and no operation ended without that.
    const auto [known, is_new] = numbers.known.try_emplace(*std::move(key), session.id());
    is_news = is_news || (!is_new && known->second != SessionId(session.id()));
    known->second = SessionId(session.id());
    numbers.next = std::max(numbers.next, session.id() + 1);
  }
  numbers.next = std::max(numbers.next, past.next_session());
  return is_news;
}

}  // namespace square::controller
