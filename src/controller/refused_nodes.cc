#include "controller/refused_nodes.h"

#include <algorithm>

#include "controller/protocol.h"

namespace square::controller {
namespace {

std::shared_ptr<const v1::ControllerEvent> look_event(const std::string& node) {
  auto event = std::make_shared<v1::ControllerEvent>();
  event->mutable_look()->set_peer(node);
  return event;
}

}  // namespace

bool RefusedNodes::note(const std::string& reporter, const v1::BrokenLinks& report, const Members& members,
                        TimePoint now) {
  const std::set<std::string> unreachable_before = unreachable(members);
  std::map<std::string, Refusal> told;
  const int count = std::min(report.refused_size(), kMaxRefused);
  for (int i = 0; i < count; ++i) {
    const v1::RefusedPeer& one = report.refused(i);
    if (one.peer() == reporter || one.peer().size() > kMaxNodeNameBytes) continue;
    const Duration age =
        std::min(bounded(Duration(static_cast<std::int64_t>(one.nanoseconds()))), kLongestRefusal);
    told[one.peer()] = {now - age, one.is_heard()};
  }
  for (auto& [node, refused] : refused_) {
    if (!told.contains(node)) refused.reporters.erase(reporter);
  }
  for (const auto& [node, refusal] : told) refused_[node].reporters[reporter] = refusal;
  std::erase_if(refused_, [](const auto& entry) { return entry.second.reporters.empty(); });
  return unreachable(members) != unreachable_before;
}

void RefusedNodes::note_own(const std::string& node, const Members& members, TimePoint now) {
  if (!members.contains(node)) return;
  refused_[node].reporters.try_emplace(kOwn, Refusal{now, false});
}

void RefusedNodes::forget(const std::string& node) {
  refused_.erase(node);
  for (auto& [name, refused] : refused_) refused.reporters.erase(node);
  std::erase_if(refused_, [](const auto& entry) { return entry.second.reporters.empty(); });
}

bool RefusedNodes::is_connected(const Members& members, const std::string& node) {
  const Member* const member = members.find(node);
  return member != nullptr && member->line != nullptr;
}

// What a node says in a report that a neighbour refuses it is newer than its last heartbeat.
bool RefusedNodes::is_heard(const std::string& node, const Members& members, TimePoint now) const {
  const auto found = refused_.find(node);
  return std::ranges::any_of(members, [&](const auto& entry) {
    const auto& [name, member] = entry;
    if (name == node || member.line == nullptr || now - member.heard_at > kFreshWord) return false;
    if (found != refused_.end()) {
      const auto refusal = found->second.reporters.find(name);
      if (refusal != found->second.reporters.end()) return refusal->second.is_heard;
    }
    return member.hears.contains(node);
  });
}

std::vector<RefusedNodes::Gone> RefusedNodes::find_gone(const Members& members, TimePoint now) {
  std::vector<Gone> gone;
  for (auto& [node, refused] : refused_) {
    const Member* const member = members.find(node);
    if (member == nullptr || member->line != nullptr) {
      refused.reporters.erase(kOwn);
      refused.asked.clear();
      continue;
    }
    std::size_t witnesses = 0;
    TimePoint since = now;
    for (const auto& [reporter, refusal] : refused.reporters) {
      if (reporter != kOwn && !is_connected(members, reporter)) continue;
      // What was refused while its line was up, and it lived, says nothing: that counts from then on.
      if (reporter != kOwn && refusal.since + kLongestRefusal > member->heard_at) ++witnesses;
      since = std::min(since, std::max(refusal.since, member->heard_at));
    }
    const bool is_certain = witnesses >= kRefusalWitnesses || now - since >= kLongestRefusal;
    if (is_certain && !is_heard(node, members, now)) gone.push_back({node, member->address, since});
  }
  std::erase_if(refused_, [](const auto& entry) { return entry.second.reporters.empty(); });
  return gone;
}

std::vector<std::pair<std::string, std::string>> RefusedNodes::take_questions(const Members& members,
                                                                              TimePoint now) {
  std::vector<std::pair<std::string, std::string>> questions;
  for (auto& [node, refused] : refused_) {
    const Member* const member = members.find(node);
    if (member == nullptr || member->line != nullptr) continue;
    for (const auto& [name, other] : members) {
      if (refused.asked.size() >= kMaxAskedToLook) break;
      const bool may_know = name != node && other.line != nullptr && now - other.heard_at <= kFreshWord &&
                            !refused.reporters.contains(name);
      if (may_know && refused.asked.insert(name).second) questions.emplace_back(name, node);
    }
  }
  return questions;
}

std::vector<std::string> RefusedNodes::judge(Members& members, TimePoint now) {
  std::vector<std::string> gone;
  for (const auto& [name, address, since] : find_gone(members, now)) {
    if (members.leave_refused(name, address, since)) gone.push_back(name);
  }
  for (const auto& [asked, name] : take_questions(members, now))
    members.find(asked)->line->send(look_event(name));
  return gone;
}

RefusedNodes::TimePoint RefusedNodes::next_end(const Members& members, TimePoint now,
                                               TimePoint latest) const {
  const bool is_open = std::ranges::any_of(refused_, [&](const auto& entry) {
    const Member* const member = members.find(entry.first);
    return member != nullptr && member->line == nullptr;
  });
  return is_open ? std::min(latest, now + kJudgeAgain) : latest;
}

std::set<std::string> RefusedNodes::unreachable(const Members& members) const {
  std::set<std::string> nodes;
  for (const auto& [node, refused] : refused_) {
    if (is_connected(members, node) && refused.reporters.size() >= kRefusalWitnesses) nodes.insert(node);
  }
  return nodes;
}

}  // namespace square::controller
