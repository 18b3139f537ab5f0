#include "controller/ledger.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "controller/kept_overlay.h"
#include "controller/protocol.h"

namespace square::controller {
namespace {

constexpr const char* kNumbersKey = "numbers";
constexpr const char* kGroupKey = "group/";
// What the controller was started with, and what was made of that.
constexpr const char* kGivenKey = "overlay/given";
constexpr const char* kOverlayKey = "overlay/now";
constexpr const char* kLinkKey = "link/";  // and the numbers of its ends

const std::string& name_of(const Topology& topology, NodeId node) { return topology.node(node).name; }

std::vector<std::string> names_of(const Topology& topology) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < topology.node_count(); ++i)
    names.push_back(name_of(topology, NodeId(static_cast<NodeId::value_type>(i))));
  return names;
}

v1::RunningSession message_of(const SessionKey& key, SessionId id, const Topology& topology) {
  v1::RunningSession session;
  session.set_id(id.value());
  session.set_collective(key.collective.value());
  session.set_kind(std::string(to_string(key.kind)));
  session.set_root(name_of(topology, key.root));
  for (const NodeId node : key.destinations) session.add_destinations(name_of(topology, node));
  return session;
}

v1::RunningGroup message_of(const std::string& name, const RegisteredGroup& group) {
  v1::RunningGroup running;
  GroupSpec spec{name, group.tenant, group.nodes, {}, {}};
  running.set_number(group.number);
  for (const std::string& node : group.closed) running.add_closed(node);
  for (const RegisteredCollective& collective : group.collectives) {
    spec.collectives.push_back(collective.spec);
    running.add_collectives(collective.id.value());
  }
  spec.origin = group.origin;
  spec.redundancy = group.redundancy;
  spec.grant = group.grant;
  spec.keys = group.keys;
  *running.mutable_group() = to_message(spec);
  return running;
}

// Numbers are sorted by collectives.
template <typename Act>
void each_session(const SessionNumbers& numbers, CollectiveId collective, const Act& act) {
  auto next = numbers.known.lower_bound(SessionKey{collective, SessionKind{}, NodeId(0), {}});
  for (; next != numbers.known.end() && next->first.collective == collective; ++next)
    act(next->first, next->second);
}

std::string record_of(const std::string& name, const RegisteredGroup& group, const SessionNumbers& numbers,
                      const Topology& topology) {
  v1::Past part;
  *part.add_groups() = message_of(name, group);
  for (const RegisteredCollective& collective : group.collectives)
    each_session(numbers, collective.id, [&](const SessionKey& key, SessionId id) {
      *part.add_sessions() = message_of(key, id, topology);
    });
  return part.SerializeAsString();
}

// At least `wanted`, and the same as before for as long as that is enough.
std::uint32_t set_aside(std::uint32_t before, std::uint32_t wanted) {
  return wanted <= before ? before : wanted + kNumbersAhead;
}

}  // namespace

Result<v1::Past> Ledger::read() {
  auto records = store_->read();
  if (!records.is_ok()) return records.status();
  v1::Past past;
  for (const auto& [key, value] : *records) {
    if (key == kGivenKey || key == kOverlayKey) continue;
    v1::Past part;
    if (!part.ParseFromString(value))
      return data_loss(fmt::format("the store's record \"{}\" is damaged", key));
    past.MergeFrom(part);
  }
  kept_ = std::move(*records);
  ahead_.set_epoch(past.epoch());
  ahead_.set_next_collective(past.next_collective());
  ahead_.set_next_session(past.next_session());
  return past;
}

Status Ledger::restore(PlanningState& state) {
  given_ = record_of_overlay(state, is_open_);
  const auto given = kept_.find(kGivenKey);
  const auto now = kept_.find(kOverlayKey);
  const bool is_same = given != kept_.end() && given->second == *given_;
  if (is_same && now != kept_.end()) SQUARE_RETURN_IF_ERROR(restore_overlay(now->second, state, is_open_));
  overlay_ = record_of_overlay(state, is_open_);
  revision_ = state.revision;
  return {};
}

// All but those of groups.
Ledger::Records Ledger::records_of(const PlanningState& state, const SessionNumbers& numbers, Epoch epoch) {
  Records records;
  v1::Past all;
  all.set_epoch(set_aside(ahead_.epoch(), epoch.value()));
  all.set_next_collective(set_aside(ahead_.next_collective(), state.registry.next_collective().value()));
  all.set_next_session(set_aside(ahead_.next_session(), numbers.next));
  all.set_next_group(state.registry.next_group());
  ahead_ = all;
  for (std::string& node : names_of(state.topology)) all.add_nodes(std::move(node));
  records[kNumbersKey] = all.SerializeAsString();
  if (state.revision != revision_) overlay_ = record_of_overlay(state, is_open_);
  revision_ = state.revision;
  records[kGivenKey] = *given_;
  records[kOverlayKey] = *overlay_;
  for (const auto& [ends, bytes] : state.measured.history) {
    records[fmt::format("{}{}/{}", kLinkKey, ends.first.value(), ends.second.value())] = *bytes;
  }
  return records;
}

Ledger::Groups Ledger::groups_of(const GroupRegistry& registry, const SessionNumbers& numbers) {
  Groups groups;
  for (const auto& [name, group] : registry.groups()) {
    KeptGroup& kept = groups.emplace_hint(groups.end(), name, KeptGroup{group, {}})->second;
    for (const RegisteredCollective& collective : group->collectives)
      each_session(numbers, collective.id,
                   [&](const SessionKey&, SessionId id) { kept.sessions.push_back(id); });
  }
  return groups;
}

std::vector<store::Write> Ledger::writes_for(const Records& records, const Groups& groups,
                                             const SessionNumbers& numbers, const Topology& topology) const {
  std::vector<store::Write> writes;
  const auto add = [&](const std::string& key, std::string value) {
    const auto known = kept_.find(key);
    if (known == kept_.end() || known->second != value) writes.push_back({key, std::move(value)});
  };
  for (const auto& [key, value] : records) add(key, value);
  const bool has_same_nodes = nodes_ == names_of(topology);
  for (const auto& [name, group] : groups) {
    const auto known = groups_.find(name);
    if (has_same_nodes && known != groups_.end() && known->second == group) continue;
    add(kGroupKey + name, record_of(name, *group.group, numbers, topology));
  }
  for (const auto& [key, value] : kept_) {
    const std::string_view rest(key);
    const bool is_group = rest.starts_with(kGroupKey);
    if (is_group ? !groups.contains(rest.substr(std::string_view(kGroupKey).size())) : !records.contains(key))
      writes.push_back({key, std::nullopt});
  }
  return writes;
}

Status Ledger::keep(const PlanningState& state, const SessionNumbers& numbers, Epoch epoch) {
  const v1::Past before = ahead_;
  Groups groups = groups_of(state.registry, numbers);
  std::vector<store::Write> writes =
      writes_for(records_of(state, numbers, epoch), groups, numbers, state.topology);
  const Status written = store_->write(writes);
  if (written.is_ok()) {
    for (store::Write& write : writes) {
      write.value ? (void)(kept_[write.key] = *std::move(write.value)) : (void)kept_.erase(write.key);
    }
    groups_ = std::move(groups);
    nodes_ = names_of(state.topology);
    return {};
  }
  ahead_ = before;
  revision_.reset();  // the state that was refused is gone
  const bool is_only_the_disk = writes.empty() && written.code() != StatusCode::kFailedPrecondition;
  if (!is_only_the_disk) return written;
  log(LogLevel::kWarning, "controller", "{}", written.message());
  return {};
}

}  // namespace square::controller
