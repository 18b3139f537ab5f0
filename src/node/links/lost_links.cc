#include "node/links/lost_links.h"

#include <fmt/format.h>

#include <algorithm>

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

}  // namespace square
