#include "gateway/descriptors.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cstring>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace square::gateway {
namespace {

// Moves the descriptors in the queue of a Unix socket, and connections that wait to be accepted, to `into`.
// Returns how often it has read.
std::size_t empty(const FileDescriptor& socket, std::size_t max_reads, Descriptors& into) {
  int family = 0;
  socklen_t size = sizeof family;
  if (getsockopt(socket.get(), SOL_SOCKET, SO_DOMAIN, &family, &size) != 0 || family != AF_UNIX) return 0;
  read_out_of_band_too(socket);
  shutdown(socket.get(), SHUT_RDWR);  // nothing is added meanwhile, and nothing below waits
  std::array<std::byte, 4096> dropped{};
  for (std::size_t reads = 0; reads < max_reads; ++reads) {
    const std::size_t before = into.size();
    if (FileDescriptor connection(accept4(socket.get(), nullptr, nullptr, SOCK_CLOEXEC)); connection) {
      into.push_back(std::move(connection));
      continue;
    }
    // An empty datagram may bring descriptors.
    if (receive(socket, dropped, into).bytes <= 0 && into.size() == before) return reads;
  }
  return max_reads;
}

// May block, where the sender wants it to.
void close_with_queues(FileDescriptor first) {
  Descriptors left;
  left.push_back(std::move(first));
  for (std::size_t reads = 0; !left.empty();) {
    const FileDescriptor next = std::move(left.back());
    left.pop_back();
    // A connection is reset, and not waited for. Other files refuse this.
    const linger at_once{1, 0};
    setsockopt(next.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    reads += empty(next, kMaxEmptyingReads - reads, left);
  }
}

}  // namespace

Received receive(const FileDescriptor& socket, std::span<std::byte> to, Descriptors& came) {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxPassedDescriptors * sizeof(int))> control{};
  iovec piece{to.data(), to.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (got < 0) return {got, false};
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(part) + i * sizeof descriptor, sizeof descriptor);
      came.emplace_back(descriptor);
    }
  }
  return {got, (message.msg_flags & MSG_CTRUNC) != 0};
}

void read_out_of_band_too(const FileDescriptor& socket) {
  const int yes = 1;
  setsockopt(socket.get(), SOL_SOCKET, SO_OOBINLINE, &yes, sizeof yes);
}

// Only files in memory have seals.
bool is_memory(const FileDescriptor& descriptor) { return fcntl(descriptor.get(), F_GET_SEALS) >= 0; }

struct Closer::Queue {
  explicit Queue(std::size_t threads_allowed) : max_threads(threads_allowed) {}
  const std::size_t max_threads;
  std::mutex mutex;
  std::deque<FileDescriptor> waiting;
  std::size_t unclosed = 0;  // those that wait, and one of each thread
  std::size_t threads = 0;
};

Closer::Closer(std::size_t max_threads) : queue_(std::make_shared<Queue>(max_threads)) {}

void Closer::close(FileDescriptor descriptor) {
  const std::lock_guard lock(queue_->mutex);
  queue_->waiting.push_back(std::move(descriptor));
  ++queue_->unclosed;
  start_thread(queue_);
}

bool Closer::has_room() {
  const std::lock_guard lock(queue_->mutex);
  // There may have been no thread to be had.
  if (!queue_->waiting.empty() && queue_->threads == 0) start_thread(queue_);
  return queue_->unclosed < kMaxUnclosed;
}

// Precondition: the mutex is held.
void Closer::start_thread(const std::shared_ptr<Queue>& queue) {
  if (queue->threads >= queue->max_threads) return;
  try {
    std::thread([queue] {
      pthread_setname_np(pthread_self(), "square-close");
      run(*queue);
    }).detach();
    ++queue->threads;
  } catch (const std::system_error&) {
    // What waits is closed by a later thread.
  }
}

void Closer::run(Queue& queue) {
  std::unique_lock lock(queue.mutex);
  while (!queue.waiting.empty()) {
    FileDescriptor next = std::move(queue.waiting.front());
    queue.waiting.pop_front();
    lock.unlock();
    close_with_queues(std::move(next));
    lock.lock();
    --queue.unclosed;
  }
  --queue.threads;
}

}  // namespace square::gateway
