// A peer in a process of its own, so that it can be killed or stopped.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

extern char** environ;

namespace square::testing {

inline constexpr char kParentVariable[] = "SQUARE_TEST_PARENT";

// Runs the skipped test case "peer process" of this program, which opens a link to the
// node "parent" at `address` and sends its own address as the first payload.
class PeerProcess {
 public:
  explicit PeerProcess(const std::string& address) {
    std::vector<std::string> words = {"peer", "--no-skip", "--test-case=peer process"};
    std::vector<char*> arguments;
    for (auto& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    std::string variable = std::string(kParentVariable) + "=" + address;
    std::vector<char*> environment;
    for (char** entry = environ; *entry != nullptr; ++entry) environment.push_back(*entry);
    environment.push_back(variable.data());
    environment.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    REQUIRE(posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, arguments.data(), environment.data()) ==
            0);
    posix_spawn_file_actions_destroy(&actions);
  }
  ~PeerProcess() {
    signal(SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  void signal(int number) const { kill(pid_, number); }

 private:
  pid_t pid_ = 0;
};

}  // namespace square::testing
