// A bound on what the kernel takes from a TCP connection, held without a thread.
#pragma once

#include <cstdint>
#include <optional>

namespace square::net {

// A thread that looks at counters is late by milliseconds on a busy machine, and a fast link brings megabytes
// meanwhile. A socket filter of the kernel's looks at each segment before it is acknowledged: what begins
// beyond the bound is dropped, and TCP sends it again, later and later. Nothing is lost, the sender waits.
// Sequence numbers tell what is beyond (RFC 9293, 3.4); the first one is in the SYN, which the kernel keeps
// where the listening socket asks for it. It keeps none where it has answered with a SYN cookie, under a
// flood of SYNs: then there is no bound. Not thread-safe.
class ReceiveBound {
 public:
  ReceiveBound() = default;
  // Of an accepted connection; once for each.
  explicit ReceiveBound(int socket);

  // For connections to this socket from now on.
  static void keep_first_segments(int listening);

  // Lets between half of `ahead` and all of it come beyond those received; a segment that begins before the
  // bound comes whole. `received`: the kernel's count.
  void let_come(int socket, std::uint64_t received, std::uint32_t ahead);
  // From now on all may come.
  void lift(int socket);

 private:
  std::optional<std::uint32_t> first_;  // the sequence number of the first byte; none where there is no bound
  std::uint64_t bound_ = 0;             // as `received` is counted
};

}  // namespace square::net
