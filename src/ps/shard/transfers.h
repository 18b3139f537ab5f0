// The transfers of a server that run, a thread each.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <stop_token>
#include <thread>

#include "ps/data/data_lines.h"

namespace square::ps {

// One of them, as its thread sees it.
class Transfer {
 public:
  Transfer(v1::PsTransfer what, DataLines& lines) : what_(std::move(what)), lines_(lines) {}

  [[nodiscard]] const v1::PsTransfer& what() const { return what_; }
  // Asked to stop when it is cancelled.
  [[nodiscard]] std::stop_token stop() const { return source_.get_token(); }
  // Its line, which ends with a cancel, also with one that came before. Errors: those of DataLines::open().
  Result<std::shared_ptr<DataLine>> open_line();
  // It is through with it: a cancel that comes now must not end what the next transfer on it needs.
  void release_line() { ends_line_.reset(); }

 private:
  friend class Transfers;

  const v1::PsTransfer what_;
  DataLines& lines_;
  std::stop_source source_;
  std::optional<std::stop_callback<std::function<void()>>> ends_line_;
  std::atomic<bool> is_over_ = false;
};

// Calls come one at a time.
class Transfers {
 public:
  using Body = std::function<void(Transfer&)>;
  static constexpr std::size_t kMost = 256;

  // Must outlive it.
  explicit Transfers(DataLines& lines) : lines_(lines) {}
  ~Transfers() { stop(); }
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  // Runs the body on a thread of its own. One of the same ticket that runs is cancelled before. Errors:
  // RESOURCE_EXHAUSTED where too many run, or there are no threads; CANCELLED after stop(). Then the body
  // does not run.
  Status start(const v1::PsTransfer& what, Body body);
  // Its line ends, and its body soon. Does not block.
  void cancel(std::uint64_t ticket);
  void cancel_all();
  // Cancels all and joins their threads. Blocks until the bodies are through: what opens a line ends with
  // DataLines::stop(), to be called before.
  void stop();

 private:
  struct Running {
    std::shared_ptr<Transfer> transfer;
    std::thread thread;
  };
  void join_those_over();

  DataLines& lines_;
  std::list<Running> running_;
  bool is_stopped_ = false;
};

}  // namespace square::ps
