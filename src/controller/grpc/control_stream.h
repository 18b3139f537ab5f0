// The client's end of a control stream, for nodes and for members of parameter servers.
#pragma once

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "controller/grpc/status.h"
#include "square/executor.h"

namespace square::controller {

struct ChannelBounds {
  std::size_t message_bytes;  // of a message that arrives
  // A machine that does not answer a ping in time, sent after some silence, is gone.
  Duration keepalive_time;
  Duration keepalive_timeout;
  // What an attempt to connect may take, two round trips at least.
  Duration connect_time;
  // Between attempts of one channel. A stream dials with a new channel each time instead.
  Duration min_wait;
  Duration max_wait;
};

// With a connection of its own.
std::shared_ptr<grpc::Channel> open_channel(const std::string& address,
                                            const std::shared_ptr<grpc::ChannelCredentials>& credentials,
                                            const ChannelBounds& bounds);

// gRPC's completions of a client's calls, on a thread of their own: gRPC's threads for callbacks of clients
// are the process's, sleep 100 ms now and then, and must not drop the last channel. Thread-safe.
class CallQueue {
 public:
  using ContextPtr = std::shared_ptr<grpc::ClientContext>;

  CallQueue();
  ~CallQueue() { stop(); }
  CallQueue(const CallQueue&) = delete;
  CallQueue& operator=(const CallQueue&) = delete;

  [[nodiscard]] grpc::CompletionQueue* get() { return &queue_; }
  // The tag of one operation: `call` follows it, on the thread.
  static void* then(std::function<void(bool ok)> call) { return new Then(std::move(call)); }
  // False: the queue stops, and the call must not begin.
  bool begin(const ContextPtr& call);
  // gRPC is done with the call.
  void end(const ContextPtr& call);
  // Cancels all calls, and waits until they have ended. Idempotent.
  void stop();

 private:
  using Then = std::function<void(bool ok)>;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_stopping_ = false;
  std::set<ContextPtr> calls_;
  grpc::CompletionQueue queue_;
  std::thread thread_;
};

// One stream, dialled once: the call Attach() of `Service`. The executor's strand takes one message at a
// time, and gRPC reads the next one then. Thread-safe. The executor runs until CallQueue::stop() has
// returned.
template <typename Service, typename Outgoing, typename Incoming>
class ControlStream : public std::enable_shared_from_this<ControlStream<Service, Outgoing, Incoming>> {
 public:
  using StubPtr = std::shared_ptr<typename Service::Stub>;
  // On the strand.
  struct Events {
    std::function<void()> begun;  // may be empty
    std::function<void(const Incoming&)> heard;
    std::function<void(const Status&)> ended;  // the last, also where nobody answers
  };

  // The stream is cancelled where `most` messages wait to be sent.
  ControlStream(CallQueue& queue, Executor& executor, StubPtr stub, std::size_t most, Events events)
      : queue_(queue), executor_(executor), stub_(std::move(stub)), most_(most), events_(std::move(events)) {}

  // Tells the server `value`, unless it is empty, with the call. Without events where the queue stops.
  void begin(const std::string& key = "", const std::string& value = "") {
    if (!value.empty()) context_->AddMetadata(key, value);
    if (!queue_.begin(context_)) return;
    stream_ = stub_->PrepareAsyncAttach(context_.get(), queue_.get());
    stream_->StartCall(then([this](bool ok) { ok ? started() : stop_reading(); }));
  }

  // In order. Waits for the connection; dropped where the stream has ended.
  void send(Outgoing message) {
    const std::lock_guard lock(mutex_);
    if (is_over_) return;
    if (outgoing_.size() >= most_) return context_->TryCancel();
    outgoing_.push_back(std::move(message));
    write_next();
  }

  [[nodiscard]] std::size_t waiting() const {
    const std::lock_guard lock(mutex_);
    return outgoing_.size();
  }
  // Waits until gRPC has taken all that was sent, or the stream is over.
  void drain(Duration time) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, time, [this] { return is_over_ || outgoing_.empty(); });
  }
  void cancel() { context_->TryCancel(); }
  [[nodiscard]] const StubPtr& stub() const { return stub_; }

 private:
  // Keeps the stream until then.
  void* then(std::function<void(bool)> call) {
    return CallQueue::then([self = this->shared_from_this(), call = std::move(call)](bool ok) { call(ok); });
  }

  void started() {
    {
      const std::lock_guard lock(mutex_);
      has_started_ = true;
      write_next();
    }
    if (events_.begun) executor_.post([self = this->shared_from_this()] { self->events_.begun(); });
    read_next();
  }

  void read_next() {
    incoming_.Clear();
    stream_->Read(&incoming_, then([this](bool ok) { ok ? hand_over() : stop_reading(); }));
  }

  void hand_over() {
    executor_.post([self = this->shared_from_this()] {
      self->events_.heard(self->incoming_);
      self->read_next();
    });
  }

  void stop_reading() {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    changed_.notify_all();
    finish_if_idle();
  }

  // With mutex_ held, as finish_if_idle().
  void write_next() {
    if (!has_started_ || is_writing_ || is_over_ || outgoing_.empty()) return;
    is_writing_ = true;
    stream_->Write(outgoing_.front(), then([this](bool /*ok*/) { written(); }));
  }

  // One that failed needs nothing more: reading ends as well.
  void written() {
    const std::lock_guard lock(mutex_);
    is_writing_ = false;
    outgoing_.pop_front();
    changed_.notify_all();
    write_next();
    finish_if_idle();
  }

  void finish_if_idle() {
    if (is_over_ && !is_writing_) stream_->Finish(&status_, then([this](bool /*ok*/) { finished(); }));
  }

  void finished() {
    executor_.post([self = this->shared_from_this()] { self->events_.ended(from_grpc(self->status_)); });
    queue_.end(context_);
  }

  CallQueue& queue_;
  Executor& executor_;
  const StubPtr stub_;
  const std::size_t most_;
  const Events events_;
  const CallQueue::ContextPtr context_ = std::make_shared<grpc::ClientContext>();
  std::unique_ptr<grpc::ClientAsyncReaderWriter<Outgoing, Incoming>> stream_;
  Incoming incoming_;
  grpc::Status status_;
  mutable std::mutex mutex_;  // what follows
  std::condition_variable changed_;
  bool has_started_ = false;
  bool is_writing_ = false;
  bool is_over_ = false;
  std::deque<Outgoing> outgoing_;  // the first is being written
};

}  // namespace square::controller
