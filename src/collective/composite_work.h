// An operation of several steps, from its call to its outcome.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "collective/composite_thread.h"
#include "collective/work.h"
#include "square/clock.h"

namespace square {

// Thread-safe where nothing else is said; only the composite thread finishes it.
class CompositeWork final : public Work {
 public:
  using Body = std::function<Status(CompositeRun&)>;

  // `changed` runs when it was stopped: the composite thread looks at it then. Its steps may begin once
  // `is_due` is true. Precondition: the operation has collectives.
  CompositeWork(CompositeOperation operation, GroupCalls::Numbered call, TimePoint begun_at,
                std::shared_ptr<const std::atomic<bool>> is_due, std::function<void()> changed);

  Status wait() override { return outcome_.wait(); }
  bool wait_for(Duration timeout) override { return outcome_.wait_for(timeout); }
  [[nodiscard]] bool is_done() const override { return outcome_.is_set(); }
  void on_done(std::function<void()> notify) override { outcome_.on_set(std::move(notify)); }
  [[nodiscard]] WorkProgress progress() const override;
  void cancel() override { stop("cancelled"); }

  // Cancels the steps that are under way, and those to come. `why` is a literal.
  void stop(const char* why);
  // OK, or why it must end. A step that is under way has a better reason.
  [[nodiscard]] Status check() const;
  [[nodiscard]] TimePoint deadline() const { return deadline_; }
  [[nodiscard]] bool is_due() const { return *is_due_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const GroupCalls::Numbered& call() const { return call_; }
  // That tells the other members of a failure.
  [[nodiscard]] const GroupCollective& collective() const { return collective_; }
  // Until when its steps are waited for, and what is said then.
  [[nodiscard]] TimePoint patience() const;
  [[nodiscard]] Status gives_up() const;

  void add_step(const std::shared_ptr<Work>& step);
  // Those that run or have failed.
  [[nodiscard]] std::vector<std::shared_ptr<Work>> steps() const;

  // For the composite thread. The body, until it is finished.
  [[nodiscard]] const std::shared_ptr<const Body>& body() const { return body_; }
  void finish(const Status& outcome);

 private:
  const std::string name_;
  const GroupCalls::Numbered call_;
  const GroupCollective collective_;
  const Duration timeout_;
  const TimePoint deadline_;
  const std::shared_ptr<const std::atomic<bool>> is_due_;
  const std::function<void()> changed_;
  std::shared_ptr<const Body> body_;
  mutable std::mutex mutex_;  // of what follows
  std::vector<std::shared_ptr<Work>> steps_;
  WorkProgress past_;  // of steps that are over
  std::optional<TimePoint> stopped_at_;
  const char* why_ = "";
  Outcome outcome_;
};

}  // namespace square
