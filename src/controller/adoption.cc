#include "controller/adoption.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/log.h"
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

Result<GroupRegistry::Adopted> group_of(const v1::RunningGroup& running) {
  SQUARE_ASSIGN_OR_RETURN(GroupSpec spec, from_message(running.group()));
  GroupRegistry::Adopted group{std::move(spec), {}, running.number(), {}};
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
  SQUARE_ASSIGN_OR_RETURN(state.topology, remesh(numbered, arrived, {}));
  return {};
}

}  // namespace

Status check_past(const v1::Past& past, const PlanningState& state, bool has_plan) {
  if (has_plan) SQUARE_RETURN_IF_ERROR(check_nodes(past, state.topology));
  for (const v1::RunningGroup& running : past.groups()) {
    SQUARE_ASSIGN_OR_RETURN(const GroupRegistry::Adopted group, group_of(running));
    if (const Status free = state.registry.check_adopted(group); !free.is_ok())
      return given_twice(free.message());
  }
  return {};
}

bool adopt(const v1::Past& past, PlanningState& state, bool is_open) {
  const bool lacks_nodes = std::ranges::any_of(
      past.nodes(), [&](const std::string& name) { return !state.topology.find_node(name); });
  if (is_open && lacks_nodes) {
    if (const Status taken = take_nodes(past, state); !taken.is_ok())
      log(LogLevel::kError, "controller", "cannot take over nodes: {}", taken.to_string());
  }
  bool changed = false;
  for (const v1::RunningGroup& running : past.groups()) {
    const auto group = group_of(running);
    const auto adopted =
        group.is_ok() ? state.registry.adopt(*group, state.topology) : Result<bool>(group.status());
    if (adopted.is_ok()) {
      changed = changed || *adopted;
    } else {
      log(LogLevel::kError, "controller", "cannot take over a group: {}", adopted.status().to_string());
    }
  }
  state.registry.give_none_below(CollectiveId(past.next_collective()), past.next_group());
  return changed;
}

void adopt_sessions(const v1::Past& past, const PlanningState& state, SessionNumbers& numbers) {
  std::map<SessionKey, std::size_t> occurrences;
  for (const v1::RunningSession& session : past.sessions()) {
    auto key = key_of(session, state.topology);
    if (!key) continue;
    key->occurrence = occurrences[*key]++;
    // The older number wins: one of its members is who tells of it, and no operation ended without that.
    numbers.known.insert_or_assign(*std::move(key), SessionId(session.id()));
    numbers.next = std::max(numbers.next, session.id() + 1);
  }
  numbers.next = std::max(numbers.next, past.next_session());
}

}  // namespace square::controller
