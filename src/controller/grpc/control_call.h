// The server's end of a control stream, for controllers and for masters of parameter servers.
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "controller/grpc/status.h"

namespace square::controller {

struct CallBounds {
  // A caller that does not read is cut off here, and told `full`.
  std::size_t queued;
  const char* full;
  // From the call's begin to a hello that is accepted. A call without one ends then.
  std::chrono::seconds hello_time{10};
};

// The call keeps itself alive until gRPC is done with it. Made by std::make_shared(). Thread-safe.
template <typename Incoming, typename Outgoing>
class ControlCall : public grpc::ServerBidiReactor<Incoming, Outgoing>,
                    public std::enable_shared_from_this<ControlCall<Incoming, Outgoing>> {
 public:
  // The context is gRPC's, and lives until the call has finished.
  ControlCall(grpc::CallbackServerContext& context, const CallBounds& bounds)
      : context_(context), bounds_(bounds) {}

  // Begins to read. Once.
  void begin() {
    self_ = this->shared_from_this();
    // gRPC knows deadlines by the system's clock, and takes the difference at once.
    hello_.Set(std::chrono::system_clock::now() + bounds_.hello_time,
               [weak = this->weak_from_this()](bool is_time) {
                 const auto call = weak.lock();
                 if (is_time && call && !call->is_known_)
                   call->end(deadline_exceeded("a line without a hello"), true);
               });
    this->StartRead(&incoming_);
  }

  // In order; dropped once the call is to end. False where the queue is full: the call is to end, and end()
  // or a read_next() that follows does so.
  bool push(std::shared_ptr<const Outgoing> message) {
    const std::lock_guard lock(mutex_);
    if (reason_) return true;
    if (outgoing_.size() >= bounds_.queued) {
      reason_ = resource_exhausted(bounds_.full);
      outgoing_.resize(1);
      return false;
    }
    outgoing_.push_back(std::move(message));
    if (outgoing_.size() == 1) this->StartWrite(outgoing_.front().get());
    return true;
  }

  // Ends the call with the first reason that it is given, once what was pushed is written; `at_once` also if
  // the caller does not read that. Not under a lock that heard() and lost() take.
  void end(Status reason, bool at_once) {
    std::unique_lock lock(mutex_);
    if (!reason_) reason_ = std::move(reason);
    if (at_once && !outgoing_.empty() && !is_cancelling_) {
      outgoing_.resize(1);
      // The flag keeps the call from finishing, and so the context alive, meanwhile.
      is_cancelling_ = true;
      lock.unlock();
      context_.TryCancel();
      lock.lock();
      is_cancelling_ = false;
    }
    finish_if_idle();
  }

  void OnReadDone(bool ok) final {
    if (ok) return heard(incoming_);
    lost();
    end(Status::ok(), true);
  }
  void OnWriteDone(bool ok) final {
    const std::lock_guard lock(mutex_);
    // One that failed needs nothing more: the read fails as well, and that ends the call.
    ok ? outgoing_.pop_front() : outgoing_.clear();
    if (!outgoing_.empty()) return this->StartWrite(outgoing_.front().get());
    finish_if_idle();
  }
  void OnDone() final {
    const auto last = std::move(self_);  // dies here unless somebody still holds it
    done();
  }

 protected:
  // One at a time. The next one comes once read_next() was called.
  virtual void heard(Incoming& message) = 0;
  // Nothing is heard any more.
  virtual void lost() {}
  // The last.
  virtual void done() {}

  // False: the call is to end.
  bool read_next() {
    const std::lock_guard lock(mutex_);
    if (!reason_) this->StartRead(&incoming_);
    return !reason_;
  }
  // For callers that must not call end(): nothing is pushed any more, and read_next() says so.
  void end_later(Status reason) {
    const std::lock_guard lock(mutex_);
    if (!reason_) reason_ = std::move(reason);
  }
  // The hello was accepted.
  void known() { is_known_ = true; }
  [[nodiscard]] grpc::CallbackServerContext& context() const { return context_; }

 private:
  // With mutex_ held.
  void finish_if_idle() {
    if (!reason_ || !outgoing_.empty() || is_cancelling_ || is_finished_) return;
    is_finished_ = true;
    this->Finish(to_grpc(*reason_));
  }

  grpc::CallbackServerContext& context_;
  const CallBounds bounds_;
  std::shared_ptr<ControlCall> self_;
  grpc::Alarm hello_;
  std::atomic<bool> is_known_ = false;
  Incoming incoming_;

  std::mutex mutex_;                                      // what follows
  std::deque<std::shared_ptr<const Outgoing>> outgoing_;  // the first is being written
  bool is_cancelling_ = false;
  bool is_finished_ = false;
  std::optional<Status> reason_;  // set: the call is to end
};

// A call that ends at once.
template <typename Incoming, typename Outgoing>
class RefusedCall final : public grpc::ServerBidiReactor<Incoming, Outgoing> {
 public:
  // gRPC deletes it.
  static RefusedCall* begin(const Status& reason) { return new RefusedCall(reason); }
  void OnDone() override { delete this; }

 private:
  explicit RefusedCall(const Status& reason) { this->Finish(to_grpc(reason)); }
};

}  // namespace square::controller
