#include "trust/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "base/net/file_descriptor.h"

namespace square::trust {
namespace {

constexpr ::mode_t kSecretMode = 0600;
constexpr ::mode_t kPublicMode = 0644;
constexpr ::mode_t kOthers = 0077;

Status cannot(const char* what, const std::string& path, int error) {
  const std::string words = fmt::format("cannot {} {}: {}", what, path, net::describe_errno(error));
  if (error == ENOENT) return not_found(words);
  return error == EACCES || error == EPERM ? permission_denied(words) : unavailable(words);
}

}  // namespace

Result<std::string> read_file(const std::string& path, Secrecy secrecy) {
  const net::FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat about {};
  if (!file || fstat(file.get(), &about) != 0) return cannot("read", path, errno);
  if (secrecy == Secrecy::kSecret && (about.st_mode & kOthers) != 0) {
    return permission_denied(
        fmt::format("{} holds a key and can be read by other users: chmod 600 {}", path, path));
  }
  std::string text;
  std::string piece(4096, '\0');
  for (;;) {
    const ssize_t got = read(file.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return cannot("read", path, errno);
    if (got == 0) return text;
    text.append(piece, 0, static_cast<std::size_t>(got));
    if (text.size() > kMaxFileBytes) {
      return invalid_argument(fmt::format("{} has more than {} bytes", path, kMaxFileBytes));
    }
  }
}

Status write_file(const std::string& path, const std::string& text, Secrecy secrecy) {
  std::string temporary = path + ".XXXXXX";
  const net::FileDescriptor file(mkostemp(temporary.data(), O_CLOEXEC));
  if (!file) return cannot("write", path, errno);
  std::size_t written = 0;
  bool is_good = fchmod(file.get(), secrecy == Secrecy::kSecret ? kSecretMode : kPublicMode) == 0;
  while (is_good && written < text.size()) {
    const ssize_t some = write(file.get(), text.data() + written, text.size() - written);
    if (some < 0 && errno == EINTR) continue;
    is_good = some > 0;
    if (is_good) written += static_cast<std::size_t>(some);
  }
  is_good = is_good && fsync(file.get()) == 0 && std::rename(temporary.c_str(), path.c_str()) == 0;
  if (is_good) return {};
  const int error = errno;
  unlink(temporary.c_str());
  return cannot("write", path, error);
}

Status make_folder(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return {};
  std::filesystem::create_directories(path, error);
  if (!error) std::filesystem::permissions(path, std::filesystem::perms::owner_all, error);
  if (error) return unavailable(fmt::format("cannot make the folder {}: {}", path, error.message()));
  return {};
}

}  // namespace square::trust
