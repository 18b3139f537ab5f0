#include "base/net/file_descriptor.h"

#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace square::net {

FileDescriptor::~FileDescriptor() {
  if (descriptor_ < 0) return;
  const int kept = errno;
  close(descriptor_);
  errno = kept;
}

std::string describe_errno(int number) { return std::generic_category().message(number); }

}  // namespace square::net
