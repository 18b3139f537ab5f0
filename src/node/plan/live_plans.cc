#include "node/plan/live_plans.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace square {

void LivePlans::install(const std::shared_ptr<const Plan>& plan, Installed installed) {
  const Epoch epoch = plan->epoch;
  if (node_.is_stopping) return installed(epoch);
  if (!plans_.empty() && epoch <= plans_.rbegin()->first) return install_again(epoch, std::move(installed));
  const PlanPointer base = plans_.empty() ? nullptr : plans_.rbegin()->second;
  const PlanPointer local = make(plan);
  plans_.emplace(epoch, local);
  open(local, base.get());
  retire_surplus();
  log(LogLevel::kInfo, {.component = "node", .node = node_.options.name, .epoch = epoch},
      "{}: installed plan {} ({}), {} streams", node_.options.name, epoch.value(), plan->policy,
      local->streams().size());
  pending_.push_back({node_.clock.now(), epoch, std::move(installed)});
  move_up();
}

// It comes over another line, to the controller as well, which must not know more by that than it would have.
void LivePlans::install_again(Epoch epoch, Installed installed) {
  const auto same = std::ranges::find(pending_, epoch, &Pending::epoch);
  if (same == pending_.end()) return installed(epoch);
  const TimePoint since = same->since;
  pending_.push_back({since, epoch, std::move(installed)});
}

LivePlans::PlanPointer LivePlans::make(const std::shared_ptr<const Plan>& plan) {
  std::vector<const InstalledPlan*> others;
  for (auto other = plans_.rbegin(); other != plans_.rend(); ++other) others.push_back(other->second.get());
  // Half of the window holds blocks in transit. The active plan and those after it share that; two at least.
  const auto newest = static_cast<std::size_t>(
      std::distance(active_ ? plans_.lower_bound(*active_) : plans_.begin(), plans_.end()));
  return std::make_shared<InstalledPlan>(
      plan, node_.options.name, node_.options.window_bytes / 2 / std::max<std::size_t>(2, newest + 1),
      others.empty() ? nullptr : others.front(), others);
}

void LivePlans::open(const PlanPointer& plan, const InstalledPlan* base) {
  node_.traffic.add_links(plan->plan());
  plan->each_not_in(base, [&](const CollectivePointer& collective) {
    if (is_in_another(plan.get(), collective)) return;
    for (const PlanSession& session : collective->sessions())
      sessions_.emplace(SessionKey{session.id, collective->epoch(), collective->origin()}, collective);
    node_.traffic.add(*collective);
    host_.open(collective);
  });
  host_.open_plan(plan);
}

bool LivePlans::is_in_another(const InstalledPlan* plan, const CollectivePointer& collective) const {
  return std::ranges::any_of(plans_, [&](const auto& entry) {
    return entry.second.get() != plan && entry.second->find(collective->id()) == collective;
  });
}

void LivePlans::close(const PlanPointer& plan) {
  const InstalledPlan* const next = plans_.empty() ? nullptr : plans_.begin()->second.get();
  node_.traffic.remove_links(plan->plan());
  plan->each_not_in(next, [&](const CollectivePointer& collective) {
    if (is_in_another(nullptr, collective)) return;
    for (const PlanSession& session : collective->sessions())
      sessions_.erase({session.id, collective->epoch(), collective->origin()});
    node_.traffic.remove(*collective);
    host_.close(collective);
  });
}

// Operations of a plan before the active one move up, so that it can go. What holds a sum
// back may be another node, which was told in a frame that got lost: said again until it works.
void LivePlans::move_up() {
  const bool may_stay = pending_.empty() && !has_missed_one_;
  if (const PlanPointer plan = active()) host_.move_up(plan, may_stay);
  confirm();
  const PlanPointer now = active();
  is_moving_ = is_moving_ && now && host_.runs_before(*now);
  if ((pending_.empty() && !is_moving_) || move_timer_ != 0) return;
  move_timer_ = node_.executor.post_at(node_.clock.now() + kMoveWait, life_.bind([this] {
    move_timer_ = 0;
    if (!node_.is_stopping) move_up();
  }));
}

