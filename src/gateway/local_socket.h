// Unix sockets: where a gateway listens, and who is at the other end.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/net/file_descriptor.h"
#include "square/status.h"
#include "square/units.h"

namespace square::gateway {

using net::FileDescriptor;

// A socket that listens in the file system, whose file goes with it.
class LocalListener {
 public:
  LocalListener() = default;
  LocalListener(LocalListener&& other) noexcept;
  LocalListener& operator=(LocalListener&& other) noexcept;
  ~LocalListener() { close(); }

  // At `path`, for the processes of this user, or of everybody who reaches it. The socket of a gateway that
  // is no more makes room. Errors: INVALID_ARGUMENT for a path that cannot be one, ALREADY_EXISTS where
  // somebody listens or another file lies, UNAVAILABLE in the system's words.
  static Result<LocalListener> listen(const std::string& path, bool for_everybody, int backlog);

  [[nodiscard]] const FileDescriptor& socket() const { return socket_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  // Accepts nothing more, and removes the file, if it is this one still. Returns the socket: closing it
  // closes what processes have sent with connections that were not accepted, which may take as long as they
  // like.
  FileDescriptor close();

 private:
  FileDescriptor socket_;
  std::string path_;
  std::uint64_t device_ = 0;
  std::uint64_t number_ = 0;  // of its inode
};

// A path that no other gateway has, in the first directory that this user alone can use: in $XDG_RUNTIME_DIR,
// $TMPDIR or /tmp. Removes sockets there that ended gateways have left. Errors, with the reason for each
// directory: PERMISSION_DENIED where one is not this user's alone, else UNAVAILABLE.
Result<std::string> own_socket_path(std::string_view node);

// Blocks for `timeout` at most. The socket does not block. Errors: UNAVAILABLE naming the path and the
// reason, INVALID_ARGUMENT for a path that cannot be one.
Result<FileDescriptor> connect_local(const std::string& path, Duration timeout);

// As the kernel knows it.
struct LocalPeer {
  std::uint32_t user = 0;
  std::uint32_t process = 0;
};
LocalPeer peer_of(const FileDescriptor& socket);

}  // namespace square::gateway
