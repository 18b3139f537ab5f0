// Members, and a gateway, in processes of their own, so that they can be killed.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

extern char** environ;

namespace square::testing {

// Where a child writes its lines: its standard output is doctest's.
inline constexpr int kReportDescriptor = 9;

// Runs a skipped test case of this program with these variables, and reads what it reports.
class ChildProcess {
 public:
  ChildProcess(const std::string& test_case, const std::map<std::string, std::string>& variables) {
    int ends[2];
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
    reports_ = ends[0];
    std::vector<std::string> words = {"child", "--no-skip", "--test-case=" + test_case};
    std::vector<char*> arguments;
    for (auto& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    std::vector<std::string> entries;
    for (const auto& [name, value] : variables) {
      std::string entry = name;
      entry += '=';
      entry += value;
      entries.push_back(std::move(entry));
    }
    std::vector<char*> environment;
    for (char** entry = environ; *entry != nullptr; ++entry) environment.push_back(*entry);
    for (auto& entry : entries) environment.push_back(entry.data());
    environment.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], kReportDescriptor);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    REQUIRE(posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, arguments.data(), environment.data()) ==
            0);
    posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
  }
  ~ChildProcess() {
    signal(SIGKILL);
    waitpid(pid_, nullptr, 0);
    ::close(reports_);
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  void signal(int number) const { kill(pid_, number); }
  [[nodiscard]] pid_t pid() const { return pid_; }

  // The next line it reports; "(end)" when it is gone, "(silence)" after `limit`.
  std::string line(std::chrono::milliseconds limit = std::chrono::seconds(20)) {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (true) {
      const std::size_t newline = text_.find('\n');
      if (newline != std::string::npos) {
        std::string first = text_.substr(0, newline);
        text_.erase(0, newline + 1);
        return first;
      }
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
      pollfd waiting{reports_, POLLIN, 0};
      if (left.count() <= 0 || poll(&waiting, 1, static_cast<int>(left.count())) == 0) return "(silence)";
      char bytes[4096];
      const ssize_t got = read(reports_, bytes, sizeof bytes);
      if (got <= 0) return "(end)";
      text_.append(bytes, static_cast<std::size_t>(got));
    }
  }

 private:
  pid_t pid_ = 0;
  int reports_ = -1;
  std::string text_;
};

// What a child calls.
inline void report(std::string line) {
  line += '\n';
  static_cast<void>(write(kReportDescriptor, line.data(), line.size()));
}
inline std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// Writes over whatever this process shares with a gateway and may write to, and says how much.
inline std::uint64_t scribble() {
  std::uint64_t written = 0;
  const std::vector<char> noise(std::size_t{256} << 10U, '\x7f');
  constexpr off_t kHeader = 4096;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    const auto name = std::filesystem::read_symlink(entry.path(), ignored).string();
    if (name.find("memfd:square-gateway") == std::string::npos) continue;
    const int file = open(entry.path().c_str(), O_RDWR | O_CLOEXEC);
    if (file < 0) continue;
    // What is sealed for good can be changed only before it is given.
    const bool is_reusable = (fcntl(file, F_GET_SEALS) & (F_SEAL_GROW | F_SEAL_WRITE)) == F_SEAL_GROW;
    off_t at = kHeader;
    while (is_reusable && pwrite(file, noise.data(), noise.size(), at) > 0)
      at += static_cast<off_t>(noise.size());
    written += static_cast<std::uint64_t>(at - kHeader);
    close(file);
  }
  return written;
}

}  // namespace square::testing
