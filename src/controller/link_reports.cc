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

v1::BrokenLinks known_of(const v1::BrokenLinks& report, const Members& members, const Topology& topology) {
  v1::BrokenLinks known;
  const auto is_known = [&](const std::string& peer) {
    return members.find(peer) != nullptr || topology.find_node(peer).has_value();
  };
  for (const std::string& peer : report.peers()) {
    if (is_known(peer)) known.add_peers(peer);
  }
  for (const v1::RefusedPeer& refused : report.refused()) {
    if (is_known(refused.peer())) *known.add_refused() = refused;
  }
  for (const v1::LossyRelay& lossy : report.lossy()) {
    if (is_known(lossy.relay())) *known.add_lossy() = lossy;
  }
  return known;
}

Urgency LinkReports::note(const std::string& tail, const v1::BrokenLinks& report, const Members& members,
                          TimePoint now) {
  const int count = std::min(report.peers_size(), kMaxReportedLinks);
  const std::set<std::string> peers(report.peers().begin(), report.peers().begin() + count);
  note_well(tail, peers, now);
  std::erase_if(flaps_, [&](const auto& entry) { return now - entry.second.last > kFlapMemory; });
  Urgency urgency = end_holds(now) ? Urgency::kCanWait : Urgency::kNone;
  urgency = std::max(urgency, note_lossy(tail, report, members));
  for (const std::string& node : peers) {
    const Member* const member = members.find(node);
    if (node == tail || node.size() > kMaxNodeNameBytes) continue;
    const auto [entry, is_new] = heads_.try_emplace(node);
    Head& head = entry->second;
    const auto [believed, is_first] = head.tails.try_emplace(tail, TimePoint::max());
    const bool is_break = is_first || believed->second != TimePoint::max();
    const Urgency broken = is_break ? note_broken({tail, node}, now) : Urgency::kNone;
    believed->second = TimePoint::max();
    if (is_first && member != nullptr) urgency = std::max(urgency, broken);
    // Another tail may have lost it because it is silent now, which it was not before.
    if (!is_new && !(is_first && head.fault == Fault::kLinks)) continue;
    // Who has not joined yet may do so: the tail says this once.
    const bool is_there = member != nullptr && member->line != nullptr;
    const bool is_heard = is_there && now - member->heard_at < kLastWord;
    head.fault = !is_there ? Fault::kAway : is_heard ? Fault::kLinks : Fault::kAsked;
    head.until = head.fault == Fault::kAsked ? now + kNextWord : TimePoint::max();
  }
  return urgency;
}

Urgency LinkReports::note_lossy(const std::string& reporter, const v1::BrokenLinks& report,
                                const Members& members) {
  std::map<std::string, bool> told;
  for (int i = 0; i < std::min(report.lossy_size(), kMaxReportedRelays); ++i) {
    const v1::LossyRelay& one = report.lossy(i);
    if (one.relay() != reporter && members.contains(one.relay())) told[one.relay()] = one.is_way();
  }
  Urgency urgency = Urgency::kNone;
  for (auto& [relay, reporters] : lossy_) {
    if (!told.contains(relay) && reporters.erase(reporter) > 0) urgency = Urgency::kCanWait;
  }
  for (const auto& [relay, is_way] : told) {
    const auto [entry, is_new] = lossy_[relay].insert_or_assign(reporter, is_way);
    if (!is_new) continue;
    urgency = Urgency::kAtOnce;
    log(LogLevel::kWarning, {.component = "controller", .node = relay, .peer = reporter},
        "node {} says that {} {} loses blocks: plans avoid it, where they can, until {} takes that back",
        reporter, is_way ? "the way through node" : "relay", relay, reporter);
  }
  std::erase_if(lossy_, [](const auto& entry) { return entry.second.empty(); });
  return urgency;
}

Urgency LinkReports::note_broken(const LinkName& link, TimePoint now) {
  Flaps& flaps = flaps_[link];
  ++flaps.breaks;
  flaps.last = now;
  return flaps.breaks == 1 ? Urgency::kAtOnce : Urgency::kCanWait;
}

Duration LinkReports::hold_of(const LinkName& link) const {
  const auto found = flaps_.find(link);
  Duration hold{0};
  for (int i = 1; found != flaps_.end() && i < found->second.breaks && hold < kLongestHold; ++i)
    hold = hold == Duration(0) ? kFirstHold : 2 * hold;
  return hold;
}

