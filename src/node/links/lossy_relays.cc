#include "node/links/lossy_relays.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace square {
namespace {

// What a node remembers of relays that nobody blames at the moment: more names than this are not new relays,
// but made up.
constexpr std::size_t kMaxRecords = 256;

using Links = std::vector<std::pair<NodeId, NodeId>>;

// The link over which the node gets the stream, as data flows; or the one over which it sends it.
std::optional<NodeId> before(const Links& links, NodeId node) {
  const auto found = std::ranges::find(links, node, [](const auto& link) { return link.second; });
  return found == links.end() ? std::nullopt : std::optional(found->first);
}
std::optional<NodeId> after(const Links& links, NodeId node) {
  const auto found = std::ranges::find(links, node, [](const auto& link) { return link.first; });
  return found == links.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace

std::optional<RelayOnWay> relay_to(const InstalledCollective& collective, const PlanSession& session,
                                   const PlanStream& stream, NodeId member) {
  const auto next = session.kind == SessionKind::kReduce ? after : before;
  std::optional<NodeId> relay;
  std::size_t relays = 0;
  // From the member to the root.
  for (auto node = next(stream.links, member); node && *node != session.root;
       node = next(stream.links, *node)) {
    relay = node;
    if (++relays > stream.links.size()) return std::nullopt;
  }
  if (!relay) return std::nullopt;
  return RelayOnWay{collective.name_of(*relay), relays > 1};
}

std::optional<RelayOnWay> relay_from(const InstalledCollective& collective, const PlanStream& stream,
                                     const std::string& last) {
  const auto adds = [&](NodeId node) { return before(stream.links, node).has_value(); };
  for (const auto& [from, to] : stream.links) {
    if (collective.name_of(from) != last || !adds(from)) continue;
    const NodeId first = from;
    const bool has_others = std::ranges::any_of(
        stream.links, [&](const auto& link) { return link.second == first && adds(link.first); });
    return RelayOnWay{last, has_others};
  }
  return std::nullopt;
}

LossyRelays::Record* LossyRelays::record_of(const RelayOnWay& relay) {
  const auto found = records_.find(relay.first);
  if (found == records_.end() && records_.size() >= kMaxRecords) return nullptr;
  Record& record = records_[relay.first];
  return record.is_blamed ? nullptr : &record;
}

void LossyRelays::note_silence(const RelayOnWay& relay) {
  Record* const record = record_of(relay);
  if (record == nullptr) return;
  const TimePoint now = clock_.now();
  if (record->silences == 0 || now - record->first_silence > kEvidenceTime) {
    record->silences = 0;
    record->first_silence = now;
    record->is_way = false;
  }
  record->is_way = record->is_way_of(relay);
  ++record->silences;
  if (now - record->first_silence < kLeastSilenceOfRelay) return;
  blame(relay.first, *record,
        fmt::format("for {:.1f} s nothing came through it while other ways moved",
                    to_seconds(now - record->first_silence + kLeastSilenceOfRelay)));
}

void LossyRelays::note_moves(const RelayOnWay& relay) {
  if (records_.empty()) return;
  const auto found = records_.find(relay.first);
  if (found != records_.end() && !found->second.is_blamed) found->second.silences = 0;
}

void LossyRelays::note_blocks(const RelayOnWay& relay, std::size_t lost, std::size_t passed) {
  if (lost == 0 && !records_.contains(relay.first)) return;
  Record* const record = record_of(relay);
  if (record == nullptr) return;
  const TimePoint now = clock_.now();
  if (record->lost == 0 || now - record->first_lost > kEvidenceTime) {
    if (lost == 0) return;
    record->lost = record->passed = 0;
    record->spells = 0;
    record->first_lost = now;
    record->is_way = false;
  }
  record->lost += lost;
  record->passed += passed;
  if (lost == 0) return;
  record->is_way = record->is_way_of(relay);
  if (record->spells == 0 || now - record->last_spell >= kSpell) {
    ++record->spells;
    record->last_spell = now;
  }
  const std::size_t all = record->lost + record->passed;
  const bool is_much = static_cast<double>(record->lost) >= kLeastLostShare * static_cast<double>(all);
  if (record->lost < kLeastLostBlocks || !is_much || record->spells < kLeastSpells) return;
  blame(relay.first, *record,
        fmt::format("of {} blocks that were to come through it in {:.1f} s, {} were lost", all,
                    to_seconds(now - record->first_lost), record->lost));
}

void LossyRelays::blame(const std::string& relay, Record& record, std::string seen) {
  if (list().size() >= kMaxLossyRelays) return;
  const TimePoint now = clock_.now();
  const bool is_again = record.avoidance > Duration(0) && now - record.blamed_at < kBlameMemory;
  record.avoidance = is_again ? std::min(2 * record.avoidance, kLongestAvoidance) : kFirstAvoidance;
  record.blamed_at = now;
  record.is_blamed = true;
  record.seen = std::move(seen);
  log(LogLevel::kWarning, {.component = "node", .node = node_, .peer = relay},
      "{}: {} \"{}\" loses blocks: {}; plans avoid it for {:.0f} s, where they can", node_,
      record.is_way ? "the way through node" : "relay", relay, record.seen, to_seconds(record.avoidance));
  executor_.post_at(now + record.avoidance, life_.bind([this, relay] { end_avoidance(relay); }));
  if (changed_) changed_();
}

void LossyRelays::end_avoidance(const std::string& relay) {
  const auto found = records_.find(relay);
  if (found == records_.end() || !found->second.is_blamed ||
      clock_.now() < found->second.blamed_at + found->second.avoidance)
    return;
  const Record before = std::exchange(found->second, {});
  found->second.avoidance = before.avoidance;
  found->second.blamed_at = before.blamed_at;
  log(LogLevel::kInfo, {.component = "node", .node = node_, .peer = relay},
      "{}: plans may use relay \"{}\" again, to see whether it still loses blocks", node_, relay);
  if (changed_) changed_();
}

void LossyRelays::forget(const std::string& relay) {
  const auto found = records_.find(relay);
  if (found == records_.end()) return;
  const bool was_blamed = found->second.is_blamed;
  records_.erase(found);
  if (was_blamed && changed_) changed_();
}

std::vector<LossyRelay> LossyRelays::list() const {
  std::vector<LossyRelay> lossy;
  for (const auto& [name, record] : records_) {
    if (record.is_blamed) lossy.push_back({name, record.is_way, record.seen});
  }
  return lossy;
}

}  // namespace square
