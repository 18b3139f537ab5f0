#include "node/links/strangers.h"

#include <doctest/doctest.h>

using namespace square;

TEST_CASE("nodes that nobody has named have few links, and those that are named find room") {
  Strangers strangers;
  const auto line = [](std::size_t i) { return LinkHandle(static_cast<LinkHandle::value_type>(i + 1)); };
  for (std::size_t i = 0; i < kMaxStrangers; ++i) CHECK(strangers.admit(line(i), "s" + std::to_string(i)));
  CHECK_FALSE(strangers.admit(line(1000), "late"));
  strangers.name("known");
  CHECK(strangers.admit(line(1001), "known"));
  strangers.forget(line(0));
  CHECK(strangers.admit(line(1002), "late"));
  CHECK_FALSE(strangers.admit(line(1003), "later"));
  strangers.name("s1");
  CHECK(strangers.admit(line(1004), "later"));
}
