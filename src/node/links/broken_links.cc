#include "node/links/broken_links.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace square {

BrokenLinks::BrokenLinks(NodeContext& node, IsWanted is_wanted)
    : node_(node), is_wanted_(std::move(is_wanted)) {
  node_.lossy.set_changed([this] { tell(); });
}

void BrokenLinks::set_report(Report report, HasController has_controller) {
  report_ = std::move(report);
  has_controller_ = std::move(has_controller);
  if (!troubles().is_empty()) tell();
}

void BrokenLinks::note_bad(const std::string& peer, Duration grace) {
  if (node_.is_stopping) return;
  Link& link = links_[peer];
  if (std::exchange(link.is_bad, true)) return;
  if (!link.is_reported) return after(peer, grace, &BrokenLinks::report);
  link.trial = std::min(2 * link.trial, kMaxTrial);
  link.change = ++changes_;  // the trial is over
}

bool BrokenLinks::note_refused(const std::string& peer, TimePoint since, bool is_heard) {
  if (node_.is_stopping || (!is_refused(peer) && refused_.size() >= kMaxBrokenLinks)) return false;
  const RefusedPeer now{peer, since, is_heard};
  const auto [entry, is_new] = refused_.try_emplace(peer, now);
  const bool has_changed = is_new || entry->second != now;
  entry->second = now;
  const auto link = links_.find(peer);
  const bool is_due = link != links_.end() && link->second.is_bad && !link->second.is_reported;
  if (is_due && is_wanted_(peer)) {
    link->second.change = ++changes_;
    report(peer);
  } else if (has_changed) {
    tell();
  }
  return is_new;
}

void BrokenLinks::note_not_refused(const std::string& peer) {
  if (refused_.erase(peer) > 0) tell();
}

void BrokenLinks::note_well(const std::string& peer) {
  const auto found = links_.find(peer);
  if (found == links_.end() || !std::exchange(found->second.is_bad, false)) return;
  const Link& link = found->second;
  if (link.is_reported) return after(peer, link.trial, &BrokenLinks::take_back);
  // How often it broke before is remembered for a while.
  if (!link.taken_back_at) return drop(peer);
  after(peer, *link.taken_back_at + kFlapTime - node_.clock.now(), &BrokenLinks::drop);
}

void BrokenLinks::forget(const std::string& peer) {
  const bool was_reported = contains(peer);
  links_.erase(peer);
  const bool was_refused = refused_.erase(peer) > 0;
  if (was_reported || was_refused) tell();
}

bool BrokenLinks::contains(const std::string& peer) const {
  const auto found = links_.find(peer);
  return found != links_.end() && found->second.is_reported;
}

void BrokenLinks::after(const std::string& peer, Duration time, Step step) {
  const std::uint64_t change = links_.at(peer).change = ++changes_;
  node_.executor.post_at(node_.clock.now() + time, life_.bind([this, peer, change, step] {
    const auto found = links_.find(peer);
    if (found != links_.end() && found->second.change == change) (this->*step)(peer);
  }));
}

void BrokenLinks::report(const std::string& peer) {
  Link& link = links_.at(peer);
  if (node_.is_stopping || !is_wanted_(peer) || reported().size() >= kMaxBrokenLinks) return drop(peer);
  const bool flaps = link.taken_back_at && node_.clock.now() < *link.taken_back_at + kFlapTime;
  link.trial = flaps ? std::min(2 * link.trial, kMaxTrial) : kMinTrial;
  link.is_reported = true;
  tell();
}

void BrokenLinks::take_back(const std::string& peer) {
  Link& link = links_.at(peer);
  link.is_reported = false;
  link.taken_back_at = node_.clock.now();
  after(peer, kFlapTime, &BrokenLinks::drop);
  log(LogLevel::kInfo, {.component = "node", .node = node_.options.name, .peer = peer},
      "{}: link \"{}\" -> \"{}\" is well again", node_.options.name, node_.options.name, peer);
  tell();
}

void BrokenLinks::tell() const {
  if (report_) report_(troubles());
}

LinkTroubles BrokenLinks::troubles() const {
  LinkTroubles all{reported(), {}, node_.lossy.list()};
  for (const auto& [peer, refused] : refused_) all.refused.push_back(refused);
  return all;
}

std::vector<std::string> BrokenLinks::reported() const {
  std::vector<std::string> peers;
  for (const auto& [peer, link] : links_) {
    if (link.is_reported) peers.push_back(peer);
  }
  return peers;
}

}  // namespace square
