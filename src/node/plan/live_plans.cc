#include "node/plan/live_plans.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/planted.h"

namespace square {

void LivePlans::install(const std::shared_ptr<const Plan>& plan, Installed installed) {
  const Epoch epoch = plan->epoch;
  if (node_.is_stopping) return installed(epoch);
  if (!plans_.empty() && epoch <= plans_.rbegin()->first) return install_again(epoch, std::move(installed));
  const PlanPointer local = make(plan);
  plans_.emplace(epoch, local);
  node_.traffic.add(node_.options.name, local->plan());
  host_.open_plan(local);
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
  // Half of the window holds blocks in transit, and two plans may be live.
  return std::make_shared<InstalledPlan>(plan, node_.options.name, node_.options.window_bytes / 4);
}

void LivePlans::follow() {
  std::vector<const Plan*> live;
  for (const auto& [epoch, plan] : plans_) live.push_back(&plan->plan());
  const PlanPointer now = active();
  node_.traffic.follow(node_.options.name, live, now ? &now->plan() : nullptr);
}

// Operations of a plan before the active one move up, so that it can go. What holds a sum
// back may be another node, which was told in a frame that got lost: said again until it works.
void LivePlans::move_up() {
  if (const PlanPointer now = active()) host_.move_up(now);
  confirm();
  is_moving_ = is_moving_ && active_ && host_.runs_before(*active_);
  if ((pending_.empty() && !is_moving_) || move_timer_ != 0) return;
  move_timer_ = node_.executor.post_at(node_.clock.now() + kMoveWait, life_.bind([this] {
    move_timer_ = 0;
    if (!node_.is_stopping) move_up();
  }));
}

void LivePlans::confirm() {
  if (pending_.empty()) return;
  const bool has_waited = node_.clock.now() >= pending_.front().since + kLongestMove;
  if (!has_waited && active_ && host_.runs_before(*active_)) return;
  const auto pending = std::exchange(pending_, {});
  for (const Pending& install : pending) install.installed(install.epoch);
}

void LivePlans::activate(Epoch epoch, bool moves) {
  if (!plans_.contains(epoch) || (active_ && epoch <= *active_)) return;
  const std::optional<Epoch> previous = std::exchange(active_, epoch);
  if (previous) retire_before(*previous);
  follow();
  confirm();
  // Others have let go of the plan before the one that they had in between.
  const bool has_missed_one =
      !is_planted(Bug::kMissedPlanUnnoticed) && previous && previous->value() + 1 < epoch.value();
  is_moving_ = is_moving_ || moves || has_missed_one || (previous && host_.runs_before(*previous));
  if (is_moving_) move_up();
}

void LivePlans::retire_before(Epoch epoch) {
  while (!plans_.empty() && plans_.begin()->first < epoch) {
    const PlanPointer plan = plans_.begin()->second;
    plans_.erase(plans_.begin());
    host_.close_plan(*plan);
  }
}

std::size_t LivePlans::session_count() const {
  std::size_t most = 0;
  for (const auto& [epoch, plan] : plans_) most = std::max(most, plan->plan().sessions.size());
  return most;
}

bool LivePlans::knows(CollectiveId collective) const {
  return std::ranges::any_of(
      plans_, [&](const auto& entry) { return entry.second->plan().find_collective(collective) != nullptr; });
}

LivePlans::PlanPointer LivePlans::find(Epoch epoch) const {
  const auto found = plans_.find(epoch);
  return found == plans_.end() ? nullptr : found->second;
}

}  // namespace square
