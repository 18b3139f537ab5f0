#include "node/groups/calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "node/messages/call_description.h"

namespace square {

Status different_calls(const HeardCall& one, const HeardCall& other) {
  return different_calls(Caller{one.who, {.call = one.call}}, Caller{other.who, {.call = other.call}});
}

std::optional<Calls::Difference> Calls::compare(const std::string& group, const OperationKey& key,
                                                const HeardCall& heard) const {
  const auto calls = calls_.find(group);
  if (heard.call.kind == CallKind::kNone || calls == calls_.end()) return std::nullopt;
  const auto differs = std::ranges::find_if(calls->second, [&](const auto& entry) {
    const auto& [number, local] = entry;
    return local.kind != heard.call.kind && (number == heard.call.number || local.running.contains(key));
  });
  if (differs == calls->second.end()) return std::nullopt;
  const auto& [number, local] = *differs;
  const std::string other = fmt::format("rank {} on node \"{}\"", local.rank.value(), node_);
  return Difference{different_calls(heard, {{local.kind, number}, other}), local.running};
}

void Calls::note(const std::string& group, const OperationKey& key, Rank rank, GroupCall call) {
  LocalCall& local = calls_[group][call.number];
  if (local.kind != call.kind) local = {call.kind, rank, {}};
  local.running.insert(key);
}

void Calls::forget(const std::string& group, const OperationKey& key) {
  const auto calls = calls_.find(group);
  if (calls == calls_.end()) return;
  for (auto call = calls->second.begin(); call != calls->second.end();) {
    call->second.running.erase(key);
    call = call->second.running.empty() ? calls->second.erase(call) : std::next(call);
  }
  if (calls->second.empty()) calls_.erase(calls);
}

}  // namespace square
