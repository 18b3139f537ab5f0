#include "collective/composite_thread.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "base/check.h"
#include "collective/composite_work.h"
#include "square/clock.h"
#include "square/data_plane.h"

namespace square {
namespace {

// A body that finds no memory, or throws otherwise, must not end the process.
Status run_body(const CompositeWork& work, CompositeRun& run) {
  try {
    return (*work.body())(run);
  } catch (const std::bad_alloc&) {
    return resource_exhausted(work.name() + ": no memory for what it keeps between its steps");
  } catch (const std::exception& error) {
    return internal_error(work.name() + ": " + error.what());
  }
}

}  // namespace

class CompositeThread::State : public std::enable_shared_from_this<State> {
 public:
  State(std::shared_ptr<GroupCalls> group, std::size_t max_waiting)
      : group_(std::move(group)), max_waiting_(max_waiting) {}

  Result<std::shared_ptr<Work>> start(CompositeOperation operation) {
    SQUARE_RETURN_IF_ERROR(group_->check_usable());
    // The plan's time counts.
    const TimePoint begun_at = steady_clock().now();
    SQUARE_RETURN_IF_ERROR(group_->ensure(operation.collectives, operation.timeout));
    const std::lock_guard lock(mutex_);
    if (stopping_) return cancelled(operation.name + " was called while its communicator ended");
    if (waiting_.size() >= max_waiting_) {
      return resource_exhausted(
          fmt::format("{}: {} operations of this communicator wait behind the one that runs; wait for some "
                      "of them first",
                      operation.name, max_waiting_));
    }
    if (!thread_.joinable()) {
      try {
        thread_ = std::thread([self = shared_from_this()] { self->loop(); });
      } catch (const std::system_error& error) {
        return resource_exhausted(fmt::format("{}: no thread to run it: {}", operation.name, error.what()));
      }
    }
    const auto is_due = std::make_shared<std::atomic<bool>>(false);
    const GroupCalls::Numbered number =
        group_->number_call(operation.kind, [state = weak_from_this(), is_due] {
          *is_due = true;
          if (const auto self = state.lock()) self->wake();
        });
    if (number.is_due) *is_due = true;
    auto work = std::make_shared<CompositeWork>(std::move(operation), number, begun_at, is_due,
                                                [state = weak_from_this()] {
                                                  if (const auto self = state.lock())
                                                    self->look_for_stopped();
                                                });
    waiting_.push_back(work);
    deadlines_.insert(work->deadline());
    wake_with_lock();
    return std::shared_ptr<Work>(std::move(work));
  }

  void stop() {
    std::vector<std::shared_ptr<CompositeWork>> all;
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      all.assign(waiting_.begin(), waiting_.end());
      if (running_) all.push_back(running_);
      wake_with_lock();
    }
    for (const auto& work : all) work->stop("ended with its communicator");
    if (!thread_.joinable()) return;
    // Who is told of the end of an operation may let go of the communicator.
    if (thread_.get_id() == std::this_thread::get_id()) {
      // The node may go once this returns, though an operation is still on its way out.
      if (running_ && !running_->is_done()) tell(*running_, running_->check());
      end_waiting();
      has_left_ = true;
      thread_.detach();
    } else {
      thread_.join();
    }
  }

  [[nodiscard]] bool is_resting() const {
    const std::lock_guard lock(mutex_);
    return !thread_.joinable() || (resting_ && !woken_);
  }

  void wake() {
    const std::lock_guard lock(mutex_);
    wake_with_lock();
  }

  void look_for_stopped() {
    const std::lock_guard lock(mutex_);
    has_stopped_ = true;
    wake_with_lock();
  }

  // Until the step is over, or has been given up.
  Status wait(CompositeWork& work, const std::shared_ptr<Work>& step) {
    while (!step->is_done()) {
      const TimePoint patience = work.patience();
      if (steady_clock().now() >= patience) return work.gives_up();
      rest(patience);
      end_waiting();
    }
    return step->wait();
  }

 private:
  class Run;

  void wake_with_lock() {
    woken_ = true;
    changed_.notify_all();
  }

  // Until something changes, `until` at the latest, or one of those that wait has waited too long.
  void rest(TimePoint until) {
    std::unique_lock lock(mutex_);
    if (!deadlines_.empty()) until = std::min(until, *deadlines_.begin());
    resting_ = true;
    const Duration left = until - steady_clock().now();
    changed_.wait_for(lock, std::min<Duration>(left, kLongestRest), [&] { return woken_; });
    woken_ = false;
    resting_ = false;
  }

