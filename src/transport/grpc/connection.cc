#include "transport/grpc/connection.h"

#include <fmt/format.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "square/units.h"
#include "transport/grpc/limits.h"

namespace square::rpc {
namespace {

using std::chrono::nanoseconds;

// HTTP/2 needs bytes of its own: the handshake at first, then headers of messages and of DATA
// frames, and pings and their answers, which come also on an idle connection.
constexpr std::int64_t kHandshakeBytes = 4096;
constexpr std::int64_t kBytesPerMessage = 64;
constexpr std::int64_t kMessageBytesPerByte = 256;
constexpr std::int64_t kPingBytesPerSecond = 2048;
// Fewer bytes of an incomplete message cannot be told from those, and do no harm.
constexpr std::uint64_t kLeastUnframedBytes = 4096;
// Of bytes that came in a short time, what pings explain.
constexpr std::uint64_t kPingBytes = 256;
// Bytes since the inspection before that make the next one urgent: little beside what one may have.
constexpr std::uint64_t kQuietBytes = std::uint64_t{1} << 20U;
// What an inspection that came late may add to a time: a process that was stopped for a while
// must not take its peers for stalled.
constexpr nanoseconds kMaxStep = std::chrono::milliseconds(500);

std::uint64_t received_bytes(int fd) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 ? info.tcpi_bytes_received : 0;
}

std::uint64_t unread_bytes(int fd) {
  int unread = 0;
  return ioctl(fd, FIONREAD, &unread) == 0 ? static_cast<std::uint64_t>(std::max(unread, 0)) : 0;
}

}  // namespace

Connection::Connection(int fd, std::string peer, const Bounds& bounds, Time now)
    : fd_(fd),
      peer_(std::move(peer)),
      bounds_(bounds),
      inspected_at_(now),
      last_message_at_(now),
      overhead_(kHandshakeBytes) {}

Connection::~Connection() { close(fd_); }

bool Connection::begin_call() { return !called_.exchange(true); }

void Connection::note_message(std::size_t size_bytes) {
  message_bytes_ += size_bytes;
  ++messages_;
}

bool Connection::shut() {
  if (shut_.exchange(true)) return false;
  shutdown(fd_, SHUT_RDWR);
  return true;
}

std::optional<std::string> Connection::inspect(Time now, std::chrono::milliseconds patience) {
  const nanoseconds step = std::min<nanoseconds>(now - inspected_at_, kMaxStep);
  inspected_at_ = now;
  if (accepted_ && !ended_) {
    age_ = nanoseconds(0);
    const std::uint64_t writes = writes_;
    const bool same_write = std::exchange(seen_writes_, writes) == writes && writes % 2 == 1;
    writing_for_ = same_write ? writing_for_ + step : nanoseconds(0);
    still_for_ += step;
    return inspect_call(now, step);
  }
  age_ += step;
  unframed_bytes_ = 0;
  if (ended_ && age_ >= kPartingDeadline) return "its call has ended";
  if (!ended_ && received_bytes(fd_) > kMaxUnacceptedBytes) return "it sent much and opened no link";
  if (!ended_ && age_ >= patience) return fmt::format("it opened no link within {} ms", patience.count());
  return std::nullopt;
}

std::optional<std::string> Connection::inspect_call(Time now, nanoseconds step) {
  measure(received_bytes(fd_), now, step);
  if (writing_for_ >= bounds_.silence_deadline) {
    return fmt::format("it took no answer for {} s", to_seconds(bounds_.silence_deadline));
  }
  const std::uint64_t since_message = received_ - message_at_bytes_;
  const bool is_long = since_message > bounds_.max_unframed_bytes;
  const bool is_stalled = unframed_bytes_ > kLeastUnframedBytes && still_for_ >= bounds_.silence_deadline;
  if (!is_long && !is_stalled) return std::nullopt;
  // What the kernel still holds is for us to read.
  const std::uint64_t unread = unread_bytes(fd_);
  if (is_long && since_message - std::min(unread, since_message) > bounds_.max_unframed_bytes) {
    return fmt::format("a message has more than {} bytes", kMaxFrameBytes);
  }
  if (is_stalled && unread == 0) {
    return fmt::format("it stalled for {} s in the middle of a message",
                       to_seconds(bounds_.silence_deadline));
  }
  return std::nullopt;
}

void Connection::measure(std::uint64_t received, Time now, nanoseconds step) {
  const std::uint64_t bytes = message_bytes_;
  const std::uint64_t messages = messages_;
  const auto came = static_cast<std::int64_t>(received) - static_cast<std::int64_t>(bytes);
  const auto new_messages = static_cast<std::int64_t>(messages - seen_messages_);
  const auto new_bytes = static_cast<std::int64_t>(bytes - seen_bytes_);
  // The least that was ever on top of the messages, and what may have been added to it.
  overhead_ +=
      new_messages * kBytesPerMessage + new_bytes / kMessageBytesPerByte +
      kPingBytesPerSecond * std::chrono::duration_cast<std::chrono::milliseconds>(step).count() / 1000;
  overhead_ = std::min(overhead_, std::max<std::int64_t>(came, kHandshakeBytes));
  unframed_bytes_ = static_cast<std::uint64_t>(std::max<std::int64_t>(0, came - overhead_));
  is_quiet_ = received - received_ < kQuietBytes && unframed_bytes_ <= kLeastUnframedBytes;
  if (new_messages > 0 || received - moved_at_bytes_ >= kPingBytes) {
    still_for_ = nanoseconds(0);
    moved_at_bytes_ = received;
  }
  if (new_messages > 0) {
    last_message_at_ = now;
    message_at_bytes_ = received;
  }
  received_ = received;
  seen_messages_ = messages;
  seen_bytes_ = bytes;
}

}  // namespace square::rpc
