// Which link is probed when.
#include "node/links/prober.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "square/simulation.h"

using namespace square;
using namespace std::chrono_literals;

namespace {

struct ProbingNode {
  void pass(Duration time) {
    simulation.run_until([] { return false; }, simulation.clock().now() + time);
  }
  [[nodiscard]] std::size_t probes_of(const std::string& peer) const {
    return static_cast<std::size_t>(
        std::ranges::count(probes, peer, [](const auto& probe) { return probe.second; }));
  }

  Simulation simulation{1};
  std::unique_ptr<Executor> executor = simulation.make_executor("n");
  std::vector<std::pair<TimePoint, std::string>> probes;
  Prober prober{simulation.clock(), *executor, 7,
                [this](const std::string& peer) { probes.emplace_back(simulation.clock().now(), peer); }};
};

}  // namespace

TEST_CASE("a link is probed every minute at least, and takes no more than its hundredth") {
  ProbingNode node;
  node.prober.on_up("a", false);
  node.pass(600s);
  REQUIRE(node.probes.size() > 2);
  CHECK(node.probes.front().first - TimePoint{} < 10s);
  for (std::size_t i = 1; i < node.probes.size(); ++i) {
    CHECK(node.probes[i].first - node.probes[i - 1].first <= 60s);
    CHECK(node.probes[i].first - node.probes[i - 1].first >= 40s);
  }
}

TEST_CASE("a link over which data waited is probed as soon as any other") {
  ProbingNode node;
  node.prober.on_up("a", true);
  node.prober.on_round_trip("a", 20ms);
  node.pass(10s);
  node.prober.on_round_trip("a", 2s);
  node.prober.on_measured("a");
  node.pass(60s);
  CHECK(node.probes_of("a") == 1);
}

TEST_CASE("probes of a node are one at a time, never measured links first") {
  ProbingNode node;
  for (const char* known : {"k", "l"}) node.prober.on_up(known, true);
  node.pass(29s / 2);
  for (const char* known : {"k", "l"}) node.prober.on_measured(known);
  node.pass(45s);
  for (const char* fresh : {"a", "b", "c", "d"}) node.prober.on_up(fresh, false);
  const std::size_t before = node.probes.size();
  node.pass(30s);
  for (std::size_t i = 1; i < node.probes.size(); ++i)
    CHECK(node.probes[i].first - node.probes[i - 1].first >= kProbeSpacing);
  REQUIRE(node.probes.size() >= before + 6);
  for (const char* fresh : {"a", "b", "c", "d"}) CHECK(node.probes_of(fresh) == 1);
}

TEST_CASE("a link that transfers measure is not probed, nor one that is down") {
  ProbingNode node;
  node.prober.on_up("a", false);
  for (int i = 0; i < 100; ++i) {
    node.pass(2s);
    node.prober.on_measured("a");
  }
  CHECK(node.probes.empty());
  node.prober.on_down("a");
  node.pass(600s);
  CHECK(node.probes.empty());
}