  // Those that were stopped or waited too long.
  void end_waiting() {
    std::vector<std::shared_ptr<CompositeWork>> ended;
    {
      const std::lock_guard lock(mutex_);
      const bool is_late = !deadlines_.empty() && steady_clock().now() >= *deadlines_.begin();
      if (!std::exchange(has_stopped_, false) && !is_late) return;
      std::erase_if(waiting_, [&](const auto& work) {
        const bool is_over = !work->check().is_ok();  // asked once: time goes on
        if (is_over) {
          ended.push_back(work);
          deadlines_.erase(deadlines_.find(work->deadline()));
        }
        return is_over;
      });
    }
    // All are told of before anybody hears of an end, who may let go of the communicator.
    for (const auto& work : ended) tell(*work, work->check());
    for (const auto& work : ended) finish(*work, work->check());
  }

  void finish(CompositeWork& work, const Status& outcome) {
    if (!has_left_) group_->end_call(work.call());
    work.finish(outcome);
  }

  void loop() {
    for (;;) {
      end_waiting();
      {
        const std::lock_guard lock(mutex_);
        if (waiting_.empty() && stopping_) return;
        if (!waiting_.empty() && waiting_.front()->is_due()) {
          running_ = std::move(waiting_.front());
          waiting_.pop_front();
          deadlines_.erase(deadlines_.find(running_->deadline()));
        }
      }
      if (running_) {
        run(*running_);
        const std::lock_guard lock(mutex_);
        running_.reset();
      } else {
        rest(steady_clock().now() + kLongestRest);
      }
    }
  }

  void run(CompositeWork& work);

  // On the thread.
  void tell(const CompositeWork& work, const Status& cause) {
    if (!has_left_) group_->fail(group_->next_of(work.collective()), cause);
  }

  static constexpr Duration kLongestRest = std::chrono::minutes(10);

  const std::shared_ptr<GroupCalls> group_;
  const std::size_t max_waiting_;
  mutable std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::deque<std::shared_ptr<CompositeWork>> waiting_;
  std::multiset<TimePoint> deadlines_;      // of those
  bool has_stopped_ = false;                // one of them, since they were looked at
  std::shared_ptr<CompositeWork> running_;  // written by the thread, with the mutex
  bool stopping_ = false;
  bool resting_ = false;
  bool woken_ = false;
  std::thread thread_;
  bool has_left_ = false;  // the communicator, while an operation runs; the thread's own
};

class CompositeThread::State::Run final : public CompositeRun {
 public:
  Run(State& state, CompositeWork& work) : state_(state), work_(work) {}

  Result<std::shared_ptr<Work>> begin(std::vector<Part> parts) override {
    SQUARE_RETURN_IF_ERROR(work_.check());
    const Duration left = std::max(Duration(0), work_.deadline() - steady_clock().now());
    auto begun = state_.group_->call_step(work_.call().number, std::move(parts), left);
    if (!begun.is_ok()) return begun;
    const std::shared_ptr<Work>& step = *begun;
    // A step that is given up may still use what the body owns.
    step->on_done([state = state_.weak_from_this(), body = work_.body()] {
      if (const auto self = state.lock()) self->wake();
    });
    work_.add_step(step);
    return begun;
  }
  Status wait(const std::shared_ptr<Work>& step) override { return state_.wait(work_, step); }
  [[nodiscard]] Status check() const override { return work_.check(); }
  [[nodiscard]] GroupCall call() const override { return work_.call().number; }

 private:
  State& state_;
  CompositeWork& work_;
};

void CompositeThread::State::run(CompositeWork& work) {
  Run view(*this, work);
  Status outcome = run_body(work, view);
  const auto end = [&] {
    // First, so that this is the cause everywhere and not that steps were cancelled.
    tell(work, outcome);
    work.stop("ended by a failure");
  };
  if (!outcome.is_ok()) end();
  for (const auto& step : work.steps()) {
    Status ended = wait(work, step);
    if (!outcome.is_ok() || ended.is_ok()) continue;
    outcome = std::move(ended);
    end();
  }
  finish(work, outcome);
}

CompositeThread::CompositeThread(std::shared_ptr<GroupCalls> group, std::size_t max_waiting)
    : state_(std::make_shared<State>(std::move(group), max_waiting)) {}
CompositeThread::~CompositeThread() { state_->stop(); }

Result<std::shared_ptr<Work>> CompositeThread::start(CompositeOperation operation) {
  return state_->start(std::move(operation));
}

bool CompositeThread::is_resting() const { return state_->is_resting(); }

}  // namespace square
