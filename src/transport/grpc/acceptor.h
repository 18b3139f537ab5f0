// Takes connections, hands them to gRPC, and closes those that misbehave or are over.
#pragma once

#include <grpcpp/server_builder.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/net/socket.h"
#include "base/seldom.h"
#include "transport/grpc/connection.h"

namespace square::rpc {

// One thread of its own. gRPC does the rest of every connection; the acceptor keeps a
// duplicate of the socket, so that it can look at the kernel's counters and shut it down:
// - a connection that carries no accepted call in time,
// - one that stalls in the middle of a message, or whose message has no end,
// - one that takes no answers,
// - where incomplete messages take more than a part of `memory_quota_bytes` together, those
//   that completed none for the longest time,
// - one, from either end, whose call has ended and that does not go by itself: a write is stuck in it.
class Acceptor {
 public:
  using Handover = grpc::experimental::ExternalConnectionAcceptor;

  Acceptor(net::Listener listener, std::size_t memory_quota_bytes, Duration silence_deadline);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  [[nodiscard]] std::uint16_t port() const { return listener_.address.port; }
  // Call once, when the server runs.
  void start(std::unique_ptr<Handover> handover);
  // Accepts nothing more. Call it before the server goes.
  void stop_accepting();
  // Forgets all connections.
  void stop();

  // Thread-safe. A duplicate of the socket of a connection that this node opened and whose call has ended.
  void part(net::FileDescriptor socket);

  // Thread-safe. The connection whose other end gRPC names so; none if it is gone.
  std::shared_ptr<Connection> find(std::string_view peer_uri);

 private:
  using Time = Connection::Time;

  void run();
  void tell();
  bool on_told();
  void accept_all(int listening);
  void take(int listening, int accepted, Time now);
  void forget(int fd);
  void inspect_some(Time now);
  void shed(Time now);
  void keep(const std::shared_ptr<Connection>& connection, Time now);
  void shut(Connection& connection, const std::string& why);
  [[nodiscard]] int wait_ms(Time now);

  const net::Listener listener_;
  const std::size_t unframed_limit_bytes_;  // of all connections
  const Connection::Bounds bounds_;         // of one
  std::unique_ptr<Handover> handover_;
  int epoll_ = -1;
  int told_event_ = -1;
  std::thread thread_;
  Seldom seldom_;

  // The thread only.
  std::unordered_map<int, std::shared_ptr<Connection>> connections_;  // by our descriptor
  std::vector<int> round_;                 // those still to be inspected in this round
  std::chrono::milliseconds patience_{0};  // with connections that carry no call yet, in this round
  Time inspect_at_{};
  bool is_quiet_ = true;

  std::mutex accept_mutex_;
  bool is_accepting_ = true;

  std::mutex mutex_;
  bool is_stopping_ = false;
  std::vector<net::FileDescriptor> parting_;  // not among the connections yet
  std::unordered_map<std::string, std::weak_ptr<Connection>> by_peer_;
};

}  // namespace square::rpc
