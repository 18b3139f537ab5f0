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
