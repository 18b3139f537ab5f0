#include "collective/call_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace square {
namespace {

// What is left of a timeout when a call begins: a node ends it at once, with its own words.
constexpr Duration kLeastTimeout = std::chrono::milliseconds(1);

void finish(QueuedOperation& operation, const Status& outcome) {
  // First: a program that hears of the end may join the group again, and this call has no part in it any
  // more.
  operation.membership.reset();
  operation.work->finish(outcome);
}

}  // namespace

// An operation at the host, from its post to its end.
class PostedCall {
 public:
  PostedCall(std::shared_ptr<CallQueue> queue, const CallQueue::Place& place, QueuedOperation operation)
      : queue_(std::move(queue)), place_(place), operation_(std::move(operation)) {}
  PostedCall(const PostedCall&) = delete;
  PostedCall& operator=(const PostedCall&) = delete;
  // A host that stops drops what it was given.
  ~PostedCall() {
    if (is_over_) return;
    const Status cause = cancelled("the node was stopped before the operation ended");
    queue_->drop(cause);
    finish(operation_, cause);
  }

  void end(const Status& outcome) {
    if (std::exchange(is_over_, true)) return;
    if (outcome.is_ok()) {
      queue_->over(place_);
    } else {
      queue_->fail(outcome);
    }
    finish(operation_, outcome);
    queue_->post_ready();
  }

 private:
  const std::shared_ptr<CallQueue> queue_;
  const CallQueue::Place place_;
  QueuedOperation operation_;  // without what was posted
  bool is_over_ = false;
};

Status CallQueue::check_room() const {
  const std::lock_guard lock(mutex_);
  if (deadlines_.size() < limits_.waiting) return Status::ok();
  return resource_exhausted(
      fmt::format("{} calls of the group wait for those before them, as many as may: the call was not made; "
                  "wait for some of them and make it again",
                  deadlines_.size()));
}

Status CallQueue::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_.value_or(Status::ok());
}

CallQueue::Deadlines::iterator CallQueue::wait_until_deadline(const MemberOperation& operation) {
  return deadlines_.emplace(deadline_of(operation), Late{operation.collective, operation.operation,
                                                         operation.rank, operation.timeout});
}

TimePoint CallQueue::deadline_of(const MemberOperation& operation) const {
  return host_.clock().now() + std::clamp(operation.timeout, Duration(0), kLongestTimeout);
}

void CallQueue::add_call(std::uint64_t order, std::vector<QueuedOperation> operations) {
  const std::lock_guard lock(mutex_);
  if (operations.empty()) return;
  open_calls_.emplace(order, operations.size());
  const auto deadline = wait_until_deadline(operations.front().operation);
  calls_.push_back({.order = order, .operations = std::move(operations), .deadline = deadline});
  release_calls();
}

void CallQueue::add_message(QueuedOperation operation) {
  const std::lock_guard lock(mutex_);
  Messages& messages = messages_[operation.operation.collective];
  const auto deadline = wait_until_deadline(operation.operation);
  messages.waiting.push_back({std::move(operation), deadline});
  release_messages(messages);
}

void CallQueue::add_step(QueuedOperation operation) {
  const std::lock_guard lock(mutex_);
  const TimePoint deadline = deadline_of(operation.operation);
  make_ready(std::move(operation), deadline, {});
}

bool CallQueue::begin_composite(std::uint64_t order, std::function<void()> due) {
  const std::lock_guard lock(mutex_);
  open_calls_.emplace(order, 1);
  calls_.push_back({.order = order, .operations = {}, .due = std::move(due)});
  release_calls();
  const bool is_due = calls_.empty();
  if (is_due) due_.pop_back();  // the caller knows
  return is_due;
}

void CallQueue::end_composite(std::uint64_t order) {
  {
    const std::lock_guard lock(mutex_);
    const auto waiting = std::ranges::lower_bound(calls_, order, {}, &Call::order);
    if (waiting != calls_.end() && waiting->order == order) calls_.erase(waiting);
    forget_call(order);
  }
  post_ready();
}

void CallQueue::forget_call(std::uint64_t order) {
  const auto call = open_calls_.find(order);
  if (call == open_calls_.end() || --call->second > 0) return;
  open_calls_.erase(call);
  release_calls();
}

void CallQueue::release_calls() {
  while (!calls_.empty()) {
    Call& next = calls_.front();
    const std::uint64_t oldest = open_calls_.begin()->first;
    const bool has_room =
        next.order - oldest < limits_.calls && under_way_ + next.operations.size() <= limits_.operations;
    if (!has_room && next.order != oldest && !failure_) return;
    under_way_ += next.operations.size();
    for (QueuedOperation& operation : next.operations)
      make_ready(std::move(operation), next.deadline->first, {.call = next.order});
    if (next.due) {
      due_.push_back(std::move(next.due));
    } else {
      deadlines_.erase(next.deadline);
    }
    calls_.pop_front();
  }
}

void CallQueue::release_messages(Messages& messages) {
  while (!messages.waiting.empty() && (messages.under_way < limits_.messages || failure_)) {
    Message& next = messages.waiting.front();
    ++messages.under_way;
    const CollectiveId collective = next.operation.operation.collective;
    make_ready(std::move(next.operation), next.deadline->first, {.messages = collective});
    deadlines_.erase(next.deadline);
    messages.waiting.pop_front();
  }
}

