#include "controller/session_numbers.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/check.h"

namespace square::controller {
namespace {

SessionKey key_of(const PlanSession& session) {
  SessionKey key{session.collective, session.kind, session.root, {}, 0};
  for (const NodeId member : session.members) {
    if (member != session.root) key.destinations.push_back(member);
  }
  std::sort(key.destinations.begin(), key.destinations.end());
  return key;
}

}  // namespace

void renumber_sessions(Plan& plan, SessionNumbers& numbers) {
  std::unordered_set<CollectiveId> present;
  for (const PlanCollective& collective : plan.collectives) present.insert(collective.id);
  std::erase_if(numbers.known, [&](const auto& entry) { return !present.contains(entry.first.collective); });

  std::map<SessionKey, std::size_t> occurrences;
  std::unordered_map<SessionId, SessionId> lasting;
  for (const PlanSession& session : plan.sessions) {
    SessionKey key = key_of(session);
    const std::size_t occurrence = occurrences[key]++;
    key.occurrence = occurrence;
    const auto [known, added] = numbers.known.try_emplace(std::move(key), SessionId(numbers.next));
    if (added) ++numbers.next;
    lasting[session.id] = known->second;
  }
  const auto renumber = [&](SessionId& id) {
    const auto found = lasting.find(id);
    SQUARE_CHECK(found != lasting.end(), "a plan refers to its own sessions only");
    id = found->second;
  };
  for (PlanSession& session : plan.sessions) {
    renumber(session.id);
    if (session.pair) renumber(*session.pair);
  }
  for (PlanCollective& collective : plan.collectives) {
    for (SessionId& session : collective.sessions) renumber(session);
  }
  for (PlanLevel& level : plan.certificate.levels) {
    for (PlanPacking& packing : level.packings) renumber(packing.session);
  }
  std::sort(plan.sessions.begin(), plan.sessions.end(),
            [](const PlanSession& a, const PlanSession& b) { return a.id < b.id; });
}

}  // namespace square::controller
