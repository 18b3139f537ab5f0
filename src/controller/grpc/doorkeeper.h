// Takes connections for a gRPC server whose callers may be strangers.
#pragma once

#include <grpcpp/server_builder.h>
#include <poll.h>

#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/net/socket.h"
#include "base/seldom.h"
#include "square/status.h"

namespace square::controller {

// A connection belongs to a stranger until a call that was let in has come over it. Strangers are few at a
// time, and none for long: where there are more the oldest goes, so that whoever speaks at once is served,
// however many others connect and say nothing. One thread of its own; the duplicates of sockets that it keeps
// are strangers' alone.
class Doorkeeper {
 public:
  static constexpr std::size_t kMaxStrangers = 256;
  static constexpr std::chrono::seconds kStrangerTime{10};

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
  // A call from there, as gRPC names the peer, was let in. Any thread.
  void know(std::string_view peer);
  // Takes nothing more; before the server goes. Idempotent.
  void close();
  // Connections of strangers now.
  [[nodiscard]] std::size_t strangers() const;

 private:
  using Handover = grpc::experimental::ExternalConnectionAcceptor;
  using Time = std::chrono::steady_clock::time_point;
  struct Stranger {
    net::FileDescriptor socket;  // a duplicate of gRPC's own
    std::string peer;
    Time since;
  };

  explicit Doorkeeper(net::Listener listener);
  void run();
  void take(const net::FileDescriptor& listening);
  void turn_away_oldest(std::string_view why);
  void turn_away_late();
  void note_gone(const std::vector<pollfd>& watched);
  void tell(const std::string& peer, std::string_view what);
  [[nodiscard]] int wait_ms() const;

  net::Listener listener_;
  const net::FileDescriptor event_;
  std::unique_ptr<Handover> handover_;

  Seldom seldom_;
  mutable std::mutex mutex_;
  std::deque<Stranger> strangers_;  // oldest first
  bool is_closing_ = false;
  std::thread thread_;
};

}  // namespace square::controller
