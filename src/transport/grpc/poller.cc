#include "transport/grpc/poller.h"

#include <grpc/support/time.h>

#include <thread>
#include <utility>

#include "transport/grpc/channel.h"

namespace square::rpc {
namespace {

thread_local Poller* current = nullptr;

}  // namespace

Poller::Poller(grpc::CompletionQueue& queue, ThreadExecutor* executor, const Patience& patience)
    : queue_(queue), executor_(executor), patience_(patience) {
  if (executor_ != nullptr) executor_->lend_to(*this);
}

void Poller::give_back() {
  if (executor_ != nullptr) executor_->take_back();
}

bool Poller::wake_here(const grpc::CompletionQueue& queue, const std::shared_ptr<Channel>& channel) {
  if (current == nullptr || &current->queue_ != &queue) return false;
  current->woken_.push_back(channel);
  return true;
}

void Poller::wake() {
  if (is_waking_.exchange(true)) return;
  alarm_.Set(&queue_, gpr_time_0(GPR_CLOCK_MONOTONIC), nullptr);
}

void Poller::run() {
  current = this;
  void* tag = nullptr;
  bool ok = false;
  TimePoint until = TimePoint::max();
  while (next(until, &tag, &ok)) {
    if (tag != nullptr) {
      const Channel::Tag& event = *static_cast<const Channel::Tag*>(tag);
      event.channel->proceed(event.op, ok);
      event_times_[oldest_event_] = steady_clock().now();
      oldest_event_ = (oldest_event_ + 1) % kWorthAWait;
    }
    until = executor_ == nullptr ? TimePoint::max() : executor_->run_ready();
    wake_channels();
  }
  current = nullptr;
}

grpc::CompletionQueue::NextStatus Poller::gather(void** tag, bool* ok) {
  const Duration patience(patience_.load(std::memory_order_relaxed));
  if (patience == Duration(0) || !is_busy(steady_clock().now(), patience))
    return grpc::CompletionQueue::TIMEOUT;
  const auto status = queue_.AsyncNext(tag, ok, gpr_time_0(GPR_CLOCK_MONOTONIC));
  if (status == grpc::CompletionQueue::TIMEOUT) {
    const TimePoint now = steady_clock().now();
    std::this_thread::sleep_for(tick_after(now, patience) - now);
  }
  return status;
}

// Where little comes, the wait itself is a wake-up more.
bool Poller::is_busy(TimePoint now, Duration time) const { return now - event_times_[oldest_event_] < time; }

// False if the queue is through; no tag if the time has come, or for a wake-up.
bool Poller::next(TimePoint until, void** tag, bool* ok) {
  *tag = nullptr;
  auto status = gather(tag, ok);
  if (status == grpc::CompletionQueue::TIMEOUT) {
    const TimePoint now = steady_clock().now();
    const Duration left = until > now ? until - now : Duration(0);
    const auto deadline =
        until == TimePoint::max()
            ? gpr_inf_future(GPR_CLOCK_MONOTONIC)
            : gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(left.count(), GPR_TIMESPAN));
    status = queue_.AsyncNext(tag, ok, deadline);
  }
  if (status == grpc::CompletionQueue::SHUTDOWN) return false;
  if (status == grpc::CompletionQueue::TIMEOUT) {
    *tag = nullptr;
  } else if (*tag == nullptr) {
    is_waking_ = false;
  }
  return true;
}

void Poller::wake_channels() {
  while (!woken_.empty()) {
    const auto woken = std::exchange(woken_, {});
    for (const auto& channel : woken) channel->proceed(Channel::Op::kWake, true);
  }
}

}  // namespace square::rpc
