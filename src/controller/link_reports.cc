#include "controller/link_reports.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "controller/protocol.h"

namespace square::controller {
namespace {

std::string names_of(const std::set<LinkName>& links) {
  std::vector<std::string> names;
  for (const auto& [from, to] : links) names.push_back(fmt::format("{} -> {}", from, to));
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

bool LinkReports::note(const std::string& tail, const v1::BrokenLinks& report, const Members& members,
                       TimePoint now) {
  bool is_news = false;
  const int count = std::min(report.peers_size(), kMaxReportedLinks);
  const std::set<std::string> peers(report.peers().begin(), report.peers().begin() + count);
  for (auto& [node, head] : heads_) {
    if (!peers.contains(node)) is_news = head.tails.erase(tail) > 0 || is_news;
  }
  std::erase_if(heads_, [](const auto& entry) { return entry.second.tails.empty(); });
  for (const std::string& node : peers) {
    const Member* const member = members.find(node);
    if (node == tail || node.size() > kMaxNodeNameBytes) continue;
    const auto [entry, is_new] = heads_.try_emplace(node);
    Head& head = entry->second;
    const bool is_first = head.tails.insert(tail).second;
    is_news = (is_first && member != nullptr) || is_news;
    // Another tail may have lost it because it is silent now, which it was not before.
    if (!is_new && !(is_first && head.fault == Fault::kLinks)) continue;
    // Who has not joined yet may do so: the tail says this once.
    const bool is_there = member != nullptr && member->line != nullptr;
    const bool is_heard = is_there && now - member->heard_at < kLastWord;
    head.fault = !is_there ? Fault::kAway : is_heard ? Fault::kLinks : Fault::kAsked;
    head.until = head.fault == Fault::kAsked ? now + kNextWord : TimePoint::max();
  }
  return is_news;
}

bool LinkReports::note_heard(const std::string& node, TimePoint now) {
  if (heads_.empty()) return false;
  const auto found = heads_.find(node);
  if (found == heads_.end()) return false;
  Head& head = found->second;
  if (head.fault == Fault::kAsked) {
    head.fault = Fault::kLinks;
    head.until = TimePoint::max();
    return true;
  }
  if (head.fault == Fault::kSilent || head.fault == Fault::kAway) {
    head.fault = Fault::kRecovering;
    head.until = now + kRecovery;
  }
  return false;
}

void LinkReports::note_lost(const std::string& node) {
  const auto found = heads_.find(node);
  if (found == heads_.end()) return;
  found->second.fault = Fault::kAway;
  found->second.until = TimePoint::max();
}

bool LinkReports::forget(const std::string& node) {
  bool is_news = heads_.erase(node) > 0;
  for (auto& [name, head] : heads_) is_news = head.tails.erase(node) > 0 || is_news;
  std::erase_if(heads_, [](const auto& entry) { return entry.second.tails.empty(); });
  return is_news;
}

bool LinkReports::fade(Members& members, TimePoint now) {
  bool is_news = false;
  for (auto& [node, head] : heads_) {
    if (head.until > now) continue;
    is_news = true;
    head.until = TimePoint::max();
    head.fault = head.fault == Fault::kAsked ? Fault::kSilent : Fault::kLinks;
    if (head.fault == Fault::kSilent) members.note_silent(node);
  }
  return is_news;
}

LinkReports::TimePoint LinkReports::next_end(TimePoint latest) const {
  for (const auto& [node, head] : heads_) latest = std::min(latest, head.until);
  return latest;
}

bool LinkReports::absorb(PlanningState& state) const {
  std::set<LinkName> broken;
  std::set<std::string> silent;
  for (const auto& [node, head] : heads_) {
    if (head.fault == Fault::kSilent || head.fault == Fault::kRecovering) silent.insert(node);
    if (head.fault != Fault::kLinks) continue;
    for (const std::string& tail : head.tails) broken.emplace(tail, node);
  }
  if (broken == state.broken && silent == state.silent) return false;
  const auto avoided = [&] {
    std::set<std::string> nodes = state.left_out();
    nodes.merge(state.no_relays());
    return std::pair(std::move(nodes), state.avoided_links());
  };
  const auto before = avoided();
  state.broken = std::move(broken);
  state.silent = std::move(silent);
  const auto after = avoided();
  if (before == after) return false;
  log(LogLevel::kInfo, "controller",
      "plans without nodes that are away or silent: {}; without broken links: {}",
      after.first.empty() ? "none" : fmt::format("{}", fmt::join(after.first, ", ")), names_of(after.second));
  return !state.registry.is_empty();
}

bool LinkReports::note_published(const PlanningState& state, bool is_whole) {
  const auto before = std::exchange(avoided_, is_whole ? std::set<LinkName>() : state.avoided_links());
  return !std::ranges::includes(before, avoided_);
}

}  // namespace square::controller
