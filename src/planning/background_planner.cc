// BackgroundPlanner: a thread that plans while somebody else has something to publish already.
#include <sys/resource.h>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <utility>

#include "planning/planning_steps.h"
#include "planning/scales.h"
#include "square/clock.h"
#include "square/planner.h"

namespace square {
namespace {

// Planning gives way to who waits for an answer.
constexpr int kNiceness = 10;
// An own plan goes on so long although there is something newer to plan: the newer is put on top of it. It
// goes on longer where those before it took longer, or were given up: under steady changes there would be
// none.
constexpr Duration kLongestOverdue = std::chrono::seconds(60);
constexpr int kMoreTime = 2;
// Each plan that is put on top of others makes them less even; then all of it is planned quickly.
constexpr int kMostExtensions = 32;

}  // namespace

// Which nodes and links are to be avoided a plan says itself.
static bool have_same_aims(PolicySpec one, PolicySpec other) {
  one.avoid_nodes = other.avoid_nodes = {};
  one.avoid_links = other.avoid_links = {};
  return one == other;
}

// What comes of a task. A newer one may have come while it was under way.
struct OwnPlan {
  Result<PlanResult> plan;
  bool is_older = false;
};

class BackgroundPlanner::Worker {
 public:
  explicit Worker(std::function<void()> ready) : ready_(std::move(ready)), thread_([this] { run(); }) {}
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  ~Worker() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      budget_.cancel();
      changed_.notify_all();
    }
    thread_.join();
  }

  // In the place of what is under way. What has come of that in the last moment.
  std::optional<OwnPlan> start(Scenario scenario) {
    const std::lock_guard lock(mutex_);
    if (begun_) note_time();
    budget_.cancel();
    budget_ = Budget::until_cancelled();
    if (is_stopped_) budget_.cancel();
    task_ = std::move(scenario);
    next_.reset();
    begun_ = overdue_since_ = std::nullopt;
    ++number_;
    somebody_waits_ = true;
    changed_.notify_all();
    return std::exchange(answer_, std::nullopt);
  }

  // After what is under way, if that may go on: false where there is nothing, or it has been overdue for
  // long.
  bool start_after(const Scenario& scenario) {
    const std::lock_guard lock(mutex_);
    const bool is_busy = task_.has_value() || begun_.has_value();
    const TimePoint now = steady_clock().now();
    if (!overdue_since_) overdue_since_ = now;
    if (!is_busy || is_stopped_ || now - *overdue_since_ > std::max(kLongestOverdue, kMoreTime * last_time_))
      return false;
    (task_ ? task_ : next_) = scenario;
    somebody_waits_ = false;
    return true;
  }

  // Whether the policy's own plan of so many collectives is likely to take longer.
  bool takes_longer(Duration patience, std::size_t collectives) const {
    const std::lock_guard lock(mutex_);
    const bool is_long = begun_ && steady_clock().now() - *begun_ > patience && 2 * collectives >= size_;
    return is_long || (last_time_ > patience && 2 * collectives >= last_size_);
  }

  // nullopt: it is not ready, or out of a solver's reach, and perhaps not of a quick plan's.
  std::optional<Result<PlanResult>> wait_for(Duration patience, const Scenario& scenario) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, patience, [&] { return answer_.has_value(); });
    const bool has_failed = answer_.has_value() && !answer_->plan.is_ok();
    if (has_failed && planning::is_out_of_reach(scenario, answer_->plan.status())) return std::nullopt;
    return take_plan();
  }

  Result<PlanResult> wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return answer_.has_value(); });
    return *take_plan();
  }

  // Nobody waits from now on: what comes is for take(). What has come meanwhile, if it is a plan.
  std::optional<Result<PlanResult>> leave() {
    bool has_failed = false;
    {
      const std::lock_guard lock(mutex_);
      if (answer_.has_value() && answer_->plan.is_ok() && !answer_->is_older) return take_plan();
      somebody_waits_ = false;
      has_failed = answer_.has_value();
    }
    if (has_failed) ready_();
    return std::nullopt;
  }

  std::optional<OwnPlan> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(answer_, std::nullopt);
  }

  void cancel() {
    const std::lock_guard lock(mutex_);
    budget_.cancel();
  }

  void stop() {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
    budget_.cancel();
  }

 private:
  std::optional<Result<PlanResult>> take_plan() {
    std::optional<OwnPlan> taken = std::exchange(answer_, std::nullopt);
    return taken ? std::optional(std::move(taken->plan)) : std::nullopt;
  }

  void note_time() {
    last_time_ = steady_clock().now() - *begun_;
    last_size_ = size_;
  }

  void run() {
    // On Linux of this thread alone.
    ::setpriority(PRIO_PROCESS, 0, kNiceness);
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stopping_ || task_.has_value(); });
      if (stopping_) return;
      const Scenario scenario = std::move(*std::exchange(task_, std::nullopt));
      const std::uint64_t number = number_;
      const Budget budget = budget_;
      begun_ = steady_clock().now();
      size_ = scenario.collectives.size();
      lock.unlock();
      Result<PlanResult> answer = planner_.plan(scenario, {.budget = budget});
      lock.lock();
      if (number != number_) continue;  // it is not wanted any more
      note_time();
      begun_ = overdue_since_ = std::nullopt;
      const bool is_older = next_.has_value() && !budget_is_over(answer);
      if (is_older) task_ = std::exchange(next_, std::nullopt);
      if (is_older && !answer.is_ok()) continue;
      answer_ = OwnPlan{std::move(answer), is_older};
      changed_.notify_all();
      if (somebody_waits_ || stopping_) continue;
      lock.unlock();
      ready_();
      lock.lock();
    }
  }

  static bool budget_is_over(const Result<PlanResult>& answer) {
    return answer.status().code() == StatusCode::kCancelled;
  }

  const std::function<void()> ready_;
  Planner planner_;  // of the thread alone

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  bool is_stopped_ = false;  // each budget is spent
  std::optional<Scenario> task_;
  std::optional<Scenario> next_;            // after the one under way
  Budget budget_;                           // of the newest task
  std::uint64_t number_ = 0;                // of the newest task
  std::optional<TimePoint> begun_;          // the one under way
  std::optional<TimePoint> overdue_since_;  // there is something newer to plan
  std::size_t size_ = 0;                    // its collectives
  Duration last_time_{0};                   // of the last one that ended, or was given up
  std::size_t last_size_ = 0;
  std::optional<OwnPlan> answer_;
  bool somebody_waits_ = false;

  std::thread thread_;  // after what it uses
};

