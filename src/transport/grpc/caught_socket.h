// The sockets that gRPC connects by itself, as it does where TLS is spoken.
#pragma once

#include <grpcpp/support/channel_arguments.h>

#include <memory>
#include <mutex>

#include "base/net/file_descriptor.h"
#include "square/units.h"

namespace square::rpc {

// A duplicate of the last socket that a channel began to connect. Thread-safe.
class CaughtSocket {
 public:
  explicit CaughtSocket(Duration silence_deadline) : silence_deadline_(silence_deadline) {}

  // Before it is connected; configures it, too.
  void put(int socket);
  // None where none was put since the last time.
  [[nodiscard]] net::FileDescriptor take();

 private:
  const Duration silence_deadline_;
  std::mutex mutex_;
  net::FileDescriptor socket_;
};

// A channel with these arguments puts its sockets there.
void catch_sockets(grpc::ChannelArguments& arguments, std::shared_ptr<CaughtSocket> caught);

}  // namespace square::rpc
