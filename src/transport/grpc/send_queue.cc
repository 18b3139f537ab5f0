#include "transport/grpc/send_queue.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "square/frame.h"
#include "square/units.h"
#include "transport/pacing/wire_cost.h"

namespace square::rpc {
namespace {

// What carries a quarter more than before still grows (as BBR has it), for so many round trips.
constexpr double kGrowth = 1.25;
constexpr int kGrowingRoundTrips = 3;
constexpr Duration kLeastGrowingTime = std::chrono::milliseconds(10);
// A longer part of the time in which memory kept data back, and it is not the network that limits.
constexpr double kMaxHeldPart = 0.1;
// A round trip that is longer than the least has met a queue.
constexpr double kQueuedRoundTrips = 1.5;
constexpr Duration kQueuedTime = std::chrono::milliseconds(2);
// So many messages under way are a burst, and no queue.
constexpr std::size_t kBurstMessages = 2;

std::uint64_t bytes_in(int socket, unsigned long what) {
  int bytes = 0;
  return ioctl(socket, what, &bytes) == 0 ? static_cast<std::uint64_t>(std::max(bytes, 0)) : 0;
}

Duration microseconds(std::uint64_t count) {
  return std::chrono::microseconds(static_cast<std::int64_t>(count));
}

// Half of `most` is to be gone before more comes: little by little would cost as many writes.
std::size_t room_under(std::size_t most, std::size_t held) { return held <= most / 2 ? most - held : 0; }

// How long so much takes. The rate is in bytes a second.
Duration queue_wait(std::size_t bytes, double rate) {
  if (!(rate > 0)) return kUnknownQueueWait;
  return std::clamp(from_seconds(static_cast<double>(bytes) / rate), kMinQueueWait, kMaxQueueWait);
}

}  // namespace

SendQueue::Reading SendQueue::read() const {
  tcp_info info{};
  socklen_t size = sizeof(info);
  if (getsockopt(socket_, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return {};
  Reading reading;
  // What came behind a gap counts too, or a loss would look like a stall and then a burst.
  reading.delivered_bytes = info.tcpi_bytes_acked + std::uint64_t{info.tcpi_sacked} * info.tcpi_snd_mss;
  reading.unsent_bytes = info.tcpi_notsent_bytes;
  // The queue last: what leaves it meanwhile is not counted as taken by this reading. The other way round it
  // would be counted twice, and for ever.
  reading.queued_bytes = bytes_in(socket_, SIOCOUTQ);
  reading.taken_bytes = info.tcpi_bytes_acked + reading.queued_bytes;
  reading.rate = static_cast<double>(info.tcpi_delivery_rate);
  // All ones before the first sample.
  if (info.tcpi_min_rtt != ~std::uint32_t{0}) reading.round_trip = microseconds(info.tcpi_min_rtt);
  reading.smoothed_round_trip = microseconds(info.tcpi_rtt);
  reading.busy = microseconds(info.tcpi_busy_time);
  reading.held = microseconds(info.tcpi_rwnd_limited + info.tcpi_sndbuf_limited);
  return reading;
}

LinkQueue::Room LinkQueue::room(TimePoint now) const {
  double remembered = 0;
  double carried = 0;
  bool grows = false;
  std::size_t unsent = 0;
  for (SendQueue* const queue : queues_) {
    if (now - queue->read_at_ > kReadingAge) queue->refresh(now);
    remembered = std::max(remembered, queue->rate_);
    carried += queue->carried_rate_;
    grows = grows || queue->grows(now);
    unsent += queue->unsent_bytes_;
  }
  const double rate = std::max(remembered, carried);
  const auto most = static_cast<std::size_t>(rate * to_seconds(kSendQueueTime) * (grows ? 2 : 1));
  const std::size_t part = most / (2 * queues_.size());
  if (unsent <= most / 2) return {most - unsent, part, {}};
  return {0, part, queue_wait(unsent - most / 2, rate)};
}

void SendQueue::begin(int socket, std::shared_ptr<LinkQueue> link, std::size_t least_bytes) {
  socket_ = socket;
  least_bytes_ = least_bytes;
  const Reading first = read();
  written_bytes_ = first.taken_bytes;
  carried_bytes_ = first.delivered_bytes;
  // The stream is open, so bytes have been acknowledged. A kernel that does not tell is not asked again.
  if (first.delivered_bytes == 0) {
    socket_ = -1;
    return;
  }
  link_ = std::move(link);
  link_->add(*this);
}

void SendQueue::end() {
  if (const auto link = std::exchange(link_, nullptr)) link->remove(*this);
  socket_ = -1;
}

void SendQueue::note_written(std::size_t message_bytes, TimePoint now) {
  // As little as gRPC can make of it: what it adds, the kernel's counts will tell.
  written_bytes_ += message_bytes;
  largest_message_bytes_ = std::max(largest_message_bytes_, message_bytes);
  unsent_bytes_ += message_bytes;
  written_at_ = now;
}

void SendQueue::refresh(TimePoint now) {
  const Reading reading = read();
  read_at_ = now;
  // Nothing is under way to the kernel any more: whatever the difference is, it is none.
  const bool is_settled = reading.queued_bytes == 0 && now - written_at_ > kSettledTime;
  written_bytes_ = is_settled ? reading.taken_bytes : std::max(written_bytes_, reading.taken_bytes);
  unsent_bytes_ = reading.unsent_bytes + (written_bytes_ - reading.taken_bytes);
  if (!(rate_ > 0)) rates_.fill(reading.rate);
  if (now - sampled_at_ >= kReadingAge) {
    note_carried(reading, now - std::exchange(sampled_at_, now));
    rates_[readings_++ % rates_.size()] = reading.rate;
  }
  const auto [low, high] = std::minmax(rates_[0], rates_[1]);
  rate_ = std::min(std::clamp(rates_[2], low, high),
                   std::max(kMostOfCarried * carried_rate_, kMostOfFull * full_rate_));
  round_trip_ = reading.round_trip;
  if (rate_ >= kGrowth * steady_rate_) {
    steady_rate_ = rate_;
    grew_at_ = now;
  }
  steady_rate_ = std::min(steady_rate_, 2 * rate_);
}

void SendQueue::note_carried(const Reading& reading, Duration step) {
  const std::uint64_t before =
      std::exchange(carried_bytes_, std::max(carried_bytes_, reading.delivered_bytes));
  const double rate = static_cast<double>(carried_bytes_ - before) / to_seconds(step);
  const double weight = std::min(1.0, to_seconds(step) / to_seconds(kCarriedTime));
  const bool is_full = reading.unsent_bytes > 0;
  carried_rate_ += weight * (rate - carried_rate_);
  if (std::exchange(was_full_, is_full) && is_full) full_rate_ += weight * (rate - full_rate_);
}

// What leaves in blocks meets its own queue, and the last of it is acknowledged late: that limits nothing.
void SendQueue::note_waiting() {
  ran_dry_ = ran_dry_ || bytes_in(socket_, SIOCOUTQNSD) == 0;
  const std::size_t largest = std::max(largest_message_bytes_, largest_before_bytes_);
  ran_through_ = ran_through_ || bytes_in(socket_, SIOCOUTQ) <= kBurstMessages * largest;
}

bool SendQueue::grows(TimePoint now) const {
  return now - grew_at_ < std::max(kLeastGrowingTime, kGrowingRoundTrips * round_trip_);
}

std::size_t SendQueue::allowance(TimePoint now) const {
  const double bytes = rate_ * to_seconds(kSendQueueTime) * (grows(now) ? 2 : 1);
  return std::max(least_bytes_, static_cast<std::size_t>(bytes));
}

std::size_t SendQueue::room(TimePoint now) {
  if (socket_ < 0) return kMaxFrameBytes;
  note_waiting();
  if (unsent_bytes_ > allowance(now) / 2 || now - read_at_ > kReadingAge) refresh(now);
  const std::size_t most = allowance(now);
  const std::size_t own = room_under(most, unsent_bytes_);
  if (own == 0) wait_ = queue_wait(unsent_bytes_ - most / 2, rate_);
  if (own == 0 || !link_->is_shared()) return own;
  const LinkQueue::Room shared = link_->room(now);
  wait_ = shared.wait;
  return std::min(own,
                  std::max(shared.bytes, room_under(std::max(least_bytes_, shared.part), unsent_bytes_)));
}

SocketFigures SendQueue::figures(TimePoint now) {
  if (socket_ < 0) return {};
  const Reading reading = read();
  const Duration step = now - std::exchange(told_at_, now);
  const Duration held = reading.held - std::exchange(held_, reading.held);
  const Duration busy = reading.busy - std::exchange(busy_, reading.busy);
  note_waiting();
  const bool ran_dry = std::exchange(ran_dry_, reading.unsent_bytes == 0);
  const bool ran_through = std::exchange(ran_through_, false);
  largest_before_bytes_ = std::exchange(largest_message_bytes_, 0);
  const bool was_held = to_seconds(held) > kMaxHeldPart * to_seconds(step);
  const bool was_idle = to_seconds(busy) < (1 - kMaxHeldPart) * to_seconds(step);
  // Who waits for credit may have given the kernel all that it has, and it waits in the network.
  const bool is_queued =
      !ran_through && reading.smoothed_round_trip > kQueuedRoundTrips * reading.round_trip + kQueuedTime;
  return {reading.delivered_bytes, reading.round_trip, !was_held && !was_idle && (!ran_dry || is_queued)};
}

}  // namespace square::rpc
