// Plans one broadcast over a full mesh of four nodes with nothing but the public headers.
// Every cut around the source, and around each destination, is three links of 10 Mbit/s
// wide, so the plan must reach 30 Mbit/s.
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "square/planner.h"
#include "square/scenario.h"
#include "square/topology.h"
#include "square/units.h"
#include "square/validator.h"

namespace {

constexpr double kExpectedMbps = 30.0;
constexpr double kToleranceMbps = 0.3;
constexpr std::uint64_t kPayloadBytes = 12'500'000;

int fail(const char* what, const square::Status& status) {
  std::fprintf(stderr, "consumer: %s: %s\n", what, status.to_string().c_str());
  return 1;
}

square::Scenario one_broadcast(square::Topology topology) {
  square::CollectiveSpec broadcast;
  broadcast.id = square::CollectiveId(0);
  broadcast.tenant = "alice";
  broadcast.root = square::NodeId(0);
  for (std::uint32_t node = 0; node < topology.node_count(); ++node) {
    broadcast.members.push_back(square::NodeId(node));
  }
  broadcast.size_bytes = kPayloadBytes;

  square::Scenario scenario;
  scenario.name = "consumer";
  scenario.topology = std::move(topology);
  scenario.tenants.push_back({.name = "alice", .weight = 1.0});
  scenario.collectives.push_back(broadcast);
  return scenario;
}

}  // namespace

int main() {
  const std::vector<std::string> names = {"fra", "sfo", "syd", "lon"};
  square::LinkProperties link;
  link.capacity_bps = square::mbps_to_bps(10);
  square::Result<square::Topology> mesh = square::full_mesh(names, link);
  if (!mesh.is_ok()) return fail("full_mesh", mesh.status());

  const square::Result<square::PlanResult> result = square::make_plan(one_broadcast(std::move(mesh).value()));
  if (!result.is_ok()) return fail("make_plan", result.status());
  const square::Plan& plan = result.value().plan;
  if (square::Status status = square::validate(plan); !status.is_ok()) return fail("validate", status);

  const double rate_mbps = square::bps_to_mbps(plan.min_rate_bps);
  std::printf("consumer: %.3f Mbit/s over %zu streams\n", rate_mbps, plan.sessions.at(0).streams.size());
  if (std::abs(rate_mbps - kExpectedMbps) > kToleranceMbps) {
    std::fprintf(stderr, "consumer: expected %.1f Mbit/s\n", kExpectedMbps);
    return 1;
  }
  return 0;
}
