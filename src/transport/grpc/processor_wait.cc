#include "transport/grpc/processor_wait.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdio>

#include "base/net/file_descriptor.h"

namespace square::rpc {

Duration processor_wait() {
  const net::FileDescriptor file(open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC));
  std::array<char, 96> text{};
  if (!file || read(file.get(), text.data(), text.size() - 1) <= 0) return Duration(0);
  // Nanoseconds that it ran, and that it waited.
  long long ran = 0;
  long long waited = 0;
  return std::sscanf(text.data(), "%lld %lld", &ran, &waited) == 2 ? Duration(waited) : Duration(0);
}

}  // namespace square::rpc
