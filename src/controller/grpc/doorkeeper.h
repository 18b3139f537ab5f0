// Takes connections for a gRPC server whose callers may be strangers.
#pragma once

#include <grpcpp/server_builder.h>
#include <grpcpp/server_context.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/net/receive_bound.h"
#include "base/net/socket.h"
#include "base/seldom.h"
#include "controller/visitors.h"
#include "square/status.h"

namespace square::controller {

// Hands a connection to gRPC when the beginning of a handshake has come, and ends those that Visitors sends
// away: gRPC 1.51 keeps what comes without bounds of its own, until it is a whole message. One thread of its
// own, which looks at the kernel's counters of connections that receive; it keeps a duplicate of every
// socket. Where the thread is late the kernel holds the bound.
class Doorkeeper {
 public:
  // Listens there, and has `builder` take what comes, with these credentials. Errors: UNAVAILABLE with the
  // address.
  static Result<std::unique_ptr<Doorkeeper>> listen(const net::HostPort& address,
                                                    grpc::ServerBuilder& builder,
                                                    std::shared_ptr<grpc::ServerCredentials> credentials);
  ~Doorkeeper();
  Doorkeeper(const Doorkeeper&) = delete;
  Doorkeeper& operator=(const Doorkeeper&) = delete;

  [[nodiscard]] const net::HostPort& address() const { return listener_.address; }
  // Call once, when the server runs.
  void open();
  // As Visitors has them; `peer` as gRPC names it. Any thread. know() counts the call's message besides.
  // RESOURCE_EXHAUSTED where the caller has too many connections.
  Status know(const grpc::ServerContextBase& context, std::uint64_t message_bytes);
  // Ends the connection where it is false.
  bool begin_line(std::string_view peer);
  void hear(std::string_view peer, std::uint64_t message_bytes);
  // Takes nothing more; before the server goes. Idempotent.
  void close();
  // Connections now of which nobody knows whose they are.
  [[nodiscard]] std::size_t strangers() const;

 private:
  using Handover = grpc::experimental::ExternalConnectionAcceptor;
  struct Connection {
    net::FileDescriptor socket;
    int listening = -1;
    net::ReceiveBound bound;  // until there is a line
  };

  explicit Doorkeeper(net::Listener listener);
  void run();
  void take(int listening);
  void admit(net::FileDescriptor accepted, int listening);
  void on_event(int socket, std::uint32_t events);
  void hand_over_later(int socket, const Connection& connection);
  void hand_over_all();
  void turn_away(int socket, std::string_view why);
  void turn_away_late();
  void forget(int socket);
  void watch(int socket, std::uint32_t events) const;
  void tell(const std::string& peer, std::string_view what);
  [[nodiscard]] int wait_ms() const;

  net::Listener listener_;
  const net::FileDescriptor event_;
  const net::FileDescriptor epoll_;
  std::unique_ptr<Handover> handover_;

  Seldom seldom_;
  mutable std::mutex mutex_;
  Visitors visitors_;
  std::unordered_map<int, Connection> connections_;
  std::vector<Handover::NewConnectionParameters> spoken_;  // to be gRPC's, once the mutex is free
  bool is_closing_ = false;
  std::thread thread_;
};

}  // namespace square::controller
