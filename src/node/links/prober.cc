#include "node/links/prober.h"

#include <algorithm>
#include <tuple>

#include "square/units.h"

namespace square {

TimePoint Prober::later(Duration wait) {
  constexpr int kSteps = 1000;
  const double step = static_cast<double>(random_() % (2 * kSteps + 1)) / kSteps - 1;
  return clock_.now() + from_seconds(to_seconds(wait) * (1 + kProbeJitter * step));
}

void Prober::on_up(const std::string& peer, bool is_known) {
  links_[peer].due = later(is_known ? kFirstKnownProbe : kFirstProbe);
  arm();
}

void Prober::on_down(const std::string& peer) { links_.erase(peer); }

void Prober::on_measured(const std::string& peer) {
  const auto found = links_.find(peer);
  if (found == links_.end()) return;
  found->second.due = later(found->second.interval());
  found->second.is_measured = true;
}

void Prober::on_round_trip(const std::string& peer, Duration round_trip) {
  const auto found = links_.find(peer);
  if (found == links_.end()) return;
  Duration& least = found->second.round_trip;
  least = least > Duration(0) ? std::min(least, round_trip) : round_trip;
}

// For the link that is due first; late where it was measured meanwhile.
void Prober::arm() {
  if (links_.empty()) return;
  const auto first = std::ranges::min_element(links_, {}, [](const auto& entry) { return entry.second.due; });
  const TimePoint when = std::max(first->second.due, free_at_);
  if (timer_ != 0 && armed_for_ <= when) return;
  if (timer_ != 0) executor_.cancel(timer_);
  armed_for_ = when;
  timer_ = executor_.post_at(when, life_.bind([this] { run(); }));
}

void Prober::run() {
  timer_ = 0;
  const TimePoint now = clock_.now();
  const auto next = std::ranges::min_element(links_, {}, [&](const auto& entry) {
    return std::tuple(entry.second.due > now, entry.second.is_measured, entry.second.due);
  });
  if (next != links_.end() && next->second.due <= now) {
    next->second.due = later(next->second.interval());
    free_at_ = now + kProbeSpacing;
    probe_(next->first);
  }
  arm();
}

}  // namespace square