void LivePlans::confirm() {
  if (pending_.empty()) return;
  const bool has_waited = node_.clock.now() >= pending_.front().since + kLongestMove;
  const PlanPointer now = active();
  if (!has_waited && now && host_.runs_before(*now)) return;
  const auto pending = std::exchange(pending_, {});
  for (const Pending& install : pending) install.installed(install.epoch);
}

void LivePlans::activate(Epoch epoch, bool moves) {
  if (!plans_.contains(epoch) || (active_ && epoch <= *active_)) return;
  const std::optional<Epoch> previous = std::exchange(active_, epoch);
  previous_ = previous;
  if (previous) retire_before(*previous);
  node_.traffic.follow(active()->shared_plan());
  host_.follow(active());
  confirm();
  // Others have let go of the plan before the one that they had in between.
  has_missed_one_ = previous && previous->value() + 1 < epoch.value();
  is_moving_ = is_moving_ || moves || has_missed_one_ || (previous && host_.runs_before(*find(*previous)));
  if (is_moving_) move_up();
}

void LivePlans::retire_before(Epoch epoch) {
  while (!plans_.empty() && plans_.begin()->first < epoch) {
    const PlanPointer plan = plans_.begin()->second;
    plans_.erase(plans_.begin());
    close(plan);
  }
}

// The controller may make plans while nothing tells it that this node has them.
void LivePlans::retire_surplus() {
  for (auto oldest = plans_.begin(); plans_.size() > kMaxLivePlans;) {
    const Epoch epoch = oldest->first;
    if (epoch == active_ || epoch == previous_) {
      ++oldest;
      continue;
    }
    const PlanPointer plan = oldest->second;
    oldest = plans_.erase(oldest);
    close(plan);
  }
}

std::size_t LivePlans::session_count() const {
  std::size_t most = 0;
  for (const auto& [epoch, plan] : plans_) most = std::max(most, plan->plan().sessions.size());
  return most;
}

bool LivePlans::knows(CollectiveId collective) const {
  return std::ranges::any_of(plans_,
                             [&](const auto& entry) { return entry.second->find(collective) != nullptr; });
}

LivePlans::PlanPointer LivePlans::find(Epoch epoch) const {
  const auto found = plans_.find(epoch);
  return found == plans_.end() ? nullptr : found->second;
}

LivePlans::CollectivePointer LivePlans::find(CollectiveId collective, Epoch since) const {
  for (const CollectivePointer& way : ways_of(collective)) {
    if (way->epoch() == since) return way;
  }
  return nullptr;
}

LivePlans::CollectivePointer LivePlans::find(const StreamKey& stream) const {
  const auto found = sessions_.find({stream.session, stream.epoch, stream.origin});
  return found == sessions_.end() ? nullptr : found->second;
}

std::vector<LivePlans::CollectivePointer> LivePlans::ways_of(CollectiveId collective) const {
  std::vector<CollectivePointer> ways;
  for (const auto& [epoch, plan] : plans_) {
    CollectivePointer way = plan->find(collective);
    if (way && std::ranges::find(ways, way) == ways.end()) ways.push_back(std::move(way));
  }
  return ways;
}

std::vector<LivePlans::CollectivePointer> LivePlans::ways_of(SessionId session) const {
  std::vector<CollectivePointer> ways;
  auto next = sessions_.lower_bound({session, Epoch(0), OriginTag{}});
  for (; next != sessions_.end() && std::get<SessionId>(next->first) == session; ++next)
    ways.push_back(next->second);
  return ways;
}

std::vector<std::pair<SessionId, LivePlans::CollectivePointer>> LivePlans::sessions() const {
  std::vector<std::pair<SessionId, CollectivePointer>> all;
  for (const auto& [key, collective] : sessions_) all.emplace_back(std::get<SessionId>(key), collective);
  return all;
}

LivePlans::CollectivePointer LivePlans::active(CollectiveId collective) const {
  const PlanPointer plan = active();
  return plan ? plan->find(collective) : nullptr;
}

}  // namespace square
