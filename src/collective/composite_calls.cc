#include "collective/composite_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/check.h"
#include "collective/turns.h"
#include "square/clock.h"
#include "square/data_plane.h"

namespace square {

class CompositeCalls::Line final : public CompositeLine, public std::enable_shared_from_this<Line> {
 public:
  Line(std::shared_ptr<GroupCalls> group, std::size_t max_waiting)
      : group_(std::move(group)), clock_(group_->host().clock()), max_waiting_(max_waiting) {}

  Result<std::shared_ptr<Work>> start(CompositeOperation operation);
  // The communicator is gone, and soon the node may be.
  void leave();

  void take_turn(std::function<void()> turn) override { turns_->run(std::move(turn)); }
  [[nodiscard]] TimePoint now() const override { return clock_.now(); }
  [[nodiscard]] GroupCalls& group() override { return *group_; }
  void tell(const CompositeCall& call, const Status& cause) override {
    if (!has_left_) group_->fail(group_->next_of(call.collective()), cause);
  }
  void cancel(CompositeCall& call) override;
  void on_ending() override { watch(); }
  void on_over(CompositeCall& call) override;

 private:
  struct Waiting {
    std::shared_ptr<CompositeCall> call;
    std::shared_ptr<const std::atomic<bool>> is_due;  // its steps may begin
  };

  void soon_go_on() {
    turns_->run([self = shared_from_this()] { self->go_on(); });
  }
  // In turns:
  void go_on();
  void end_late();
  // Looks again when what waits, or what runs, has been waited for long enough.
  void watch();
  void on_time(TimePoint due);
  // With mutex_.
  std::shared_ptr<CompositeCall> take(std::deque<Waiting>::iterator waiting);

  const std::shared_ptr<GroupCalls> group_;
  const Clock& clock_;
  const std::size_t max_waiting_;
  const std::shared_ptr<Turns> turns_ = std::make_shared<Turns>();
  std::mutex mutex_;  // of what waits
  std::deque<Waiting> waiting_;
  std::multiset<TimePoint> deadlines_;
  // In turns:
  std::shared_ptr<CompositeCall> running_;
  std::optional<TimePoint> watched_;  // when the host calls back
  bool has_left_ = false;
};

Result<std::shared_ptr<Work>> CompositeCalls::Line::start(CompositeOperation operation) {
  SQUARE_RETURN_IF_ERROR(group_->check_usable());
  // The plan's time counts.
  const TimePoint begun_at = now();
  SQUARE_RETURN_IF_ERROR(group_->ensure(operation.collectives, operation.timeout));
  std::shared_ptr<CompositeCall> call;
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() >= max_waiting_) {
      return resource_exhausted(
          fmt::format("{}: {} operations of this communicator wait behind the one that runs; wait for some "
                      "of them first",
                      operation.name, max_waiting_));
    }
    const auto is_due = std::make_shared<std::atomic<bool>>(false);
    const GroupCalls::Numbered number =
        group_->number_call(operation.kind, [weak = weak_from_this(), is_due] {
          *is_due = true;
          if (const auto self = weak.lock()) self->soon_go_on();
        });
    if (number.is_due) *is_due = true;
    call = std::make_shared<CompositeCall>(std::move(operation), number, begun_at, weak_from_this());
    waiting_.push_back({call, is_due});
    deadlines_.insert(call->deadline());
  }
  soon_go_on();
  return std::shared_ptr<Work>(std::move(call));
}

void CompositeCalls::Line::leave() {
  turns_->run_now([this] {
    std::vector<std::shared_ptr<CompositeCall>> ended;
    {
      const std::lock_guard lock(mutex_);
      while (!waiting_.empty()) ended.push_back(take(waiting_.begin()));
    }
    if (running_) running_->fail(running_->was("ended with its communicator"));
    for (const auto& call : ended) tell(*call, call->was("ended with its communicator"));
    has_left_ = true;
    for (const auto& call : ended) call->end(call->was("ended with its communicator"));
    if (running_) running_->end_if_over();
  });
}

std::shared_ptr<CompositeCall> CompositeCalls::Line::take(std::deque<Waiting>::iterator waiting) {
  std::shared_ptr<CompositeCall> call = std::move(waiting->call);
  deadlines_.erase(deadlines_.find(call->deadline()));
  waiting_.erase(waiting);
  return call;
}

void CompositeCalls::Line::go_on() {
  while (!running_ && !has_left_) {
    {
      const std::lock_guard lock(mutex_);
      if (waiting_.empty() || !*waiting_.front().is_due) break;
      running_ = take(waiting_.begin());
    }
    const auto call = running_;
    call->start();
    call->end_if_over();
  }
  watch();
}

void CompositeCalls::Line::cancel(CompositeCall& call) {
  std::shared_ptr<CompositeCall> waited;
  {
    const std::lock_guard lock(mutex_);
    const auto place = std::ranges::find(waiting_, &call, [](const Waiting& one) { return one.call.get(); });
    if (place != waiting_.end()) waited = take(place);
  }
  const Status why = call.was("cancelled");
  if (waited) {
    tell(call, why);
    call.end(why);
  } else if (running_.get() == &call) {
    call.stop(why);
    call.end_if_over();
  }
}

void CompositeCalls::Line::on_over(CompositeCall& call) {
  if (!has_left_) group_->end_call(call.number());
  if (running_.get() != &call) return;
  running_.reset();
  soon_go_on();
}

void CompositeCalls::Line::on_time(TimePoint due) {
  if (watched_ != due) return;  // an earlier one took its place
  watched_.reset();
  end_late();
  if (const auto call = running_) call->end_if_over();
  watch();
}

void CompositeCalls::Line::end_late() {
  std::vector<std::shared_ptr<CompositeCall>> late;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(waiting_, [&, time = now()](const Waiting& one) {
      if (one.call->deadline() > time) return false;
      deadlines_.erase(deadlines_.find(one.call->deadline()));
      late.push_back(one.call);
      return true;
    });
  }
  // All are told of before anybody hears of an end, and perhaps lets go of the communicator.
  for (const auto& call : late) tell(*call, call->is_late());
  for (const auto& call : late) call->end(call->is_late());
}

void CompositeCalls::Line::watch() {
  if (has_left_) return;
  TimePoint first = TimePoint::max();
  {
    const std::lock_guard lock(mutex_);
    if (!deadlines_.empty()) first = *deadlines_.begin();
  }
  // Arithmetic is waited for longer.
  if (running_ && running_->patience() > now()) first = std::min(first, running_->patience());
  if (first == TimePoint::max() || (watched_ && *watched_ <= first)) return;
  watched_ = first;
  group_->host().after(std::max(Duration(0), first - now()), [weak = weak_from_this(), first] {
    if (const auto self = weak.lock()) self->take_turn([self, first] { self->on_time(first); });
  });
}

CompositeCalls::CompositeCalls(std::shared_ptr<GroupCalls> group, std::size_t max_waiting)
    : line_(std::make_shared<Line>(std::move(group), max_waiting)) {}
CompositeCalls::~CompositeCalls() { line_->leave(); }

Result<std::shared_ptr<Work>> CompositeCalls::start(CompositeOperation operation) {
  return line_->start(std::move(operation));
}

}  // namespace square
