// The controller of an overlay that is one node and stays so: no wire, no addresses, nobody joins.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "square/controller_client.h"
#include "square/group.h"
#include "square/status.h"

namespace square::controller {

class CoordinatorThread;

// To its node what ControllerClient is to others. Thread-safe.
class LoneController {
 public:
  // Calls on_plan and on_activate of `events` only, on a thread of its own, until stop(); they must not
  // block. Errors: INVALID_ARGUMENT for a name that no node may have.
  static Result<std::unique_ptr<LoneController>> start(const std::string& node, ControllerEvents events);
  ~LoneController();
  LoneController(const LoneController&) = delete;
  LoneController& operator=(const LoneController&) = delete;

  // As ControllerClient::register_group(). Blocks for `timeout` at most.
  Result<GroupRegistration> register_group(const GroupSpec& group, Duration timeout);

  // As ControllerClient::regroup(). Blocks for `timeout` at most.
  Result<GroupSpec> regroup(const RegroupRequest& request, Duration timeout);

  // As ControllerClient::close_group().
  void close_group(const std::string& group, std::uint64_t number);

  // The node works, so it is there. Cheap.
  void note_use();

  // Fails what is pending and joins the thread: no event comes after it. Idempotent.
  void stop();

 private:
  class Line;
  LoneController(std::string node, std::shared_ptr<CoordinatorThread> running, std::shared_ptr<Line> line);

  const std::string node_;
  const std::shared_ptr<CoordinatorThread> running_;
  const std::shared_ptr<Line> line_;
  std::atomic<std::chrono::steady_clock::rep> next_beat_{0};
};

}  // namespace square::controller
