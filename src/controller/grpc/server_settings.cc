#include "controller/grpc/server_settings.h"

#include <grpc/grpc.h>
#include <grpcpp/resource_quota.h>

#include "controller/protocol.h"

namespace square::controller {

void apply_server_settings(grpc::ServerBuilder& builder, const char* name, std::size_t memory_bytes) {
  const auto set = [&](const char* key, std::int64_t value) {
    builder.AddChannelArgument(key, static_cast<int>(value));
  };
  grpc::ResourceQuota quota(name);
  quota.Resize(memory_bytes);
  builder.SetResourceQuota(quota);
  builder.SetMaxReceiveMessageSize(kMaxRequestBytes);
  set(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreams);
  set(GRPC_ARG_MAX_METADATA_SIZE, kMaxCallMetadataBytes);
  set(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kFirstWindowBytes);
  set(GRPC_ARG_HTTP2_BDP_PROBE, 0);  // it makes windows wider
  set(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // Only uncompressed messages: a compressed one may unpack to any size.
  set(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1);
  set(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kMinPingInterval.count());
  set(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  set(GRPC_ARG_MAX_CONNECTION_IDLE_MS, std::chrono::milliseconds(kIdleTime).count());
}

}  // namespace square::controller
