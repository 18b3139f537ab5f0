#include "square/status.h"

#include <doctest/doctest.h>

using namespace square;

TEST_CASE("a status says what failed") {
  CHECK(Status::ok().to_string() == "OK");
  const Status error = not_found("no node \"xyz\"").with_context("demo.toml:3");
  CHECK(error.code() == StatusCode::kNotFound);
  CHECK(error.to_string() == "NOT_FOUND: demo.toml:3: no node \"xyz\"");
  CHECK(Status::ok().with_context("ignored").is_ok());
}

TEST_CASE("a result holds a value or an error") {
  Result<int> value = 7;
  REQUIRE(value.is_ok());
  CHECK(*value == 7);
  const Result<int> error = unavailable("down");
  CHECK_FALSE(error.is_ok());
  CHECK(error.status() == unavailable("down"));
}
