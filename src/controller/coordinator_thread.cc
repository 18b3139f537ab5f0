#include "controller/coordinator_thread.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"
#include "controller/protocol.h"

namespace square::controller {
namespace {

std::chrono::steady_clock::time_point on_machine(TimePoint when) {
  return std::chrono::steady_clock::time_point(when.time_since_epoch());
}

}  // namespace

CoordinatorThread::CoordinatorThread()
    : refusals_([this](const std::string& node, const std::string& address) {
        coordinator_->refused(node, address);
      }) {}

Result<std::unique_ptr<CoordinatorThread>> CoordinatorThread::create(
    Duration lease, Duration install_timeout, Scenario scenario, std::unique_ptr<store::Store> store,
    std::shared_ptr<const Granting> granting) {
  std::unique_ptr<CoordinatorThread> made(new CoordinatorThread());
  Coordinator::Surroundings surroundings{steady_clock(), [self = made.get()] { self->wake(); },
                                         make_background_plan_source,
                                         [self = made.get()](std::map<std::string, std::string> addresses) {
                                           self->refusals_.watch(std::move(addresses));
                                         },
                                         std::move(granting)};
  SQUARE_ASSIGN_OR_RETURN(made->coordinator_,
                          Coordinator::create(std::move(surroundings), lease, install_timeout,
                                              std::move(scenario), std::move(store)));
  made->thread_ = std::thread([self = made.get()] { self->run(); });
  return made;
}

CoordinatorThread::~CoordinatorThread() {
  if (coordinator_) coordinator_->stop();
  join();
  refusals_.stop();
}

void CoordinatorThread::join() {
  if (thread_.joinable()) thread_.join();
}

void CoordinatorThread::wake() {
  const std::lock_guard lock(mutex_);
  ++changes_;
  changed_.notify_all();
}

void CoordinatorThread::run() {
  for (;;) {
    std::unique_lock lock(mutex_);
    const std::uint64_t seen = changes_;
    lock.unlock();
    const std::optional<TimePoint> next = coordinator_->step();
    if (!next) return;
    lock.lock();
    changed_.wait_until(lock, on_machine(*next), [&] { return changes_ != seen; });
  }
}

Status CoordinatorThread::wait_for_nodes(const std::vector<std::string>& names, Duration timeout) const {
  const TimePoint end = steady_clock().now() + bounded(timeout);
  for (;;) {
    std::unique_lock lock(mutex_);
    const std::uint64_t seen = changes_;
    lock.unlock();
    const std::vector<std::string> missing = coordinator_->missing(names);
    if (missing.empty()) return {};
    if (coordinator_->is_stopping()) return unavailable("the controller stopped");
    lock.lock();
    if (changed_.wait_until(lock, on_machine(end), [&] { return changes_ != seen; })) continue;
    return deadline_exceeded(
        fmt::format("after {:.3g} s these nodes have not joined and installed the plan: {}",
                    to_seconds(timeout), fmt::join(missing, ", ")));
  }
}

}  // namespace square::controller
