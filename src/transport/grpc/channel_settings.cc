#include "transport/grpc/channel_settings.h"

#include <grpc/grpc.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>

#include "square/frame.h"
#include "transport/grpc/limits.h"

namespace square::rpc {
namespace {

int milliseconds(Duration duration) {
  return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(duration).count());
}

// Both ends: large writes and reads, no compression (a small message may unpack to a huge
// one), and pings that find a peer that falls silent while nothing is sent to it. `set` takes a key and an
// int.
template <typename Set>
void set_common(const Set& set, Duration silence_deadline) {
  const int silence_ms = milliseconds(silence_deadline);
  set(GRPC_ARG_HTTP2_WRITE_BUFFER_SIZE, kWriteBufferBytes);
  set(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, kMaxReadChunkBytes);
  set(GRPC_ARG_MAX_METADATA_SIZE, static_cast<int>(kMaxMetadataBytes));
  set(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1 << GRPC_COMPRESS_NONE);
  set(GRPC_ARG_KEEPALIVE_TIME_MS, silence_ms);
  set(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, silence_ms);
  set(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  set(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
}

}  // namespace

void configure_socket(int socket, Duration silence_deadline) {
  const int enable = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &enable, sizeof(enable));
  const int timeout_ms = milliseconds(silence_deadline);
  setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
}

grpc::ChannelArguments dialling_arguments(Duration silence_deadline) {
  grpc::ChannelArguments arguments;
  set_common([&arguments](const char* key, int value) { arguments.SetInt(key, value); }, silence_deadline);
  arguments.SetMaxReceiveMessageSize(static_cast<int>(kMaxFrameBytes));
  return arguments;
}

void apply_accepting_arguments(grpc::ServerBuilder& builder, Duration silence_deadline) {
  set_common([&builder](const char* key, int value) { builder.AddChannelArgument(key, value); },
             silence_deadline);
  builder.SetMaxReceiveMessageSize(static_cast<int>(kMaxFrameBytes));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreams);
  // A port in use is an error, not a second server behind the same port.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // The pings of our own peers are welcome at any rate.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
}

}  // namespace square::rpc
