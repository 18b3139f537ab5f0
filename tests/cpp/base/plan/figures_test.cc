#include "base/plan/figures.h"

#include <doctest/doctest.h>

using namespace square;

namespace {

constexpr double kMbps = 1e6;

// Two links out of a node that may send 10 Mbit/s, and those back.
Plan limited_star() {
  Plan plan;
  plan.nodes = {
      {"hub", 10 * kMbps, kUnlimited}, {"a", kUnlimited, kUnlimited}, {"b", kUnlimited, kUnlimited}};
  for (const std::uint32_t end : {1U, 2U}) {
    plan.links.push_back({NodeId(0), NodeId(end), 50 * kMbps});
    plan.links.push_back({NodeId(end), NodeId(0), 50 * kMbps});
  }
  return plan;
}

}  // namespace

TEST_CASE("a node's limit is shared by its links as planned, and evenly what is free") {
  Plan plan = limited_star();
  plan.links[0].load_bps = 7 * kMbps;
  plan.links[2].load_bps = 1 * kMbps;
  const std::vector<double> paces = link_paces(plan);
  CHECK(paces[0] == doctest::Approx(8 * kMbps));
  CHECK(paces[2] == doctest::Approx(2 * kMbps));
  CHECK(paces[1] == doctest::Approx(50 * kMbps));
}

TEST_CASE("a thin link out of a full node has room for what goes back") {
  Plan plan = limited_star();
  plan.links[0].load_bps = 10 * kMbps;
  plan.links[3].load_bps = 40 * kMbps;  // b to the hub
  const std::vector<double> paces = link_paces(plan);
  CHECK(paces[0] == doctest::Approx(10 * kMbps));
  CHECK(paces[2] >= 0.03 * 40 * kMbps);
  CHECK(paces[2] <= 0.1 * 40 * kMbps);
}
