// What the tests of the readers share.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "square/topology.h"

struct BadInput {
  std::string text;
  std::string expected;  // part of the message
};

template <typename Parse>
void check_refused(Parse parse, const std::vector<BadInput>& inputs) {
  for (const BadInput& input : inputs) {
    CAPTURE(input.text);
    const auto result = parse(input.text, "in");
    REQUIRE_FALSE(result.is_ok());
    CHECK(result.status().code() == square::StatusCode::kInvalidArgument);
    CHECK_MESSAGE(result.status().message().find(input.expected) != std::string::npos,
                  result.status().message());
  }
}

// The link that must be there.
inline const square::LinkProperties& between(const square::Topology& topology, std::string_view from,
                                             std::string_view to) {
  const auto tail = topology.find_node(from);
  const auto head = topology.find_node(to);
  REQUIRE(tail.has_value());
  REQUIRE(head.has_value());
  const auto link = topology.find_link(*tail, *head);
  REQUIRE(link.has_value());
  return topology.link(*link).properties;
}
