// Whether the members of a group call the same operations in the same order.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "node/core.h"
#include "node/messages/call_description.h"

namespace square {

Status different_calls(const HeardCall& one, const HeardCall& other) {
  return different_calls(Caller{one.who, {.call = one.call}}, Caller{other.who, {.call = other.call}});
}

bool DataPlane::Core::compare_calls(const OperationKey& key, const std::string& who, GroupCall call) {
  const auto group = calls_.find(collectives_[key.collective].group);
  if (call.kind == CallKind::kNone || group == calls_.end()) return true;
  // One number, or one operation, where a member has called more or less often than the others.
  const auto differs = std::ranges::find_if(group->second, [&](const auto& entry) {
    const auto& [number, local] = entry;
    return local.kind != call.kind && (number == call.number || local.running.contains(key));
  });
  if (differs == group->second.end()) return true;
  const auto& [number, local] = *differs;
  const std::string other = fmt::format("rank {} on node \"{}\"", local.rank.value(), context_.options.name);
  const Status cause = different_calls({call, who}, {{local.kind, number}, other});
  // Both, for each has members that may know of no session of the other.
  const std::set<OperationKey> running = local.running;
  announce_failure(key, cause);
  for (const OperationKey& one : running) announce_failure(one, cause);
  return false;
}

bool DataPlane::Core::note_call(const OperationKey& key, Rank rank, GroupCall call) {
  const std::string& group = collectives_[key.collective].group;
  if (call.kind == CallKind::kNone || group.empty()) return true;
  LocalCall& local = calls_[group][call.number];
  if (local.kind != call.kind) local = {call.kind, rank, {}};
  local.running.insert(key);
  // What came before this member called.
  const auto differs = std::ranges::find_if(operations_, [&](const auto& entry) {
    const auto& heard = entry.second->heard_call();
    return heard && heard->call.kind != call.kind &&
           (heard->call.number == call.number || entry.first == key) &&
           collectives_[entry.first.collective].group == group;
  });
  if (differs == operations_.end()) return true;
  const auto operation = differs->second;
  return compare_calls(OperationKey(differs->first), operation->heard_call()->who,
                       operation->heard_call()->call);
}

void DataPlane::Core::forget_calls(const OperationKey& key) {
  const auto group = calls_.find(collectives_[key.collective].group);
  if (group == calls_.end()) return;
  for (auto call = group->second.begin(); call != group->second.end();) {
    call->second.running.erase(key);
    call = call->second.running.empty() ? group->second.erase(call) : std::next(call);
  }
  if (group->second.empty()) calls_.erase(group);
}

bool DataPlane::Core::agrees_on_call(const OperationKey& key, Operation& operation, const FrameHeader& header,
                                     std::string_view from) {
  if (header.call == 0) return true;
  const GroupCall call = group_call_from_bits(header.call);
  const auto heard = operation.heard_call();
  if (heard && heard->call == call) return true;
  const HeardCall now{call, fmt::format("a member whose data comes from node \"{}\"", from)};
  if (!heard) operation.hear_call(now);
  if (!compare_calls(key, now.who, call)) return false;
  if (!heard || heard->call.kind == call.kind) return true;
  // Nobody has called here yet, and the others differ.
  announce_failure(key, different_calls(now, *heard));
  return false;
}

}  // namespace square
