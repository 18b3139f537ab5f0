// A process that opens a store, says so with a byte, and waits to be ended.
#pragma once

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "store/store.h"

namespace square::test {

class HoldingProcess {
 public:
  explicit HoldingProcess(const std::string& place) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    process_ = ::fork();
    if (process_ == 0) {
      const auto held = store::open_store(place);
      const char word = held.is_ok() ? 'y' : 'n';
      if (::write(ends[1], &word, 1) != 1) ::_exit(1);
      for (;;) ::pause();
    }
    char word = 0;
    REQUIRE(::read(ends[0], &word, 1) == 1);
    REQUIRE(word == 'y');
    ::close(ends[0]);
    ::close(ends[1]);
  }
  ~HoldingProcess() { end(); }
  void stop() const { ::kill(process_, SIGSTOP); }
  void end() {
    if (process_ == 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = 0;
  }

 private:
  pid_t process_ = 0;
};

}  // namespace square::test
