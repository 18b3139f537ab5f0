// What a TCP connection has carried, and whether it may go on.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

namespace square::rpc {

// gRPC keeps an incomplete message without a bound of its own and shows it to nobody until it
// is whole. The kernel counts what a connection has received, so what is incomplete is
// that, less the messages that were seen. Shared by the acceptor and the channel it carries;
// thread-safe.
class Connection {
 public:
  using Time = std::chrono::steady_clock::time_point;

  struct Bounds {
    std::size_t max_unframed_bytes = 0;
    std::chrono::nanoseconds silence_deadline{0};
  };
  // Takes `fd`, a duplicate of gRPC's own.
  Connection(int fd, std::string peer, const Bounds& bounds, Time now);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] const std::string& peer() const { return peer_; }

  // False if it carries or has carried a call.
  [[nodiscard]] bool begin_call();
  void accept_call() { accepted_ = true; }
  // It carries no call any more, or will not soon.
  void end_call() { ended_ = true; }
  void note_message(std::size_t size_bytes);
  void note_write(bool /*begun*/) { ++writes_; }

  // It has carried no accepted call, and may yet.
  [[nodiscard]] bool waits() const { return !accepted_ && !ended_; }

  // For the acceptor's thread. Why the connection must be closed, if so; one that waits, after `patience`.
  std::optional<std::string> inspect(Time now, std::chrono::milliseconds patience);
  // As of the last inspection: bytes of a message that is not complete, at least; since when
  // no message was; whether bytes came.
  [[nodiscard]] std::uint64_t unframed_bytes() const { return unframed_bytes_; }
  [[nodiscard]] Time last_message_at() const { return last_message_at_; }
  [[nodiscard]] bool is_quiet() const { return is_quiet_; }

  // Any thread: gRPC finds the connection closed by the peer. True the first time.
  bool shut();

 private:
  std::optional<std::string> inspect_call(Time now, std::chrono::nanoseconds step);
  void measure(std::uint64_t received, Time now, std::chrono::nanoseconds step);

  const int fd_;
  const std::string peer_;
  const Bounds bounds_;
  std::atomic<bool> called_ = false;
  std::atomic<bool> accepted_ = false;
  std::atomic<bool> ended_ = false;
  std::atomic<bool> shut_ = false;
  std::atomic<std::uint64_t> writes_ = 0;  // begun and ended ones: odd while there is one
  std::atomic<std::uint64_t> messages_ = 0;
  std::atomic<std::uint64_t> message_bytes_ = 0;

  // The acceptor's thread only.
  Time inspected_at_;
  std::chrono::nanoseconds age_{0};          // without a call that was accepted
  std::chrono::nanoseconds still_for_{0};    // nothing came but pings
  std::chrono::nanoseconds writing_for_{0};  // the same write
  Time last_message_at_;
  std::uint64_t received_ = 0;
  std::uint64_t message_at_bytes_ = 0;  // received when the last message was seen
  std::uint64_t moved_at_bytes_ = 0;    // received when still_for_ was last set back
  std::uint64_t seen_writes_ = 0;
  std::uint64_t seen_messages_ = 0;
  std::uint64_t seen_bytes_ = 0;
  std::int64_t overhead_ = 0;
  std::uint64_t unframed_bytes_ = 0;
  bool is_quiet_ = true;
};

}  // namespace square::rpc
