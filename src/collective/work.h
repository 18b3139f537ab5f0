// The outcome of a member's calls, from the node's strand to whoever waits.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/own_process.h"
#include "square/communicator.h"

namespace square {

// One outcome, set once: what all kinds of work are made of. Thread-safe.
class Outcome {
 public:
  Status wait();
  bool wait_for(Duration timeout);
  [[nodiscard]] bool is_set() const;
  // Runs `notify` when there is one, at once if there is. Must not block.
  void on_set(std::function<void()> notify);
  // The first one counts.
  void set(Status outcome);

 private:
  const OwnProcess process_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Status> outcome_;
  std::vector<std::function<void()>> notify_;
};

// One call that was posted to a node.
class PostedWork final : public Work {
 public:
  PostedWork(std::shared_ptr<const CallProgress> progress, std::function<void()> cancel)
      : progress_(std::move(progress)), cancel_(std::move(cancel)) {}

  Status wait() override { return outcome_.wait(); }
  bool wait_for(Duration timeout) override { return outcome_.wait_for(timeout); }
  [[nodiscard]] bool is_done() const override { return outcome_.is_set(); }
  void on_done(std::function<void()> notify) override { outcome_.on_set(std::move(notify)); }
  void cancel() override {
    if (!is_done()) cancel_();
  }
  [[nodiscard]] WorkProgress progress() const override;
  void finish(Status outcome) { outcome_.set(std::move(outcome)); }

 private:
  const std::shared_ptr<const CallProgress> progress_;
  std::function<void()> cancel_;
  Outcome outcome_;
};

// Several calls that are one operation: over when all are, with the first failure.
class JoinedWork final : public Work {
 public:
  using Parts = std::vector<std::shared_ptr<PostedWork>>;
  static std::shared_ptr<Work> join(Parts parts);

  Status wait() override { return outcome_.wait(); }
  bool wait_for(Duration timeout) override { return outcome_.wait_for(timeout); }
  [[nodiscard]] bool is_done() const override { return outcome_.is_set(); }
  void on_done(std::function<void()> notify) override { outcome_.on_set(std::move(notify)); }
  [[nodiscard]] WorkProgress progress() const override;
  void cancel() override;

 private:
  explicit JoinedWork(Parts parts) : parts_(std::move(parts)), left_(parts_.size()) {}
  void on_part(std::size_t part);

  const Parts parts_;
  std::mutex mutex_;
  std::size_t left_;
  Status first_failure_;
  Outcome outcome_;
};

}  // namespace square
