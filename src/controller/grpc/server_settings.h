// What all servers of control have in common.
#pragma once

#include <grpcpp/server_builder.h>

#include <chrono>
#include <cstddef>

namespace square::controller {

// Calls at once on a connection; more wait in the client. A node has one line, and a registration or
// regrouping for each of many processes, which may wait for one another.
inline constexpr int kMaxStreams = 2'048;
// What a caller may send before its call is heard, beside headers: Visitors::kUnexplainedBytes has room for
// it.
inline constexpr int kFirstWindowBytes = 8 << 10;
inline constexpr int kMaxCallMetadataBytes = 8 << 10;
// Of one certificate: at once, then half of them each second.
inline constexpr std::size_t kMaxHandshakes = 256;
// Clients ask this often, at the most, whether the server is still there.
inline constexpr std::chrono::milliseconds kMinPingInterval{500};
// A connection without a call for this time is closed; a caller that comes back opens another.
inline constexpr std::chrono::minutes kIdleTime{1};

// `memory_bytes`: what gRPC may hold for all connections together, messages on their way in included.
void apply_server_settings(grpc::ServerBuilder& builder, const char* name, std::size_t memory_bytes);

}  // namespace square::controller
