#include "node/operations/patience.h"

#include <algorithm>
#include <utility>

namespace square {

Duration patience_of(const InstalledPlan& plan, CollectiveId collective, std::size_t bytes) {
  const PlanCollective* planned = plan.plan().find_collective(collective);
  const double fastest_bps = plan.fastest_link_bps();
  if (planned == nullptr || !(planned->rate_bps > 0) || !(fastest_bps > 0)) return Duration(0);
  const double seconds =
      std::min({kBitsPerByte * static_cast<double>(bytes) / planned->rate_bps * kPatiencePart,
                kBitsPerByte * kGatheredBytes / fastest_bps, to_seconds(kMostPatience)});
  const Duration patience = from_seconds(seconds);
  return patience < kLeastPatience ? Duration(0) : patience;
}

void Patience::set(const OperationKey& key, Duration patience) {
  remove(key);
  known_.emplace(key, patience);
  ++counts_[patience];
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
}

void Patience::on_relayed() {
  relays_until_ = node_.clock.now() + kRelayedTime;
  if (told_ > Duration(0)) tell();
}

void Patience::tell() {
  Duration patience = counts_.empty() ? Duration(0) : counts_.begin()->first;
  if (patience > Duration(0) && node_.clock.now() < relays_until_) {
    patience = Duration(0);
    tell_again_at(relays_until_);
  }
  if (std::exchange(told_, patience) != patience) node_.transport.set_patience(patience);
}

void Patience::tell_again_at(TimePoint when) {
  if (std::exchange(is_waiting_, true)) return;
  node_.executor.post_at(when, life_.bind([this] {
    is_waiting_ = false;
    tell();
  }));
}

}  // namespace square
