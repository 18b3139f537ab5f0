#include "node/links/refusals.h"

#include <fmt/format.h>

#include "base/log.h"
#include "base/planted.h"

namespace square {

void Refusals::note(const std::string& peer, const std::string& address, const Status& reason) {
  Refused& refused = refused_[peer];
  if (refused.attempts++ == 0) refused.since = node_.clock.now();
  if (refused.attempts < kAttemptsOfRefused || host_.has_left(peer)) return;
  sought_.erase(peer);
  if (is_planted(Bug::kRefusedIsGone)) return host_.set_gone(peer, "its host refuses connections");
  if (broken_.note_refused(peer, refused.since, host_.is_up(peer))) {
    log(LogLevel::kWarning, {.component = "node", .node = node_.options.name, .peer = peer},
        "{}: connections to node \"{}\" are refused: {}; plans avoid the link, where they can, and it is "
        "dialled on",
        node_.options.name, peer, reason.message());
    node_.executor.post_at(refused.since + kLongestRefusal,
                           life_.bind([this, peer, address] { judge(peer, address); }));
  }
  judge(peer, address);
}

void Refusals::judge(const std::string& peer, const std::string& address) {
  const bool is_over = !broken_.is_refused(peer) || host_.is_up(peer) || host_.has_left(peer);
  if (is_over || node_.clock.now() < refused_[peer].since + kLongestRefusal) return;
  if (broken_.has_controller()) return;  // it asks others, and says so
  host_.set_gone(peer, fmt::format("its host has refused connections at {} for {:.0f} s", address,
                                   to_seconds(kLongestRefusal)));
}

void Refusals::forget(const std::string& peer) {
  refused_.erase(peer);
  broken_.note_not_refused(peer);
}

}  // namespace square
