// Connecting to a node over TLS.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/support/channel_arguments.h>

#include <memory>
#include <string>

#include "square/identity.h"
#include "square/status.h"
#include "square/units.h"
#include "transport/grpc/caught_socket.h"

namespace square::rpc {

struct SealedDial {
  // Connects with its first call, and to nobody but that node; one connection, which no other channel shares.
  std::shared_ptr<grpc::Channel> channel;
  std::shared_ptr<CaughtSocket> socket;
};

// gRPC 1.51 takes connected sockets only without TLS, so here it connects by itself. Does not block. Errors:
// UNAVAILABLE for an address that is none.
Result<SealedDial> dial_sealed(const std::shared_ptr<Identity>& identity, const std::string& node,
                               const std::string& address, grpc::ChannelArguments arguments,
                               Duration silence_deadline);

}  // namespace square::rpc
