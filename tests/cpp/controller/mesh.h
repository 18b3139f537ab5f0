// The overlay of many tests.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "square/scenario.h"

namespace square::test {

// A full mesh of 100 Mbit/s links, no collectives.
inline Scenario mesh(const std::vector<std::string>& names) {
  Scenario scenario;
  scenario.name = "mesh";
  auto topology = full_mesh(names, {mbps_to_bps(100), std::chrono::milliseconds(1), 0});
  REQUIRE(topology.is_ok());
  scenario.topology = *topology;
  return scenario;
}

}  // namespace square::test
