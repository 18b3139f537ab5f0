// A worker's parameters, as the protocol sees them.
#pragma once

#include <cstdint>
#include <functional>

#include "ps/protocol.h"

namespace square::ps {

// Calls come one at a time; `done` runs later, on the same strand, once.
class ParameterHost {
 public:
  using Done = std::function<void(Status)>;

  virtual ~ParameterHost() = default;

  // Sends the shard of what was set aside for the push that is open, or of the first parameters.
  virtual void send_push(const v1::PsTransfer& transfer, Done done) = 0;
  // Receives a server's shard of a version, to be adopted later.
  virtual void take_version(const v1::PsTransfer& transfer, Done done) = 0;
  virtual void cancel(std::uint64_t ticket) = 0;
};

}  // namespace square::ps
