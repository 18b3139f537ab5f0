#include "node/groups/agreement.h"

#include <fmt/format.h>

#include <algorithm>

namespace square {

bool Agreement::compare(const OperationKey& key, const HeardCall& heard) {
  const auto difference = calls_.compare(groups_.look(key.collective).group, key, heard);
  if (!difference) return true;
  failures_.announce(key, difference->cause, heard.call);
  for (const OperationKey& one : difference->running) {
    failures_.announce(one, difference->cause, heard.call);
  }
  return false;
}

bool Agreement::on_call(const OperationKey& key, const MemberOperation& member) {
  const GroupCall call = member.call;
  if (!compare(key, {call, fmt::format("rank {}", member.rank.value()), member.call_root})) return false;
  const std::string& group = groups_.look(key.collective).group;
  if (call.kind == CallKind::kNone || group.empty()) return true;
  calls_.note(group, key, member.rank, call, member.call_root);
  return compare_heard(key, call);
}

// With what came before this member called.
bool Agreement::compare_heard(const OperationKey& key, GroupCall call) {
  const std::string& group = groups_.look(key.collective).group;
  const auto differs = std::ranges::find_if(operations_.all(), [&](const auto& entry) {
    const auto& heard = entry.second->heard_call();
    if (!heard) return false;
    const bool is_number = heard->call.number == call.number;
    const bool is_other = heard->call.kind != call.kind ? is_number || entry.first == key
                                                        : is_number && is_of_one_root(call.kind) &&
                                                              entry.first.collective != key.collective;
    return is_other && groups_.look(entry.first.collective).group == group;
  });
  if (differs == operations_.all().end()) return true;
  const auto operation = differs->second;
  return compare(OperationKey(differs->first), *operation->heard_call());
}

bool Agreement::on_frame(const OperationKey& key, Operation& operation, const FrameHeader& header,
                         std::string_view from) {
  if (header.call == 0) return true;
  const GroupCall call = group_call_from_bits(header.call);
  const auto& known = operation.heard_call();
  if (known && known->call == call) return true;
  const auto heard = known;
  const HeardCall now{call, fmt::format("a member whose data comes from node \"{}\"", from)};
  if (!heard) operation.hear_call(now);
  if (!compare(key, now)) return false;
  if (!heard || heard->call.kind == call.kind) return true;
  // Nobody has called here yet, and the others differ.
  failures_.announce(key, different_calls(now, *heard), call);
  return false;
}

}  // namespace square
