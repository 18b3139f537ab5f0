#include "node/groups/calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "node/messages/call_description.h"

namespace square {

Status different_calls(const HeardCall& one, const HeardCall& other) {
  return different_calls(Caller{one.who, {.call = one.call}}, Caller{other.who, {.call = other.call}});
}

Status different_roots(const HeardCall& one, const HeardCall& other) {
  const auto text = [](const HeardCall& heard) {
    return heard.root ? fmt::format("{} named rank {}", heard.who, heard.root->value())
                      : fmt::format("{} named another one", heard.who);
  };
  return invalid_argument(fmt::format("members must name the same root in {}: {}, {}", to_string(one.call),
                                      text(other), text(one)));
}

bool is_of_one_root(CallKind kind) { return kind == CallKind::kBroadcast || kind == CallKind::kReduce; }

bool Calls::differs_in_root(const LocalCall& local, const OperationKey& key, const HeardCall& heard) {
  if (local.kind != heard.call.kind) return false;
  if (local.root && heard.root) return local.root != heard.root;
  return is_of_one_root(local.kind) && std::ranges::none_of(local.running, [&](const OperationKey& own) {
           return own.collective == key.collective;
         });
}

std::optional<Calls::Difference> Calls::compare(const std::string& group, const OperationKey& key,
                                                const HeardCall& heard) const {
  const auto calls = calls_.find(group);
  if (heard.call.kind == CallKind::kNone || calls == calls_.end()) return std::nullopt;
  const auto differs = std::ranges::find_if(calls->second, [&](const auto& entry) {
    const auto& [number, local] = entry;
    const bool is_same_call = number == heard.call.number || local.running.contains(key);
    if (local.kind != heard.call.kind) return is_same_call;
    return number == heard.call.number && differs_in_root(local, key, heard);
  });
  if (differs == calls->second.end()) return std::nullopt;
  const auto& [number, local] = *differs;
  const HeardCall own{
      {local.kind, number}, fmt::format("rank {} on node \"{}\"", local.rank.value(), node_), local.root};
  const bool is_of_kind = local.kind == heard.call.kind;
  return Difference{is_of_kind ? different_roots(heard, own) : different_calls(heard, own), local.running};
}

void Calls::note(const std::string& group, const OperationKey& key, Rank rank, GroupCall call,
                 std::optional<Rank> root) {
  LocalCall& local = calls_[group][call.number];
  if (local.kind != call.kind) local = {call.kind, rank, root, {}};
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
