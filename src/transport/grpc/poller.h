// The thread of one completion queue.
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/completion_queue.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "square/thread_executor.h"

namespace square::rpc {

class Channel;

// Polls a queue and lets the events' channels proceed. Between events it runs the strand, if it was lent
// one, and then the channels that were woken by this thread: all that a strand has given to a link by then
// goes out together, and no other thread had to wake for it.
class Poller final : public StrandHost {
 public:
  using Patience = std::atomic<Duration::rep>;

  // `executor` may be none; else its strand is lent to this poller. `patience` is how long events, and
  // others' wake-ups, may wait for more to come; it may change at any time.
  Poller(grpc::CompletionQueue& queue, ThreadExecutor* executor, const Patience& patience);

  // On the thread that is to poll: until the queue is shut down and empty.
  void run();
  // Before the queue is shut down: the strand goes back.
  void give_back();

  // If this thread polls the queue: has the channel proceed with its wake-up soon, and says so.
  static bool wake_here(const grpc::CompletionQueue& queue, const std::shared_ptr<Channel>& channel);

  void wake() override;

 private:
  // An event that is there already, or lets some come in where they come often. As gRPC's AsyncNext().
  grpc::CompletionQueue::NextStatus gather(void** tag, bool* ok);
  [[nodiscard]] bool is_busy(TimePoint now, Duration time) const;
  [[nodiscard]] bool next(TimePoint until, void** tag, bool* ok);
  void wake_channels();

  grpc::CompletionQueue& queue_;
  ThreadExecutor* const executor_;
  const Patience& patience_;
  // The thread only:
  std::vector<std::shared_ptr<Channel>> woken_;
  // When the last events came, from the oldest of them on.
  static constexpr std::size_t kWorthAWait = 4;
  std::array<TimePoint, kWorthAWait> event_times_{};
  std::size_t oldest_event_ = 0;

  std::atomic<bool> is_waking_ = false;
  grpc::Alarm alarm_;
};

}  // namespace square::rpc
