#include "node/operations/patience.h"

#include <algorithm>
#include <utility>

namespace square {
namespace {

Duration at_least(Duration patience) { return patience < kLeastPatience ? Duration(0) : patience; }

}  // namespace

PlannedPace pace_of(const InstalledPlan& plan, CollectiveId collective, std::size_t bytes) {
  const PlanCollective* planned = plan.plan().find_collective(collective);
  const double fastest_bps = plan.fastest_link_bps();
  if (planned == nullptr || !(planned->rate_bps > 0) || !(fastest_bps > 0)) return {};
  const double seconds =
      std::min({kBitsPerByte * static_cast<double>(bytes) / planned->rate_bps * kPatiencePart,
                kBitsPerByte * kGatheredBytes / fastest_bps, to_seconds(kMostPatience)});
  PlannedPace pace{at_least(from_seconds(seconds))};
  for (const PlanSession* session : plan.sessions_of(collective)) {
    for (const LocalStream* stream : plan.streams_of(session->id)) {
      pace.load_bps +=
          stream->rate_bps * static_cast<double>(stream->parents.size() + stream->children.size());
    }
  }
  return pace;
}

void Patience::set(const OperationKey& key, const PlannedPace& pace) {
  remove(key);
  if (known_.empty() && node_.clock.now() > measured_at_ + kHasteTime) {
    measured_at_ = node_.clock.now();
    moved_before_ = moved_bytes();
  }
  known_.emplace(key, pace);
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
  const auto count = counts_.find(known.mapped().patience);
  if (--count->second == 0) counts_.erase(count);
}

void Patience::on_frame() {
  // Also while another operation forbids patience for a moment: many short ones follow one another.
  if (counts_.empty() || counts_.rbegin()->first == Duration(0)) return;
  const TimePoint now = node_.clock.now();
  if (now < measured_at_ + kHasteTime) return;
  measure_haste(now);
  tell();
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

void Patience::measure_haste(TimePoint now) {
  const Duration time = now - std::exchange(measured_at_, now);
  const double planned_bits = planned_load_bps() * to_seconds(time);
  const std::uint64_t before = std::exchange(moved_before_, moved_bytes());
  if (time > kLongestHasteTime || !(planned_bits > 0)) return;
  haste_ = kBitsPerByte * static_cast<double>(moved_before_ - before) / planned_bits;
}

std::uint64_t Patience::moved_bytes() const {
  return node_.statistics.bytes_sent + node_.statistics.bytes_received;
}

double Patience::planned_load_bps() const {
  double load = 0;
  const OperationKey* last = nullptr;
  for (const auto& [key, pace] : known_) {
    // A collective's operations share its rate.
    if (last == nullptr || last->collective != key.collective) load += pace.load_bps;
    last = &key;
  }
  return load;
}

}  // namespace square
