// The data flow as servers and workers see it: lines between two processes, which carry whole messages.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "ps/protocol.h"
#include "square/communicator.h"
#include "square/status.h"

namespace square::ps {

// One line between a worker's process and a server's. Messages of each direction arrive in their order.
// Thread-safe.
class DataLine {
 public:
  virtual ~DataLine() = default;

  // Both ends name the same size. Several may be under way at once; the bytes stay valid until the work is
  // over. It is done when the other end has it. Errors, of the work too: UNAVAILABLE for a process that is
  // gone, CANCELLED after end(), DEADLINE_EXCEEDED; then the line is of no more use.
  virtual Result<std::shared_ptr<Work>> send(std::span<const std::byte> bytes) = 0;
  virtual Result<std::shared_ptr<Work>> receive(std::span<std::byte> bytes) = 0;
  // What runs on it ends soon, on both sides. Idempotent, does not block.
  virtual void end() = 0;
};

// Thread-safe.
class DataLines {
 public:
  virtual ~DataLines() = default;

  // The line that a transfer names, opened if it is not. Blocks until both ends have opened it, for kOpenTime
  // at most. Errors: those of Communicator::create(); CANCELLED after stop().
  virtual Result<std::shared_ptr<DataLine>> open(const v1::PsTransfer& transfer) = 0;
  // Ends all lines; open() fails from now on.
  virtual void stop() = 0;
};

inline constexpr Duration kOpenTime = std::chrono::seconds(20);

}  // namespace square::ps
