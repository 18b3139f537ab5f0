#include "transport/grpc/caught_socket.h"

#include <fcntl.h>
#include <grpc/support/sync.h>

#include <cstdint>
#include <functional>
#include <utility>

#include "transport/grpc/channel_settings.h"

// gRPC takes a mutator of sockets in ChannelArguments and ships no header that says what one is: this is
// src/core/lib/iomgr/socket_mutator.h of its 1.51, as its library exports it.
enum grpc_fd_usage : std::uint8_t;

struct grpc_mutate_socket_info;

struct grpc_socket_mutator_vtable {
  bool (*mutate)(int fd, grpc_socket_mutator* mutator);
  int (*compare)(grpc_socket_mutator* a, grpc_socket_mutator* b);
  void (*destroy)(grpc_socket_mutator* mutator);
  bool (*mutate_with_usage)(const grpc_mutate_socket_info* info, grpc_socket_mutator* mutator);
};

struct grpc_socket_mutator {
  const grpc_socket_mutator_vtable* vtable;
  gpr_refcount refcount;
};

void grpc_socket_mutator_init(grpc_socket_mutator* mutator, const grpc_socket_mutator_vtable* vtable);

namespace square::rpc {
namespace {

struct Catcher : grpc_socket_mutator {
  std::shared_ptr<CaughtSocket> caught;
};

bool catch_one(int fd, grpc_socket_mutator* mutator) {
  static_cast<Catcher*>(mutator)->caught->put(fd);
  return true;
}

int compare(grpc_socket_mutator* a, grpc_socket_mutator* b) {
  if (a == b) return 0;
  return std::less<>()(a, b) ? -1 : 1;
}

void destroy(grpc_socket_mutator* mutator) { delete static_cast<Catcher*>(mutator); }

constexpr grpc_socket_mutator_vtable kCatching{catch_one, compare, destroy, nullptr};

}  // namespace

void CaughtSocket::put(int socket) {
  configure_socket(socket, silence_deadline_);
  net::FileDescriptor duplicate(fcntl(socket, F_DUPFD_CLOEXEC, 0));
  const std::lock_guard lock(mutex_);
  socket_ = std::move(duplicate);
}

net::FileDescriptor CaughtSocket::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(socket_, {});
}

void catch_sockets(grpc::ChannelArguments& arguments, std::shared_ptr<CaughtSocket> caught) {
  auto* const catcher = new Catcher{};  // the arguments take it over
  catcher->caught = std::move(caught);
  grpc_socket_mutator_init(catcher, &kCatching);
  arguments.SetSocketMutator(catcher);
}

}  // namespace square::rpc
