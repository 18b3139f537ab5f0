// How Square uses gRPC's HTTP/2, and TCP under it.
#pragma once

#include <grpcpp/server_builder.h>
#include <grpcpp/support/channel_arguments.h>

#include "square/units.h"

namespace square::rpc {

// Of a connected or connecting socket: what is written goes at once, and what the peer does not take for
// `silence_deadline` ends the connection.
void configure_socket(int socket, Duration silence_deadline);

// For a channel over a socket that was dialled; its quota is set by the caller.
grpc::ChannelArguments dialling_arguments(Duration silence_deadline);

// For the server that accepts.
void apply_accepting_arguments(grpc::ServerBuilder& builder, Duration silence_deadline);

}  // namespace square::rpc
