// Descriptors that other processes send over Unix sockets, and closing them without waiting for those
// processes.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/net/file_descriptor.h"

namespace square::gateway {

using net::FileDescriptor;
using Descriptors = std::vector<FileDescriptor>;

// Descriptors that the kernel lets one message bring (SCM_MAX_FD).
inline constexpr std::size_t kMaxPassedDescriptors = 253;
// Threads that close descriptors at once. Each lasts until it finds none.
inline constexpr std::size_t kMaxClosers = 8;
// Descriptors that may wait for a closer, or keep one waiting, before no connection is accepted.
inline constexpr std::size_t kMaxUnclosed = 1'024;
// Reads from the queues of sockets that are closed with one descriptor. What is left is closed by the kernel.
inline constexpr std::size_t kMaxEmptyingReads = 1'024;

struct Received {
  ssize_t bytes = 0;    // as recvmsg() returns it; where it is -1, errno says why
  bool is_cut = false;  // this process may open no more files, so some descriptors were lost
};

// Reads from a Unix socket. All descriptors that come are appended to `came`: the kernel would close on this
// thread what finds no room, which may take as long as the sender likes.
Received receive(const FileDescriptor& socket, std::span<std::byte> to, Descriptors& came);

// Data out of band is read with the rest: the kernel would close on the reading thread what comes with it.
void read_out_of_band_too(const FileDescriptor& socket);

// Whether it is a file in memory: close() of such a file waits for nobody.
bool is_memory(const FileDescriptor& descriptor);

// Closes descriptors of other processes on threads of its own. close() of a socket takes as long as its
// sender says (SO_LINGER), of a Unix socket as long as those in its queue take, of a file as long as its file
// system takes. Nobody joins these threads: they share what they need, and end with the process. Thread-safe.
class Closer {
 public:
  explicit Closer(std::size_t max_threads = kMaxClosers);

  void close(FileDescriptor descriptor);
  // Whether fewer than kMaxUnclosed are unclosed.
  [[nodiscard]] bool has_room();

 private:
  struct Queue;
  static void start_thread(const std::shared_ptr<Queue>& queue);
  static void run(Queue& queue);

  const std::shared_ptr<Queue> queue_;
};

}  // namespace square::gateway
