// Members that wait to hear of an operation before they call it.
#include <fmt/format.h>

#include "node/core.h"

namespace square {

void DataPlane::Core::watch(const OperationKey& key, Duration timeout, std::function<void(Status)> arrived) {
  if (is_stopping_) return arrived(cancelled(fmt::format("node \"{}\" is stopping", context_.options.name)));
  const Collective& collective = collectives_[key.collective];
  if (collective.failure) {
    return arrived(failed_precondition(fmt::format("collective {} failed before ({}); make a new group",
                                                   key.collective.value(), collective.failure->to_string())));
  }
  if (operations_.contains(key) || collective.has_finished(key.operation)) return arrived(Status::ok());
  if (watches_.size() >= kMaxWatches) {
    return arrived(resource_exhausted(fmt::format("members on node \"{}\" wait for {} operations already",
                                                  context_.options.name, kMaxWatches)));
  }
  const auto place = watches_.emplace(key, Watch{0, std::move(arrived)});
  const TimePoint now = context_.clock.now();
  const TimePoint deadline = timeout < TimePoint::max() - now ? now + timeout : TimePoint::max();
  place->second.timer = context_.executor.post_at(deadline, life_.bind([this, place] {
    const auto late = std::move(place->second.arrived);
    watches_.erase(place);
    late(deadline_exceeded("nothing arrived in time"));
  }));
}

void DataPlane::Core::tell_watches(const OperationKey& key, const Status& outcome) {
  std::vector<Watch> told;
  const auto [begin, end] = watches_.equal_range(key);
  for (auto place = begin; place != end; ++place) told.push_back(std::move(place->second));
  watches_.erase(begin, end);
  for (const Watch& watch : told) {
    context_.executor.cancel(watch.timer);
    watch.arrived(outcome);
  }
}

void DataPlane::Core::fail_watches(CollectiveId collective, const Status& cause) {
  for (;;) {
    const auto first = watches_.lower_bound({collective, OperationId(0)});
    if (first == watches_.end() || first->first.collective != collective) return;
    tell_watches(first->first, cause);
  }
}

}  // namespace square
