// A file descriptor that is closed with its owner.
#pragma once

#include <string>
#include <utility>

namespace square::net {

class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int descriptor) : descriptor_(descriptor) {}
  FileDescriptor(FileDescriptor&& other) noexcept : descriptor_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  // errno stays as it is.
  ~FileDescriptor();

  [[nodiscard]] int get() const { return descriptor_; }
  // The caller closes it.
  [[nodiscard]] int release() { return std::exchange(descriptor_, -1); }
  explicit operator bool() const { return descriptor_ >= 0; }

 private:
  int descriptor_ = -1;
};

// What errno says, in words.
std::string describe_errno(int number);

}  // namespace square::net
