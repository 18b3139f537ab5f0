#include "base/seldom.h"

#include <doctest/doctest.h>

using namespace square;

TEST_CASE("each has one line at a time, and what was left out is counted") {
  Seldom seldom;
  CHECK(seldom.admit("a") == 0);
  CHECK_FALSE(seldom.admit("a"));
  CHECK_FALSE(seldom.admit("a"));
  CHECK(seldom.admit("b") == 2);
  CHECK(seldom.admit("c") == 0);
}

TEST_CASE("many that come at once have no more lines than there are") {
  Seldom seldom;
  std::size_t lines = 0;
  for (int i = 0; i < 10'000; ++i) lines += seldom.admit(std::to_string(i)) ? 1 : 0;
  CHECK(lines == kMaxSeldomNames);
}

TEST_CASE("what others sent makes no line and no word to a terminal of the log") {
  std::string logged;
  set_log_sink([&](LogLevel, const LogFields&, std::string_view message) { logged = message; });
  log(LogLevel::kError, {.component = "test"}, "{}",
      "a\nb\x1b[2J \xc2\x9b"
      "1m \xc3\xa9\xc2\xa0 \x7f\xc2");
  set_log_sink(nullptr);
  CHECK(logged == "a?b?[2J ?1m \xc3\xa9\xc2\xa0 ?\xc2");
}