// Its other links.
void LinkReports::note_well(const std::string& tail, const std::set<std::string>& broken, TimePoint now) {
  for (auto& [node, head] : heads_) {
    const auto believed = head.tails.find(tail);
    if (believed == head.tails.end() || broken.contains(node)) continue;
    // Where the node was silent, it is not the link that comes and goes.
    const Duration hold = head.fault == Fault::kLinks ? hold_of({tail, node}) : Duration(0);
    believed->second = std::min(believed->second, now + hold);
  }
}

bool LinkReports::end_holds(TimePoint now) {
  std::size_t ended = 0;
  for (auto& [node, head] : heads_)
    ended += std::erase_if(head.tails, [&](const auto& entry) { return entry.second <= now; });
  std::erase_if(heads_, [](const auto& entry) { return entry.second.tails.empty(); });
  return ended > 0;
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
  std::erase_if(flaps_,
                [&](const auto& entry) { return entry.first.first == node || entry.first.second == node; });
  bool is_news = heads_.erase(node) > 0;
  is_news = lossy_.erase(node) > 0 || is_news;
  for (auto& [relay, reporters] : lossy_) is_news = reporters.erase(node) > 0 || is_news;
  std::erase_if(lossy_, [](const auto& entry) { return entry.second.empty(); });
  for (auto& [name, head] : heads_) is_news = head.tails.erase(node) > 0 || is_news;
  std::erase_if(heads_, [](const auto& entry) { return entry.second.tails.empty(); });
  return is_news;
}

Urgency LinkReports::fade(Members& members, TimePoint now) {
  Urgency urgency = end_holds(now) ? Urgency::kCanWait : Urgency::kNone;
  for (auto& [node, head] : heads_) {
    if (head.until > now) continue;
    const bool is_silent = head.fault == Fault::kAsked;
    head.until = TimePoint::max();
    head.fault = is_silent ? Fault::kSilent : Fault::kLinks;
    if (is_silent) members.note_silent(node);
    urgency = std::max(urgency, is_silent ? Urgency::kAtOnce : Urgency::kCanWait);
  }
  return urgency;
}

LinkReports::TimePoint LinkReports::next_end(TimePoint latest) const {
  for (const auto& [node, head] : heads_) {
    latest = std::min(latest, head.until);
    for (const auto& [tail, until] : head.tails) latest = std::min(latest, until);
  }
  return latest;
}

bool LinkReports::absorb(PlanningState& state, const std::set<std::string>& unreachable) const {
  std::set<LinkName> broken;
  std::set<std::string> silent;
  for (const auto& [node, head] : heads_) {
    if (head.fault == Fault::kSilent || head.fault == Fault::kRecovering) silent.insert(node);
    if (head.fault != Fault::kLinks) continue;
    for (const auto& [tail, until] : head.tails) broken.emplace(tail, node);
  }
  std::set<std::string> unfit = unreachable;
  for (const auto& [relay, reporters] : lossy_) {
    for (const auto& [reporter, is_way] : reporters) {
      if (!is_way) unfit.insert(relay);
      if (is_way) broken.insert({{reporter, relay}, {relay, reporter}});
    }
  }
  if (broken == state.broken && silent == state.silent && unfit == state.unfit) return false;
  const auto avoided = [&] {
    std::set<std::string> nodes = state.left_out();
    nodes.merge(state.no_relays());
    return std::pair(std::move(nodes), state.avoided_links());
  };
  const auto before = avoided();
  state.broken = std::move(broken);
  state.silent = std::move(silent);
  state.unfit = std::move(unfit);
  const auto after = avoided();
  if (before == after) return false;
  log(LogLevel::kInfo, "controller",
      "plans without nodes that are away, silent or unfit to relay: {}; without broken links: {}",
      after.first.empty() ? "none" : fmt::format("{}", fmt::join(after.first, ", ")), names_of(after.second));
  return !state.registry.is_empty();
}

bool LinkReports::note_published(const PlanningState& state, bool is_whole) {
  const auto before = std::exchange(avoided_, is_whole ? std::set<LinkName>() : state.avoided_links());
  return !std::ranges::includes(before, avoided_);
}

}  // namespace square::controller