void CallQueue::make_ready(QueuedOperation operation, TimePoint deadline, const Place& place) {
  posted_[operation.operation.collective] = operation.operation.operation.value() + 1;
  ready_.push_back({std::move(operation), deadline, place});
}

void CallQueue::run_due() {
  std::vector<std::function<void()>> due;
  {
    const std::lock_guard lock(mutex_);
    due.swap(due_);
  }
  for (const auto& run : due) run();
}

// One thread at a time, so that the host gets them in their order.
void CallQueue::post_ready() {
  run_due();
  for (;;) {
    std::unique_lock lock(mutex_);
    if (is_posting_ || ready_.empty()) break;
    is_posting_ = true;
    std::deque<Ready> ready = std::exchange(ready_, {});
    lock.unlock();
    for (Ready& one : ready) post(std::move(one));
    lock.lock();
    is_posting_ = false;
    const auto late = ready_.empty() ? std::exchange(late_cancels_, {}) : decltype(late_cancels_){};
    lock.unlock();
    for (const auto& [collective, operation] : late) host_.cancel(collective, operation);
  }
  watch_deadlines();
}

void CallQueue::post(Ready ready) {
  std::optional<Status> dropped;
  {
    const std::lock_guard lock(mutex_);
    if (is_dropped_) dropped = failure_;
  }
  if (dropped) return finish(ready.operation, *dropped);
  MemberOperation operation = std::move(ready.operation.operation);
  operation.timeout = std::max(kLeastTimeout, ready.deadline - host_.clock().now());
  operation.done = [posted = std::make_shared<PostedCall>(
                        shared_from_this(), ready.place, std::move(ready.operation))](const Status& outcome) {
    posted->end(outcome);
  };
  host_.post(std::move(operation));
}

void CallQueue::over(const Place& place) {
  const std::lock_guard lock(mutex_);
  if (place.call) {
    --under_way_;
    forget_call(*place.call);
    release_calls();
  } else if (place.messages) {
    Messages& messages = messages_.at(*place.messages);
    --messages.under_way;
    release_messages(messages);
  }
}

std::vector<QueuedOperation> CallQueue::take_waiting() {
  std::vector<QueuedOperation> taken;
  for (Call& call : calls_) {
    std::ranges::move(call.operations, std::back_inserter(taken));
    if (call.due) due_.push_back(std::move(call.due));
  }
  for (auto& [collective, messages] : messages_) {
    for (Message& message : messages.waiting) taken.push_back(std::move(message.operation));
    messages.waiting.clear();
  }
  calls_.clear();
  deadlines_.clear();
  return taken;
}

void CallQueue::fail(const Status& cause) {
  std::vector<QueuedOperation> waiting;
  Status first;
  {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = cause;
    first = *failure_;
    waiting = take_waiting();
    // Other members may wait for these, and have no part in what failed: the node tells them.
    std::set<CollectiveId> told;
    std::erase_if(waiting, [&](QueuedOperation& one) {
      if (is_dropped_ || !told.insert(one.operation.collective).second) return false;
      const TimePoint deadline = deadline_of(one.operation);
      make_ready(std::move(one), deadline, {});
      return true;
    });
  }
  for (QueuedOperation& one : waiting) finish(one, first);
  run_due();
}

bool CallQueue::is_dropped() const {
  const std::lock_guard lock(mutex_);
  return is_dropped_;
}

void CallQueue::drop(const Status& cause) {
  {
    const std::lock_guard lock(mutex_);
    is_dropped_ = true;
  }
  fail(cause);
}

void CallQueue::cancel(CollectiveId collective, OperationId operation) {
  bool waits = false;
  {
    const std::lock_guard lock(mutex_);
    if (is_dropped_) return;
    const auto posted = posted_.find(collective);
    waits = !failure_ && (posted == posted_.end() || operation.value() >= posted->second);
    if (!waits && (is_posting_ || !ready_.empty())) late_cancels_.emplace_back(collective, operation);
  }
  if (!waits) return host_.cancel(collective, operation);
  const Status cause = cancelled(fmt::format(
      "a member on node \"{}\" cancelled the operation, which waited for calls before it", host_.name()));
  host_.fail(collective, operation, cause);
  fail(cause);
  post_ready();
}

void CallQueue::watch_deadlines() {
  TimePoint first;
  {
    const std::lock_guard lock(mutex_);
    if (deadlines_.empty()) return;
    first = deadlines_.begin()->first;
    if (watched_ && *watched_ <= first) return;
    watched_ = first;
  }
  host_.after(std::max(Duration(0), first - host_.clock().now()), [weak = weak_from_this(), first] {
    if (const auto self = weak.lock()) self->on_deadline(first);
  });
}

void CallQueue::on_deadline(TimePoint due) {
  std::optional<Late> late;
  std::size_t before = 0;
  {
    const std::lock_guard lock(mutex_);
    if (watched_ != due) return;  // an earlier one took its place
    watched_.reset();
    if (!deadlines_.empty() && deadlines_.begin()->first <= due) late = deadlines_.begin()->second;
    before = under_way_;
    for (const auto& [collective, messages] : messages_) before += messages.under_way;
  }
  if (!late) return watch_deadlines();
  const Status cause = deadline_exceeded(
      fmt::format("rank {} on node \"{}\" timed out after {:.1f} s: the call waited for those before it, of "
                  "which {} are under way",
                  late->rank.value(), host_.name(), to_seconds(late->timeout), before));
  host_.fail(late->collective, late->operation, cause);
  fail(cause);
  post_ready();
}

}  // namespace square
