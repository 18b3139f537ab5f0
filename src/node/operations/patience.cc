#include "node/operations/patience.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace square {
namespace {

Duration at_least(Duration patience) {
  return patience < kLeastPatience ? Duration(0) : patience - patience % kPatienceStep;
}

}  // namespace

PlannedPace pace_of(const InstalledCollective& collective, double fastest_link_bps, std::size_t bytes) {
  const double planned_bps = collective.planned().rate_bps;
  if (!(planned_bps > 0) || !(fastest_link_bps > 0)) return {};
  const double seconds =
      std::min({kBitsPerByte * static_cast<double>(bytes) / planned_bps * kPatiencePart,
                kBitsPerByte * kGatheredBytes / fastest_link_bps, to_seconds(kMostPatience)});
  PlannedPace pace{at_least(from_seconds(seconds))};
  for (const PlanSession& session : collective.sessions()) {
    pace.sessions.push_back(session.id);
    for (const LocalStream* stream : collective.streams_of(session.id)) {
      pace.load_bps +=
          stream->rate_bps * static_cast<double>(stream->parents.size() + stream->children.size());
    }
  }
  return pace;
}

void Patience::set(const OperationKey& key, const PlannedPace& pace) {
  remove(key);
  const TimePoint now = node_.clock.now();
  look(now);
  Collective& collective = collectives_[key.collective];
  ++collective.operations;
  // One that no member here has called yet says nothing of the pace.
  if (!pace.sessions.empty()) {
    if (collective.pace.sessions != pace.sessions) {
      collective.since = now;
      collective.moved = moved_bytes(pace);
    }
    collective.pace = pace;
  }
  known_.emplace(key, pace.patience);
  ++counts_[pace.patience];
  tell();
}

void Patience::end(const OperationKey& key) {
  remove(key);
  tell();
}

void Patience::remove(const OperationKey& key) {
  const auto known = known_.extract(key);
  if (known.empty()) return;
  const auto count = counts_.find(known.mapped());
  if (--count->second == 0) counts_.erase(count);
  --collectives_.at(key.collective).operations;
}

void Patience::on_frame() {
  // Also while another operation forbids patience for a moment: many short ones follow one another.
  if (counts_.empty() || counts_.rbegin()->first == Duration(0)) return;
  if (look(node_.clock.now())) tell();
}

void Patience::on_relayed() {
  relays_until_ = node_.clock.now() + kRelayedTime;
  if (told_ > Duration(0)) tell();
}

void Patience::tell() {
  const Duration planned = counts_.empty() ? Duration(0) : counts_.begin()->first;
  Duration patience = at_least(from_seconds(to_seconds(planned) / std::max(1.0, haste_)));
  if (patience > Duration(0) && node_.clock.now() < relays_until_) {
    patience = Duration(0);
    tell_again_at(relays_until_);
  }
  if (std::exchange(told_, patience) == patience) return;
  node_.transport.set_patience(patience);
  node_.pace_tick = std::max(kPaceTick, patience);
}

void Patience::tell_again_at(TimePoint when) {
  if (std::exchange(is_waiting_, true)) return;
  node_.executor.post_at(when, life_.bind([this] {
    is_waiting_ = false;
    tell();
  }));
}

bool Patience::look(TimePoint now) {
  if (now < looked_at_ + kHasteTime) return false;
  looked_at_ = now;
  std::erase_if(collectives_, [](const auto& entry) { return entry.second.operations == 0; });
  measure_haste(now);
  return true;
}

void Patience::measure_haste(TimePoint now) {
  std::optional<double> fastest;
  for (auto& [id, collective] : collectives_) {
    const Duration time = now - collective.since;
    if (time < kHasteTime) continue;
    const std::uint64_t moved = moved_bytes(collective.pace);
    const double bits = kBitsPerByte * static_cast<double>(moved - std::min(moved, collective.moved));
    const double planned_bits = collective.pace.load_bps * to_seconds(time);
    collective.since = now;
    collective.moved = moved;
    if (time > kLongestHasteTime || !(planned_bits > 0)) continue;
    fastest = std::max(fastest.value_or(0), bits / planned_bits);
  }
  haste_ = fastest.value_or(haste_);
}

std::uint64_t Patience::moved_bytes(const PlannedPace& pace) const {
  std::uint64_t bytes = 0;
  for (const SessionId session : pace.sessions) {
    const SessionMetrics& counters = node_.traffic.session(session)->counters;
    bytes += counters.bytes_sent + counters.bytes_received;
  }
  return bytes;
}

}  // namespace square
