#include "node/links/lost_links.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/planted.h"

namespace square {
namespace {

bool leads_over(const LocalStream& stream, LinkEnd end, const std::string& peer) {
  const auto& neighbours = end == LinkEnd::kTail ? stream.children : stream.parents;
  return std::ranges::find(neighbours, peer) != neighbours.end();
}

}  // namespace

bool LostLinks::uses(const InstalledCollective& collective, LinkEnd end, const std::string& peer) {
  return std::ranges::any_of(collective.streams(),
                             [&](const LocalStream& stream) { return leads_over(stream, end, peer); });
}

std::string LostLinks::describe(const InstalledCollective& collective, TimePoint now) const {
  std::string text;
  for (const auto& [link, loss] : lost_) {
    const auto& [end, peer] = link;
    if (!uses(collective, end, peer)) continue;
    const bool is_tail = end == LinkEnd::kTail;
    text += fmt::format("; link \"{}\" -> \"{}\" has been down for {:.1f} s: {}", is_tail ? node_ : peer,
                        is_tail ? peer : node_, to_seconds(now - loss.since), loss.reason);
  }
  return text;
}

void LostLinks::note_gone(const std::string& peer, const std::string& reason) {
  gone_[peer] = unavailable(fmt::format("node \"{}\" is gone: {}", peer, reason));
}

Status LostLinks::check_members(const InstalledCollective& collective, const PlanSession& session) const {
  if (is_planted(Bug::kRelayDeathAborts) && !gone_.empty()) return gone_.begin()->second;
  for (const NodeId member : session.members) {
    const auto gone = gone_.find(collective.name_of(member));
    if (gone != gone_.end()) return gone->second;
  }
  return Status::ok();
}

Status LostLinks::check_members(const InstalledCollective& collective) const {
  if (gone_.empty()) return Status::ok();
  for (const PlanSession& session : collective.sessions()) {
    SQUARE_RETURN_IF_ERROR(check_members(collective, session));
  }
  return Status::ok();
}

}  // namespace square
