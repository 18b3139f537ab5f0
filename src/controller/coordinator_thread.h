// A coordinator on the machine's clock, with a thread that takes its steps.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "controller/coordinator.h"
#include "controller/refusals.h"

namespace square::controller {

// Thread-safe.
class CoordinatorThread {
 public:
  // Errors: those of Coordinator::create().
  static Result<std::unique_ptr<CoordinatorThread>> create(
      Duration lease, Duration install_timeout, Scenario scenario,
      std::unique_ptr<store::Store> store = store::make_memory_store(),
      std::shared_ptr<const Granting> granting = nullptr);
  ~CoordinatorThread();
  CoordinatorThread(const CoordinatorThread&) = delete;
  CoordinatorThread& operator=(const CoordinatorThread&) = delete;

  [[nodiscard]] Coordinator& coordinator() { return *coordinator_; }
  [[nodiscard]] const Coordinator& coordinator() const { return *coordinator_; }

  // Until they are connected and have installed the active plan. Errors: DEADLINE_EXCEEDED with the names of
  // those missing, UNAVAILABLE once it is stopped.
  Status wait_for_nodes(const std::vector<std::string>& names, Duration timeout) const;

  // Waits for the thread, which ends when the coordinator is stopped.
  void join();

 private:
  CoordinatorThread();
  void run();
  void wake();

  mutable std::mutex mutex_;  // taken under the coordinator's
  mutable std::condition_variable changed_;
  std::uint64_t changes_ = 0;

  std::unique_ptr<Coordinator> coordinator_;  // null only before create() has returned
  std::thread thread_;
  Refusals refusals_;
};

}  // namespace square::controller
