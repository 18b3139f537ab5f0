// Scenarios as text, and what is said of wrong ones.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "square/scenario.h"

namespace square::testing {

inline Result<Scenario> parse(const std::string& text) { return parse_scenario(text, "demo.toml", "."); }

// An overlay of three nodes; more tables may follow.
inline const std::string kMesh = "[overlay]\nmesh = [\"a\", \"b\", \"c\"]\ncapacity_mbps = 10\n";

inline void check_refused(const std::string& text, std::string_view expected) {
  CAPTURE(text);
  const auto scenario = parse(text);
  REQUIRE_FALSE(scenario.is_ok());
  CHECK(scenario.status().code() == StatusCode::kInvalidArgument);
  CHECK(scenario.status().message().starts_with("demo.toml:"));
  CHECK_MESSAGE(scenario.status().message().find(expected) != std::string::npos, scenario.status().message());
}

}  // namespace square::testing
