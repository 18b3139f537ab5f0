#include "node/groups/watches.h"

#include <utility>
#include <vector>

namespace square {

void Watches::add(const OperationKey& key, Duration timeout, Arrived arrived) {
  const auto place = watches_.emplace(key, Watch{0, std::move(arrived)});
  const TimePoint now = clock_.now();
  const TimePoint deadline = timeout < TimePoint::max() - now ? now + timeout : TimePoint::max();
  place->second.timer = executor_.post_at(deadline, life_.bind([this, place] {
    const auto late = std::move(place->second.arrived);
    watches_.erase(place);
    late(deadline_exceeded("nothing arrived in time"));
  }));
}

void Watches::tell(const OperationKey& key, const Status& outcome) {
  std::vector<Watch> told;
  const auto [begin, end] = watches_.equal_range(key);
  for (auto place = begin; place != end; ++place) told.push_back(std::move(place->second));
  watches_.erase(begin, end);
  for (const Watch& watch : told) {
    executor_.cancel(watch.timer);
    watch.arrived(outcome);
  }
}

void Watches::tell_collective(CollectiveId collective, const Status& outcome) {
  for (;;) {
    const auto first = watches_.lower_bound({collective, OperationId(0)});
    if (first == watches_.end() || first->first.collective != collective) return;
    tell(OperationKey(first->first), outcome);
  }
}

void Watches::tell_all(const Status& outcome) {
  while (!watches_.empty()) tell(OperationKey(watches_.begin()->first), outcome);
}

}  // namespace square
