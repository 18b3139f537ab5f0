#include "node/links/lost_links.h"

#include <fmt/format.h>

#include <algorithm>

namespace square {
namespace {

bool uses(const LocalStream& stream, LinkEnd end, const std::string& peer) {
  const auto& neighbours = end == LinkEnd::kTail ? stream.children : stream.parents;
  return std::ranges::find(neighbours, peer) != neighbours.end();
}

}  // namespace

Status LostLinks::check(const Question& question, TimePoint now, std::optional<TimePoint>& next) const {
  const auto& [plan, collective, since] = question;
  for (const PlanSession* session : plan.sessions_of(collective)) {
    for (const LocalStream* stream : plan.streams_of(session->id)) {
      for (const auto& [link, reason] : lost_) {
        const auto& [end, peer] = link;
        if (!uses(*stream, end, peer)) continue;
        const auto neighbour = plan.plan().find_node(peer);
        const bool is_member = std::ranges::find(session->members, neighbour) != session->members.end();
        const Duration wait = is_member ? kMemberReturnTime : kRelayReturnTime;
        if (now < since + wait) {
          next = std::min(next.value_or(since + wait), since + wait);
          continue;
        }
        const bool is_tail = end == LinkEnd::kTail;
        return unavailable(
            fmt::format("link \"{}\" -> \"{}\" went down and did not come back in {:.0f} s: {}",
                        is_tail ? node_ : peer, is_tail ? peer : node_, to_seconds(wait), reason));
      }
    }
  }
  return Status::ok();
}

}  // namespace square
