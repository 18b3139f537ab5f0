// Sockets and file descriptors of the gateway.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "square/status.h"
#include "square/units.h"

namespace square::gateway {

std::string describe_errno(int number);

// Closed with its owner.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int descriptor) : descriptor_(descriptor) {}
  FileDescriptor(FileDescriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~FileDescriptor();

  [[nodiscard]] int get() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }

 private:
  int descriptor_ = -1;
};

struct Listener {
  FileDescriptor descriptor;
  std::string address;  // host:port as bound
};

// `address` is host:port, port 0 for a free one. The socket does not block. Errors:
// INVALID_ARGUMENT for what is no address, and where other machines reach the host and
// there is no token; UNAVAILABLE with the reason.
Result<Listener> listen_at(std::string_view address, bool has_token);

// The next connection that waits; an empty descriptor where none does.
FileDescriptor accept_from(const FileDescriptor& listener);

// Connects within `timeout`. The socket does not block. Errors: INVALID_ARGUMENT,
// UNAVAILABLE with address and reason.
Result<FileDescriptor> connect_to(std::string_view address, Duration timeout);

}  // namespace square::gateway
