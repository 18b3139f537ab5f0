#include "gateway/local_socket.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "base/check.h"

namespace square::gateway {
namespace {

constexpr ::mode_t kOwners = 0600;
constexpr ::mode_t kEverybodys = 0666;
constexpr ::mode_t kPrivateDirectory = 0700;
constexpr ::mode_t kOthers = 0077;
// Of a node's name, in that of its socket.
constexpr std::size_t kNameBytes = 32;
// Sockets that are looked at for gateways that are no more.
constexpr int kMaxSwept = 64;
constexpr const char* kSuffix = ".sock";

Result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const bool is_port = !path.empty() && path.front() != '/' && path.front() != '.' &&
                       path.find('/') == std::string::npos && path.find(':') != std::string::npos;
  if (is_port) {
    return invalid_argument(
        fmt::format("\"{}\" is no path: a gateway listens at a Unix socket, for the processes of its host; "
                    "one of another host "
                    "joins with a node of its own",
                    path));
  }
  if (path.empty() || path.size() >= sizeof(address.sun_path) || path.find('\0') != std::string::npos) {
    return invalid_argument(
        fmt::format("the path of a gateway's socket has {} bytes, allowed are 1 to {}: {}", path.size(),
                    sizeof(address.sun_path) - 1, path));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

// 0, or errno.
int try_connect(const FileDescriptor& socket, const sockaddr_un& address) {
  while (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

FileDescriptor make_socket(int flags = 0) {
  return FileDescriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
}

// Whether nobody listens at a socket that is there. Does not wait where the queue of the listener is full.
bool is_stale(const std::string& path) {
  const auto address = address_of(path);
  const FileDescriptor probe = make_socket(SOCK_NONBLOCK);
  return address.is_ok() && probe && try_connect(probe, *address) == ECONNREFUSED;
}

Status make_room(const std::string& path) {
  struct stat about {};
  if (lstat(path.c_str(), &about) != 0) return {};
  if (!S_ISSOCK(about.st_mode)) return already_exists(fmt::format("{} is there, and is no socket", path));
  if (!is_stale(path)) {
    return already_exists(fmt::format("somebody serves at {} already: name another path", path));
  }
  unlink(path.c_str());
  return {};
}

// Another user who may write there could replace the gateway's socket.
Status check_private(const std::string& directory) {
  struct stat about {};
  if (mkdir(directory.c_str(), kPrivateDirectory) != 0 && errno != EEXIST) {
    return unavailable(fmt::format("cannot make {}: {}", directory, net::describe_errno(errno)));
  }
  if (lstat(directory.c_str(), &about) != 0) {
    return unavailable(fmt::format("cannot look at {}: {}", directory, net::describe_errno(errno)));
  }
  if (!S_ISDIR(about.st_mode) || about.st_uid != geteuid() || (about.st_mode & kOthers) != 0) {
    return permission_denied(
        fmt::format("{} is not a directory of this user alone (mode 0700): remove it", directory));
  }
  // A file system that is read-only says so here.
  if (faccessat(AT_FDCWD, directory.c_str(), W_OK | X_OK, AT_EACCESS) != 0) {
    return unavailable(fmt::format("cannot write to {}: {}", directory, net::describe_errno(errno)));
  }
  return {};
}

// Where a gateway's socket may be, the best first. A relative path is none, as the XDG and POSIX
// specifications say.
std::vector<std::string> private_directories() {
  std::vector<std::string> directories;
  const auto add = [&](const char* folder, std::string_view name) {
    if (folder == nullptr || *folder != '/') return;
    std::string directory = (std::filesystem::path(folder) / name).string();
    if (std::ranges::find(directories, directory) == directories.end())
      directories.push_back(std::move(directory));
  };
  const std::string own = fmt::format("square-{}", geteuid());
  add(std::getenv("XDG_RUNTIME_DIR"), "square");
  add(std::getenv("TMPDIR"), own);
  add("/tmp", own);
  return directories;
}

void sweep(const std::string& directory) {
  std::error_code error;
  int looked_at = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const std::string path = entry.path().string();
    if (!path.ends_with(kSuffix)) continue;
    if (++looked_at > kMaxSwept) return;
    if (is_stale(path)) unlink(path.c_str());
  }
}

std::string file_name_of(std::string_view node) {
  static std::atomic<unsigned> made = 0;
  std::string name(node.substr(0, kNameBytes));
  std::ranges::replace_if(
      name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return fmt::format("{}-{}-{}{}", name, getpid(), ++made, kSuffix);
}

}  // namespace

LocalListener::LocalListener(LocalListener&& other) noexcept
    : socket_(std::move(other.socket_)),
      path_(std::exchange(other.path_, {})),
      device_(other.device_),
      number_(other.number_) {}

LocalListener& LocalListener::operator=(LocalListener&& other) noexcept {
  std::swap(socket_, other.socket_);
  std::swap(path_, other.path_);
  std::swap(device_, other.device_);
  std::swap(number_, other.number_);
  return *this;
}

Result<LocalListener> LocalListener::listen(const std::string& path, bool for_everybody, int backlog) {
  SQUARE_ASSIGN_OR_RETURN(const sockaddr_un address, address_of(path));
  SQUARE_RETURN_IF_ERROR(make_room(path));
  LocalListener made;
  made.socket_ = make_socket();
  const auto failed = [&] {
    return unavailable(fmt::format("cannot serve at {}: {}", path, net::describe_errno(errno)));
  };
  const int flags = made.socket_ ? fcntl(made.socket_.get(), F_GETFL) : -1;
  if (flags < 0 || fcntl(made.socket_.get(), F_SETFL, flags | O_NONBLOCK) != 0) return failed();
  // Nobody reaches it before its mode is what it is to be: connections are taken from listen() on.
  if (bind(made.socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return failed();
  made.path_ = path;
  struct stat about {};
  if (lstat(path.c_str(), &about) != 0 || chmod(path.c_str(), for_everybody ? kEverybodys : kOwners) != 0 ||
      ::listen(made.socket_.get(), backlog) != 0) {
    return failed();
  }
  made.device_ = about.st_dev;
  made.number_ = about.st_ino;
  return made;
}

FileDescriptor LocalListener::close() {
  if (path_.empty()) return {};
  struct stat about {};
  const bool is_own = lstat(path_.c_str(), &about) == 0 && about.st_dev == device_ && about.st_ino == number_;
  if (is_own) unlink(path_.c_str());
  path_.clear();
  return std::move(socket_);
}

Result<std::string> own_socket_path(std::string_view node) {
  const std::string name = file_name_of(node);
  std::vector<std::string> reasons;
  StatusCode code = StatusCode::kUnavailable;
  for (const std::string& directory : private_directories()) {
    std::string path = fmt::format("{}/{}", directory, name);
    Status usable = address_of(path).status();
    if (usable.is_ok()) usable = check_private(directory);
    if (usable.is_ok()) {
      sweep(directory);
      return path;
    }
    reasons.push_back(usable.message());
    if (usable.code() == StatusCode::kPermissionDenied) code = usable.code();
  }
  return Status(code,
                fmt::format("no folder can hold the gateway's socket: {}. Set XDG_RUNTIME_DIR or TMPDIR "
                            "to a folder that this user can write to, or name the socket's path "
                            "(`square node --gateway PATH`, serve_gateway(path))",
                            fmt::join(reasons, "; ")));
}

Result<FileDescriptor> connect_local(const std::string& path, Duration timeout) {
  SQUARE_ASSIGN_OR_RETURN(const sockaddr_un address, address_of(path));
  FileDescriptor socket = make_socket();
  const auto microseconds = std::chrono::duration_cast<std::chrono::microseconds>(timeout).count();
  constexpr std::int64_t kMicros = 1'000'000;
  // A queue that is full is waited for so long; 0 would be without an end.
  timeval limit{};
  limit.tv_sec = static_cast<time_t>(std::max<std::int64_t>(microseconds, 1) / kMicros);
  limit.tv_usec = static_cast<suseconds_t>(std::max<std::int64_t>(microseconds, 1) % kMicros);
  if (socket) setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  const int error = socket ? try_connect(socket, address) : errno;
  if (error != 0) {
    return unavailable(
        fmt::format("no gateway serves at {}: {}; start one with `square node --gateway`", path,
                    error == EAGAIN ? "it does not take connections" : net::describe_errno(error)));
  }
  const int flags = fcntl(socket.get(), F_GETFL);
  fcntl(socket.get(), F_SETFL, flags | O_NONBLOCK);
  return socket;
}

LocalPeer peer_of(const FileDescriptor& socket) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    return {static_cast<std::uint32_t>(-1), 0};  // nobody
  }
  return {credentials.uid, static_cast<std::uint32_t>(credentials.pid)};
}

}  // namespace square::gateway
