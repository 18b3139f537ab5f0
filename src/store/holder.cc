#include "store/holder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <sstream>
#include <string>

namespace square::store {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string link_target(const char* path) {
  std::array<char, 256> target{};
  const ssize_t size = ::readlink(path, target.data(), target.size());
  return size < 0 ? std::string() : std::string(target.data(), static_cast<std::size_t>(size));
}

// Of /proc/PID/stat: field 22, counted behind the name, which may hold blanks and brackets. 0: no process.
std::int64_t start_of(std::int64_t process) {
  constexpr int kFieldsBefore = 19;
  const std::string line = first_line(fmt::format("/proc/{}/stat", process));
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(line.substr(name_end + 1));
  std::string field;
  for (int i = 0; i < kFieldsBefore; ++i) fields >> field;
  std::int64_t started = 0;
  fields >> started;
  return started;
}

std::string place() {
  return first_line("/proc/sys/kernel/random/boot_id") + " " + link_target("/proc/self/ns/pid");
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data()) : std::string();
}

}  // namespace

Holder this_process() {
  const auto self = static_cast<std::int64_t>(::getpid());
  return {self, start_of(self), place(), host_name()};
}

bool has_ended(const Holder& holder) {
  if (holder.process == 0) return true;
  return holder.place == place() && start_of(holder.process) != holder.started;
}

}  // namespace square::store
