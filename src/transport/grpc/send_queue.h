// How much of a connection's data waits to be sent, and how much may.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "square/clock.h"

namespace square::rpc {

// What a connection may hold that the network has not taken: this much time of what it carries. As long as it
// carries more and more, as a new one does, twice as much. Little enough that what is asked and answered on
// a slow link is not late; enough that it never runs dry while there is something to send.
inline constexpr Duration kSendQueueTime = std::chrono::milliseconds(100);
// What it may hold in any case: before it is known what it carries, and where that is very little. A link may
// have many connections: the others than its first less.
inline constexpr std::size_t kMinSendQueueBytes = std::size_t{32} << 10U;
inline constexpr std::size_t kMinFurtherQueueBytes = std::size_t{8} << 10U;
// A full queue is looked at again when half of it should be gone, within these times.
inline constexpr Duration kMinQueueWait = std::chrono::milliseconds(1);
inline constexpr Duration kMaxQueueWait = std::chrono::milliseconds(25);
// The same while nothing has been delivered yet.
inline constexpr Duration kUnknownQueueWait = std::chrono::milliseconds(4);
// What the kernel says counts for so long.
inline constexpr Duration kReadingAge = std::chrono::milliseconds(25);
// After so long without a write gRPC has given the kernel all that it took.
inline constexpr Duration kSettledTime = std::chrono::milliseconds(200);
// Over so long is taken what a connection carries.
inline constexpr Duration kCarriedTime = std::chrono::milliseconds(100);
// TCP's own samples count up to so many times that, or what it carried when it was last full, and a little:
// the last packets before a rest may seem to have flown.
inline constexpr double kMostOfCarried = 2;
inline constexpr double kMostOfFull = 1.25;
// Messages of no more bytes go whole.
inline constexpr std::size_t kMinPieceBytes = kMinSendQueueBytes / 2;

// What TCP says of a connection since it began.
struct SocketFigures {
  std::uint64_t delivered_bytes = 0;
  Duration round_trip{0};  // the least of late; 0: not known
  // Since the last figures: there was always something to send, or in a queue of the network, and neither
  // end's memory kept it.
  bool is_limited = false;
};

class SendQueue;

// The connections of one link. A connection that has rested remembers what it carried, maybe alone: if each
// held so much, the link would hold it as often as it has connections. Used on the thread of its connections.
class LinkQueue {
 public:
  void add(SendQueue& queue) { queues_.push_back(&queue); }
  void remove(SendQueue& queue) { std::erase(queues_, &queue); }

  struct Room {
    std::size_t bytes = 0;  // that any one of them may add
    std::size_t part = 0;   // that each may hold in any case
    Duration wait{0};       // where there are none
  };
  // Precondition: it has more connections than one.
  [[nodiscard]] Room room(TimePoint now) const;
  [[nodiscard]] bool is_shared() const { return queues_.size() > 1; }

 private:
  std::vector<SendQueue*> queues_;
};

// The sending side of one connection. Bytes that gRPC has taken and not given to the kernel count: they are
// what was written less what the kernel has taken. gRPC adds a little of its own, so that would become too
// little; it is set right whenever it is under nothing, and whenever all is quiet. Where the kernel does not
// count what is acknowledged, nothing is known and everything allowed. Not thread-safe.
class SendQueue {
 public:
  SendQueue() = default;
  ~SendQueue() { end(); }
  SendQueue(const SendQueue&) = delete;
  SendQueue& operator=(const SendQueue&) = delete;

  // The socket is open and connected until end(). It may hold `least_bytes` in any case.
  void begin(int socket, std::shared_ptr<LinkQueue> link, std::size_t least_bytes = kMinSendQueueBytes);
  void end();
  void note_written(std::size_t message_bytes, TimePoint now);
  // Bytes that may be written now. 0: none; then wait() says when to ask again.
  std::size_t room(TimePoint now);
  [[nodiscard]] Duration wait() const { return wait_; }
  SocketFigures figures(TimePoint now);

 private:
  friend class LinkQueue;

  // What the kernel says.
  struct Reading {
    std::uint64_t delivered_bytes = 0;
    std::uint64_t unsent_bytes = 0;
    std::uint64_t queued_bytes = 0;  // unsent and under way
    std::uint64_t taken_bytes = 0;   // delivered and queued
    double rate = 0;                 // bytes a second of late
    Duration round_trip{0};
    Duration smoothed_round_trip{0};
    Duration busy{0};  // in all, with something to send or under way
    Duration held{0};  // in all, by the memory of either end
  };
  [[nodiscard]] Reading read() const;
  void refresh(TimePoint now);
  void note_carried(const Reading& reading, Duration step);
  void note_waiting();
  [[nodiscard]] bool grows(TimePoint now) const;
  [[nodiscard]] std::size_t allowance(TimePoint now) const;

  std::shared_ptr<LinkQueue> link_;
  int socket_ = -1;
  std::size_t least_bytes_ = kMinSendQueueBytes;
  std::uint64_t written_bytes_ = 0;
  std::uint64_t unsent_bytes_ = 0;  // as of the last reading, and what was written since
  TimePoint read_at_{};
  TimePoint sampled_at_{};
  TimePoint written_at_{};
  // Readings a kReadingAge apart, by turns, and the median: one sample of TCP's may be far too high.
  std::array<double, 3> rates_{};
  std::size_t readings_ = 0;
  double rate_ = 0;
  double steady_rate_ = 0;  // it grows as long as this is exceeded by a quarter
  TimePoint grew_at_{};
  std::uint64_t carried_bytes_ = 0;
  double carried_rate_ = 0;  // of late
  double full_rate_ = 0;     // when there was last always something to send
  bool was_full_ = false;
  Duration round_trip_{0};
  Duration wait_{0};
  // Since the last figures, and since those before.
  std::size_t largest_message_bytes_ = 0;
  std::size_t largest_before_bytes_ = 0;
  // Since the last figures: the kernel had nothing to send, and all was delivered but for a message or two.
  bool ran_dry_ = true;
  bool ran_through_ = true;
  Duration held_{0};
  Duration busy_{0};
  TimePoint told_at_{};
};

}  // namespace square::rpc
