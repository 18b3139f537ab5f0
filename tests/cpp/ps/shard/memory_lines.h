// Lines of the data flow in memory: a message is copied once both ends have named it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "ps/data/data_lines.h"

namespace square::test {

class MemoryWork final : public Work {
 public:
  Status wait() override {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return is_done_; });
    return status_;
  }
  bool wait_for(Duration timeout) override {
    std::unique_lock lock(mutex_);
    return ended_.wait_for(lock, timeout, [this] { return is_done_; });
  }
  [[nodiscard]] bool is_done() const override {
    const std::lock_guard lock(mutex_);
    return is_done_;
  }
  void on_done(std::function<void()> notify) override { notify(); }  // nobody asks for it here
  void cancel() override { finish(cancelled("the work was cancelled")); }
  void finish(Status status) {
    {
      const std::lock_guard lock(mutex_);
      if (std::exchange(is_done_, true)) return;
      status_ = std::move(status);
    }
    ended_.notify_all();
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  bool is_done_ = false;
  Status status_;
};

// Both directions of one line.
class MemoryPipe {
 public:
  Result<std::shared_ptr<Work>> add(bool is_send, int direction, std::span<std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    if (has_ended_) return cancelled("the line has ended");
    const auto work = std::make_shared<MemoryWork>();
    Direction& way = ways_[direction];
    (is_send ? way.sends : way.receives).push_back({bytes, work});
    if (!way.sends.empty() && !way.receives.empty()) {
      const Message from = way.sends.front();
      const Message to = way.receives.front();
      way.sends.pop_front();
      way.receives.pop_front();
      const bool is_as_large = from.bytes.size() == to.bytes.size();
      if (is_as_large) std::memcpy(to.bytes.data(), from.bytes.data(), to.bytes.size());
      const Status status = is_as_large ? Status() : invalid_argument("messages of two sizes");
      from.work->finish(status);
      to.work->finish(status);
    }
    return std::shared_ptr<Work>(work);
  }
  void end() {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
    for (Direction& way : ways_) {
      for (auto* const queue : {&way.sends, &way.receives}) {
        for (const Message& message : *queue) message.work->finish(cancelled("the line has ended"));
        queue->clear();
      }
    }
  }

 private:
  struct Message {
    std::span<std::byte> bytes;
    std::shared_ptr<MemoryWork> work;
  };
  struct Direction {
    std::deque<Message> sends;
    std::deque<Message> receives;
  };
  std::mutex mutex_;
  bool has_ended_ = false;
  Direction ways_[2];
};

class MemoryLine final : public ps::DataLine {
 public:
  MemoryLine(std::shared_ptr<MemoryPipe> pipe, int side) : pipe_(std::move(pipe)), side_(side) {}

  Result<std::shared_ptr<Work>> send(std::span<const std::byte> bytes) override {
    // Only read: a send's bytes are never the target of a copy.
    return pipe_->add(true, side_, {const_cast<std::byte*>(bytes.data()), bytes.size()});
  }
  Result<std::shared_ptr<Work>> receive(std::span<std::byte> bytes) override {
    return pipe_->add(false, 1 - side_, bytes);
  }
  void end() override { pipe_->end(); }

 private:
  const std::shared_ptr<MemoryPipe> pipe_;
  const int side_;
};

// Of one server.
class MemoryLines final : public ps::DataLines {
 public:
  // The server's end: waits for the worker's.
  Result<std::shared_ptr<ps::DataLine>> open(const v1::PsTransfer& transfer) override {
    std::unique_lock lock(mutex_);
    const bool is_there = changed_.wait_for(lock, ps::kOpenTime,
                                            [&] { return is_stopped_ || pipes_.contains(transfer.line()); });
    if (is_stopped_) return cancelled("the lines were stopped");
    if (!is_there) return deadline_exceeded("nobody is at the other end");
    return std::shared_ptr<ps::DataLine>(std::make_shared<MemoryLine>(pipes_[transfer.line()], 0));
  }
  void stop() override {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
    for (auto& [name, pipe] : pipes_) pipe->end();
    changed_.notify_all();
  }

  // The worker's end.
  std::shared_ptr<ps::DataLine> worker(const std::string& line) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<MemoryPipe>& pipe = pipes_[line];
    if (pipe == nullptr) pipe = std::make_shared<MemoryPipe>();
    changed_.notify_all();
    return std::make_shared<MemoryLine>(pipe, 1);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::shared_ptr<MemoryPipe>> pipes_;
  bool is_stopped_ = false;
};

}  // namespace square::test
