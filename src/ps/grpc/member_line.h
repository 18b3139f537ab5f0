// A member's end of its line to the master: opened again and again, until it is stopped.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "ps/protocol.h"
#include "square/v1/parameter_server.grpc.pb.h"

namespace square::ps {

// What is heard. Called from the line's own thread, in order.
struct LineEvents {
  std::function<void()> on_attached;
  std::function<void(v1::PsOrder)> on_order;
  std::function<void(Status)> on_detached;
};

// Asks a master. Errors: UNAVAILABLE with the address where nobody answers within the time;
// UNAUTHENTICATED.
Result<v1::PsAnswer> ask_master(const std::string& address, const std::shared_ptr<Identity>& identity,
                                Duration timeout);

// Thread-safe.
class MemberLine {
 public:
  static constexpr Duration kMinWait = std::chrono::milliseconds(50);
  static constexpr Duration kMaxWait = std::chrono::milliseconds(1000);
  static constexpr Duration kKeepalive = std::chrono::milliseconds(1000);
  static constexpr Duration kKeepaliveTimeout = std::chrono::milliseconds(2000);
  static constexpr std::size_t kMaxQueued = 65'536;

  MemberLine(std::string address, std::shared_ptr<Identity> identity, LineEvents events);
  ~MemberLine();
  MemberLine(const MemberLine&) = delete;
  MemberLine& operator=(const MemberLine&) = delete;

  // Begins to look for the master.
  void start();
  // On the line that is open, in order; dropped where there is none.
  void send(v1::PsReport report);
  // What was sent is still written, for a moment. Blocks for kMaxWait at most, and joins the threads.
  void stop();

 private:
  struct Connection;
  void read_loop();
  void write_loop();
  Status serve();
  bool pause(Duration wait);

  const std::string address_;
  const std::shared_ptr<Identity> identity_;
  const LineEvents events_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_stopping_ = false;
  std::shared_ptr<Connection> dialled_;     // what stop() ends
  std::shared_ptr<Connection> connection_;  // what is said goes there
  std::deque<v1::PsReport> queue_;
  std::thread reader_;
  std::thread writer_;
};

}  // namespace square::ps
