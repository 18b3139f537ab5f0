#include "transport/grpc/channel_settings.h"

#include <grpc/grpc.h>

#include "square/frame.h"
#include "transport/grpc/limits.h"

namespace square::rpc {
namespace {

// Both ends: large writes and reads, no compression (a small message may unpack to a huge
// one), and pings that find a silent peer. `set` takes a key and an int.
template <typename Set>
void set_common(const Set& set) {
  set(GRPC_ARG_HTTP2_WRITE_BUFFER_SIZE, kWriteBufferBytes);
  set(GRPC_ARG_TCP_READ_CHUNK_SIZE, kReadChunkBytes);
  set(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, kMaxReadChunkBytes);
  set(GRPC_ARG_MAX_METADATA_SIZE, static_cast<int>(kMaxMetadataBytes));
  set(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1 << GRPC_COMPRESS_NONE);
  set(GRPC_ARG_KEEPALIVE_TIME_MS, static_cast<int>(kKeepaliveInterval.count()));
  set(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, static_cast<int>(kKeepaliveTimeout.count()));
  set(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  set(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
}

}  // namespace

grpc::ChannelArguments dialling_arguments() {
  grpc::ChannelArguments arguments;
  set_common([&arguments](const char* key, int value) { arguments.SetInt(key, value); });
  arguments.SetMaxReceiveMessageSize(static_cast<int>(kMaxFrameBytes));
  // A link is a connection of its own, dialled once: no sharing, no retries, no proxy from
  // the environment, no service configuration from DNS.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  // Also how long one attempt to connect may take, which outlives a link closed meanwhile.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, static_cast<int>(kConnectDeadline.count()));
  return arguments;
}

void apply_accepting_arguments(grpc::ServerBuilder& builder) {
  set_common([&builder](const char* key, int value) { builder.AddChannelArgument(key, value); });
  builder.SetMaxReceiveMessageSize(static_cast<int>(kMaxFrameBytes));
  // A port in use is an error, not a second server behind the same port.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // The pings of our own peers are welcome at any rate.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
}

}  // namespace square::rpc