// What the last plans were, for the next to be put on top of.
struct BackgroundPlanner::History {
  std::optional<Scenario> newest;  // that was asked for
  std::optional<Plan> base;
  int extensions = 0;  // of it

  std::optional<PlanResult> extend(const Scenario& scenario) const {
    return base ? planning::extended_plan(scenario, *base) : std::nullopt;
  }
  // The extension, or where there are many already all of it anew.
  [[nodiscard]] std::pair<Result<PlanResult>, bool> quick(const Scenario& scenario,
                                                          std::optional<PlanResult> extended) const {
    if (!extended) return {make_quick_plan(scenario), false};
    if (extensions < kMostExtensions) return {*std::move(extended), true};
    Result<PlanResult> anew = make_quick_plan(scenario);
    if (anew.is_ok()) return {std::move(anew), false};
    return {*std::move(extended), true};
  }
  void note(const Plan& plan, bool is_extension) {
    base = plan;
    extensions = is_extension ? extensions + 1 : 0;
  }
  // Plans that were made for something else are nothing to put others on top of.
  void ask(const Scenario& scenario) {
    if (newest && !have_same_aims(newest->policy, scenario.policy)) base.reset();
    newest = scenario;
  }
};

BackgroundPlanner::BackgroundPlanner(std::function<void()> ready)
    : worker_(std::make_unique<Worker>(std::move(ready))), history_(std::make_unique<History>()) {}
BackgroundPlanner::BackgroundPlanner(BackgroundPlanner&&) noexcept = default;
BackgroundPlanner& BackgroundPlanner::operator=(BackgroundPlanner&&) noexcept = default;
BackgroundPlanner::~BackgroundPlanner() = default;

Result<PlanResult> BackgroundPlanner::plan(Scenario scenario, Duration patience) {
  if (std::optional<OwnPlan> own = worker_->take(); own && own->plan.is_ok())
    history_->note(own->plan->plan, false);
  history_->ask(scenario);
  const bool is_long = worker_->takes_longer(patience, scenario.collectives.size());
  std::optional<PlanResult> extended = is_long ? history_->extend(scenario) : std::nullopt;
  const bool goes_on = extended && worker_->start_after(scenario);
  if (!goes_on) {
    const std::optional<OwnPlan> own = worker_->start(scenario);
    // Without a base it is of another policy, perhaps.
    if (own && own->plan.is_ok() && history_->base) {
      history_->note(own->plan->plan, false);
      if (extended) extended = history_->extend(scenario);
    }
  }
  if (!goes_on && !is_long) {
    if (std::optional<Result<PlanResult>> made = worker_->wait_for(patience, scenario))
      return note(*std::move(made), false);
    extended = history_->extend(scenario);
  }
  auto [quick, is_extension] = history_->quick(scenario, std::move(extended));
  if (goes_on) return note(std::move(quick), is_extension);
  if (!quick.is_ok()) return note(worker_->wait(), false);
  if (std::optional<Result<PlanResult>> made = worker_->leave()) return note(*std::move(made), false);
  return note(std::move(quick), is_extension);
}

Result<PlanResult> BackgroundPlanner::note(Result<PlanResult> made, bool is_extension) {
  if (made.is_ok()) history_->note(made->plan, is_extension);
  return made;
}

std::optional<Result<PlanResult>> BackgroundPlanner::take_better() {
  std::optional<OwnPlan> own = worker_->take();
  if (!own) return std::nullopt;
  if (own->plan.is_ok()) history_->note(own->plan->plan, false);
  if (!own->is_older) return std::move(own->plan);
  std::optional<PlanResult> extended = history_->extend(*history_->newest);
  if (!extended) return std::nullopt;  // the newer one comes
  return note(*std::move(extended), true);
}

void BackgroundPlanner::cancel() { worker_->cancel(); }

void BackgroundPlanner::stop() { worker_->stop(); }

}  // namespace square
