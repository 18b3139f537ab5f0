#include "node/links/departures.h"

#include <fmt/format.h>

#include "base/check.h"
#include "base/planted.h"

namespace square {

void Departures::forget(const std::string& peer) {
  announced_.erase(peer);
  gone_.erase(peer);
}

void Departures::end_grace(const std::string& peer) {
  const auto gone = gone_.find(peer);
  if (gone != gone_.end()) gone->second.finished.reset();
}

bool Departures::has_said_goodbye(const std::string& peer) const {
  const auto announced = announced_.find(peer);
  return left_in_order(peer) || (announced != announced_.end() && announced->second.finished);
}

bool Departures::left_in_order(const std::string& peer) const {
  const auto gone = gone_.find(peer);
  return gone != gone_.end() && gone->second.finished;
}

bool Departures::has_finished(const std::string& peer, CollectiveId collective, OperationId operation) const {
  const auto gone = gone_.find(peer);
  if (gone == gone_.end() || !gone->second.finished) return false;
  const auto count = gone->second.finished->find(collective);
  return count != gone->second.finished->end() && operation.value() < count->second;
}

Status Departures::check(const InstalledCollective& collective, const PlanSession& session,
                         OperationId operation) const {
  const auto is_gone = [](const auto& entry) {
    return unavailable(fmt::format("node \"{}\" is gone: {}", entry.first, entry.second.reason));
  };
  if (is_planted(Bug::kRelayDeathAborts) && !gone_.empty()) return is_gone(*gone_.begin());
  for (const NodeId member : session.members) {
    const std::string& name = collective.name_of(member);
    const auto gone = gone_.find(name);
    if (gone != gone_.end() && !has_finished(name, collective.id(), operation)) return is_gone(*gone);
  }
  return Status::ok();
}

Status Departures::check(const InstalledCollective& collective, OperationId operation) const {
  if (gone_.empty()) return Status::ok();
  for (const PlanSession& session : collective.sessions()) {
    SQUARE_RETURN_IF_ERROR(check(collective, session, operation));
  }
  return Status::ok();
}

}  // namespace square
