// How Square uses gRPC's HTTP/2.
#pragma once

#include <grpcpp/server_builder.h>
#include <grpcpp/support/channel_arguments.h>

namespace square::rpc {

// For a channel that dials; its quota is set by the caller.
grpc::ChannelArguments dialling_arguments();

// For the server that accepts.
void apply_accepting_arguments(grpc::ServerBuilder& builder);

}  // namespace square::rpc
