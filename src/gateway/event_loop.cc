#include "gateway/event_loop.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/check.h"

namespace square::gateway {
namespace {

constexpr EventLoop::WatchId kWake = 0;
constexpr int kEventsAtOnce = 64;

}  // namespace

Result<std::shared_ptr<EventLoop>> EventLoop::make() {
  FileDescriptor poller(epoll_create1(EPOLL_CLOEXEC));
  FileDescriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!poller || !wake) {
    return resource_exhausted(fmt::format("cannot wait for sockets: {}; raise the limit of open files",
                                          net::describe_errno(errno)));
  }
  return std::shared_ptr<EventLoop>(new EventLoop(std::move(poller), std::move(wake)));
}

EventLoop::EventLoop(FileDescriptor poller, FileDescriptor wake)
    : poller_(std::move(poller)), wake_(std::move(wake)) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kWake;
  SQUARE_CHECK(epoll_ctl(poller_.get(), EPOLL_CTL_ADD, wake_.get(), &event) == 0, "epoll refuses an eventfd");
}

EventLoop::~EventLoop() { stop(); }

void EventLoop::post(Task task) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return;
  tasks_.push_back(std::move(task));
  const std::uint64_t one = 1;
  static_cast<void>(write(wake_.get(), &one, sizeof one));  // fails only when it is set already
}

std::optional<EventLoop::WatchId> EventLoop::watch(int descriptor, std::uint32_t events,
                                                   std::function<void(std::uint32_t)> ready) {
  const WatchId id = ++last_watch_;
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  if (epoll_ctl(poller_.get(), EPOLL_CTL_ADD, descriptor, &event) != 0) return std::nullopt;
  watches_.emplace(id,
                   Watch{descriptor, std::make_shared<std::function<void(std::uint32_t)>>(std::move(ready))});
  return id;
}

void EventLoop::change(WatchId watch, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = watch;
  const auto found = watches_.find(watch);
  if (found != watches_.end()) epoll_ctl(poller_.get(), EPOLL_CTL_MOD, found->second.descriptor, &event);
}

void EventLoop::forget(WatchId watch) {
  const auto found = watches_.find(watch);
  if (found == watches_.end()) return;
  epoll_ctl(poller_.get(), EPOLL_CTL_DEL, found->second.descriptor, nullptr);
  watches_.erase(found);
}

Status EventLoop::start(const char* thread_name, Duration interval, Task tick) {
  return with_new_threads([&] {
    thread_ = std::thread([this, thread_name, interval, tick = std::move(tick)] {
      pthread_setname_np(pthread_self(), thread_name);
      run(interval, tick);
    });
    return Status();
  });
}

void EventLoop::stop() {
  SQUARE_CHECK(thread_.get_id() != std::this_thread::get_id(), "stop() was called by a task");
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    const std::uint64_t one = 1;
    static_cast<void>(write(wake_.get(), &one, sizeof one));
  }
  if (thread_.joinable()) thread_.join();
}

// False when the loop is to end.
bool EventLoop::run_tasks() {
  std::uint64_t count = 0;
  static_cast<void>(read(wake_.get(), &count, sizeof count));
  std::vector<Task> tasks;
  bool stopping = false;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(tasks_);
    stopping = stopping_;
  }
  for (Task& task : tasks) {
    task();
    task = nullptr;
  }
  return !stopping;
}

void EventLoop::run(Duration interval, const Task& tick) {
  auto next_tick = std::chrono::steady_clock::now() + interval;
  std::array<epoll_event, kEventsAtOnce> events{};
  for (bool goes_on = true; goes_on;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(next_tick - std::chrono::steady_clock::now());
    const int wait = left.count() > 0 ? static_cast<int>(left.count()) : 0;
    const int ready = epoll_wait(poller_.get(), events.data(), kEventsAtOnce, wait);
    for (int i = 0; i < ready; ++i) {
      const WatchId id = events[static_cast<std::size_t>(i)].data.u64;
      if (id == kWake) {
        goes_on = run_tasks();
        continue;
      }
      // An earlier one of these events may have forgotten it.
      const auto found = watches_.find(id);
      if (found == watches_.end()) continue;
      const auto callback = found->second.ready;
      (*callback)(events[static_cast<std::size_t>(i)].events);
    }
    if (std::chrono::steady_clock::now() >= next_tick) {
      next_tick = std::chrono::steady_clock::now() + interval;
      tick();
    }
  }
  watches_.clear();
}

}  // namespace square::gateway
