// The transport of real nodes: one gRPC call per overlay link.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "square/identity.h"
#include "square/status.h"
#include "square/thread_executor.h"
#include "square/transport.h"
#include "square/units.h"

namespace square {

struct GrpcTransportOptions {
  // This node's name; a peer that dials another name at this address is refused.
  std::string node_name = {};
  // host:port; port 0 takes a free one.
  std::string bind_address = "127.0.0.1:0";
  // Where others reach this node, host:port; port 0 stands for the bound one. Empty: the
  // bound address.
  std::string advertised_address = {};
  // Who this node is to others: its links are mutual TLS, and a peer is the node that its certificate names.
  // Required unless the host to bind is the loopback, or `insecure`.
  std::shared_ptr<Identity> identity = {};
  bool insecure = false;
  // Threads that carry frames. A link stays on one of them.
  int threads = 1;
  // Its strand runs on the first of the threads from start() to stop(), so that a frame and what is done
  // about it take one thread. None: the strand keeps its own. Must outlive stop().
  ThreadExecutor* executor = nullptr;
  // A peer that takes nothing, answers nothing or stalls in the middle of a message for so long is given up:
  // its connections are closed. The last resort: an outage that a link is to survive is shorter, and who
  // knows better closes the link. From kMinSilenceDeadline to kMaxSilenceDeadline.
  Duration silence_deadline = std::chrono::seconds(10);
  // What gRPC may hold for received data and its own buffers.
  std::size_t memory_quota_bytes = std::size_t{512} << 20U;
};

inline constexpr int kMaxTransportThreads = 64;
inline constexpr Duration kMinSilenceDeadline = std::chrono::milliseconds(100);
inline constexpr Duration kMaxSilenceDeadline = std::chrono::hours(1);
// Names travel in the call's metadata, which gRPC bounds.
inline constexpr std::size_t kMaxNameBytes = 1024;

// Nothing is bound before start(). A peer that falls silent is given up after silence_deadline, where nothing
// was sent to it after twice that. stop() (also the destructor)
// must not be called from inside a TransportHandler; it waits at most a few seconds for payload that gRPC
// still reads. Owners of payload are dropped on threads of gRPC: their deleters must not block and must not
// call this transport. Errors: INVALID_ARGUMENT naming the option.
Result<std::unique_ptr<Transport>> make_grpc_transport(GrpcTransportOptions options);

}  // namespace square
