#include "base/told_once.h"

#include <doctest/doctest.h>

#include <vector>

using namespace square;

TEST_CASE("a callback that is dropped hears so, and one that was called hears no more") {
  std::vector<Status> heard;
  const auto tell = [&heard](Status outcome) { heard.push_back(std::move(outcome)); };
  {
    const auto called = told_once(tell, cancelled("dropped"));
    called(Status::ok());
  }
  REQUIRE(heard.size() == 1);
  CHECK(heard[0].is_ok());
  auto dropped = told_once(tell, cancelled("dropped"));
  auto copy = dropped;
  dropped = nullptr;
  CHECK(heard.size() == 1);
  copy = nullptr;
  REQUIRE(heard.size() == 2);
  CHECK(heard[1] == cancelled("dropped"));
}
