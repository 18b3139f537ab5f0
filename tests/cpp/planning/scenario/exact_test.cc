// What scenarios say that only the policy "exact" knows.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "planning/scenario/texts.h"

using namespace square;
using namespace square::testing;
using namespace std::chrono_literals;

namespace {

std::string square_collective(const std::string& lines) {
  return kMesh + "[policy]\nname = 'square'\n[[collective]]\n" + lines;
}

std::string exact(const std::string& lines) { return kMesh + "[policy]\nname = 'exact'\n" + lines; }

// A broadcast from a to b and c, under the policy "exact" with these lines.
std::string exact_broadcast(const std::string& policy, const std::string& lines) {
  return exact(policy) + "\n[[collective]]\ntenant='x'\nop='broadcast'\nroot='a'\nbytes=1\n" + lines;
}

}  // namespace

TEST_CASE("what the policy exact knows") {
  const auto fair = parse(exact_broadcast(R"(objective = "fair"
gap = 1e-3
deadline_seconds = 2.5
max_streams = 7
budget_usd_per_hour = 12
headroom = 1.5
avoid_nodes = ["b", "c"]
avoid_links = [["a", "b"], ["c", "a"]])",
                                          "max_latency_ms = 80"));
  REQUIRE_MESSAGE(fair.is_ok(), fair.status().message());
  const PolicySpec& policy = fair->policy;
  CHECK(policy.name == "exact");
  CHECK(policy.objective == Objective::kFair);
  CHECK(policy.gap == 1e-3);
  CHECK(policy.deadline_seconds == 2.5);
  CHECK(policy.max_streams == 7);
  CHECK(policy.budget_usd_per_hour == 12.0);
  CHECK(policy.headroom == 1.5);
  CHECK(policy.avoid_nodes == std::vector{NodeId(1), NodeId(2)});
  const Topology& topology = fair->topology;
  CHECK(policy.avoid_links ==
        std::vector{*topology.find_link(NodeId(0), NodeId(1)), *topology.find_link(NodeId(2), NodeId(0))});
  // Nothing bounds the root: it waits for no stream of its own.
  CHECK(fair->collectives[0].max_latency == std::vector<Duration>{Duration::max(), 80ms, 80ms});
  CHECK_FALSE(fair->collectives[0].required_bps.has_value());

  const auto cost = parse(exact_broadcast("objective = 'cost'", "required_mbps = 2.5"));
  REQUIRE_MESSAGE(cost.is_ok(), cost.status().message());
  CHECK(cost->policy.objective == Objective::kCost);
  CHECK(cost->collectives[0].required_bps == 2.5e6);

  const auto plain = parse(exact_broadcast("", ""));
  REQUIRE_MESSAGE(plain.is_ok(), plain.status().message());
  CHECK(plain->policy.gap == kDefaultGap);
  CHECK_FALSE(plain->policy.deadline_seconds.has_value());
  CHECK(plain->policy.max_streams == 0);
  CHECK_FALSE(plain->policy.budget_usd_per_hour.has_value());
  CHECK(plain->policy.headroom == 0);
  CHECK(plain->collectives[0].max_latency.empty());
}

TEST_CASE("bounds on latency by member, in rank order") {
  const auto some = parse(exact_broadcast("", "members = ['c', 'a', 'b']\nmax_latency_ms = { \"c\" = 0.5 }"));
  REQUIRE_MESSAGE(some.is_ok(), some.status().message());
  CHECK(some->collectives[0].max_latency == std::vector<Duration>{500us, Duration::max(), Duration::max()});
  const auto rootless =
      parse(exact("[[collective]]\ntenant = 'x'\nop = 'all_gather'\nbytes = 9\nmax_latency_ms = 7\n"));
  REQUIRE_MESSAGE(rootless.is_ok(), rootless.status().message());
  CHECK(rootless->collectives[0].max_latency == std::vector<Duration>{7ms, 7ms, 7ms});
}

TEST_CASE("mistakes in what the policy exact knows are named with file, line and key") {
  check_refused(kMesh + "[policy]\nname = 'sqare'",
                "demo.toml:5: policy.name: unknown policy \"sqare\": choose one of exact, square, ");
  // The other policies refuse all of it.
  for (const auto& [line, part] : std::vector<std::pair<std::string, std::string>>{
           {"objective = 'fair'", "objective: the policy \"mcf\" knows no objective: choose \"exact\""},
           {"gap = 0.1", "gap: the policy \"mcf\" knows no gap"},
           {"deadline_seconds = 1", "deadline_seconds: the policy \"mcf\" knows no deadline"},
           {"max_streams = 3", "max_streams: the policy \"mcf\" knows no limit on streams"},
           {"budget_usd_per_hour = 3", "budget_usd_per_hour: the policy \"mcf\" knows no budget"},
           {"headroom = 1", "headroom: the policy \"mcf\" knows no headroom"},
           {"avoid_nodes = ['a']", "avoid_nodes: the policy \"mcf\" knows no nodes to avoid"},
           {"avoid_links = [['a', 'b']]", "avoid_links: the policy \"mcf\" knows no links to avoid"}}) {
    check_refused(kMesh + "[policy]\nname = 'mcf'\n" + line, "demo.toml:6: policy." + part);
  }
  const std::string broadcast = "tenant='x'\nop='broadcast'\nroot='a'\nbytes=1\n";
  check_refused(square_collective(broadcast + "required_mbps = 1"),
                "demo.toml:11: collective.required_mbps: the policy \"square\" knows no required rate");
  check_refused(square_collective(broadcast + "max_latency_ms = 1"),
                "demo.toml:11: collective.max_latency_ms: the policy \"square\" knows no bound on latency");

  for (const auto& [line, expected] : std::vector<std::pair<std::string, std::string>>{
           {"objective = 'cheap'", "objective: unknown objective \"cheap\": write one of \"fair\", \"cost\""},
           {"objective = 1", "objective: must be a text"},
           {"gap = 1", "gap: must be from 0 to below 1, not 1"},
           {"gap = -1e-9", "gap: must be from 0 to below 1, not -1e-09"},
           {"gap = nan", "gap: must be from 0 to below 1, not nan"},
           {"gap = 'x'", "gap: must be a number"},
           {"deadline_seconds = 0", "deadline_seconds: must be above 0 and finite, not 0"},
           {"deadline_seconds = inf", "deadline_seconds: must be above 0 and finite, not inf"},
           {"max_streams = -1", "max_streams: must be from 0 to 10000, not -1"},
           {"max_streams = 10001", "max_streams: must be from 0 to 10000, not 10001"},
           {"max_streams = 2.0", "max_streams: must be a whole number"},
           {"budget_usd_per_hour = 0", "budget_usd_per_hour: must be above 0 and finite, not 0"},
           {"budget_usd_per_hour = nan", "budget_usd_per_hour: must be above 0 and finite, not nan"},
           {"headroom = -0.5", "headroom: must be 0 or above and finite, not -0.5"},
           {"headroom = inf", "headroom: must be 0 or above and finite, not inf"},
           {"avoid_nodes = 'a'", "avoid_nodes: must be a list of texts"},
           {"avoid_nodes = ['z']", "avoid_nodes: unknown node \"z\""},
           {"avoid_links = ['a', 'b']", "avoid_links: must be a list of lists of texts, but holds a text"},
           {"avoid_links = [['a', 1]]",
            "avoid_links: must be a list of lists of texts, but one holds a whole number"},
           {"avoid_links = [['a']]", "avoid_links: must hold pairs [from, to], not 1 names"},
           {"avoid_links = [['a', 'z']]", "avoid_links: unknown node \"z\""},
           {"avoid_links = [['a', 'a']]", "avoid_links: there is no link from \"a\" to \"a\""}}) {
    check_refused(exact(line), "demo.toml:6: policy." + expected);
  }
  check_refused(exact("objective = 'cost'\nbudget_usd_per_hour = 5"),
                "demo.toml:7: policy.budget_usd_per_hour: is for objective = \"fair\"");
  check_refused(exact("objectives = 'cost'"), "the nearest known one is \"objective\"");
}

TEST_CASE("mistakes in required rates and bounds on latency are named with file, line and key") {
  check_refused(exact_broadcast("objective = 'cost'", ""),
                "demo.toml:7: collective.required_mbps: is missing: objective = \"cost\" needs one");
  check_refused(exact_broadcast("objective = 'fair'", "required_mbps = 3"),
                "demo.toml:12: collective.required_mbps: is for objective = \"cost\" in [policy]");
  for (const auto& [line, expected] : std::vector<std::pair<std::string, std::string>>{
           {"required_mbps = 0", "demo.toml:12: collective.required_mbps: must be above 0 and finite, not 0"},
           {"required_mbps = nan", "required_mbps: must be above 0 and finite, not nan"},
           {"required_mbps = 1e308", "required_mbps: is too large"},
           {"required_mbps = '3'", "required_mbps: must be a number"}}) {
    check_refused(exact_broadcast("objective = 'cost'", line), expected);
  }
  for (const auto& [line, expected] : std::vector<std::pair<std::string, std::string>>{
           {"= 0", "demo.toml:12: collective.max_latency_ms: must be above 0 and finite, not 0"},
           {"= nan", "max_latency_ms: must be above 0 and finite, not nan"},
           {"= 'x'", "max_latency_ms: must be a number or a table by member, not a text"},
           {"= [1, 2]", "max_latency_ms: must be a number"},
           {"= 1e-9", "max_latency_ms: must be a millionth of a millisecond or more"},
           {"= { b = -1 }", "demo.toml:12: collective.max_latency_ms.b: must be above 0 and finite, not -1"},
           {"= { b = 'x' }", "collective.max_latency_ms.b: must be a number, not a text"},
           {"= { z = 1 }", "collective.max_latency_ms.z: is not a member of this collective"},
           {"= { a = 1 }", "collective.max_latency_ms.a: is the root"}}) {
    check_refused(exact_broadcast("", "max_latency_ms " + line), expected);
  }
  check_refused(exact_broadcast("", "members = ['a', 'b']\nmax_latency_ms = { c = 1 }"),
                "demo.toml:13: collective.max_latency_ms.c: is not a member of this collective");
}

namespace {

// `change` spoils a good scenario.
void refused(const Scenario& good, const std::function<void(Scenario&)>& change, std::string_view expected) {
  REQUIRE_MESSAGE(check_scenario(good).is_ok(), check_scenario(good).message());
  Scenario scenario = good;
  change(scenario);
  const Status status = check_scenario(scenario);
  CAPTURE(expected);
  CHECK(status.code() == StatusCode::kInvalidArgument);
  CHECK_MESSAGE(status.message().find(expected) != std::string::npos, status.message());
}

const double kNan = std::nan("");

}  // namespace

TEST_CASE("scenarios made in code are checked for what only the policy exact knows") {
  const Scenario square = *parse(square_collective("tenant='x'\nop='broadcast'\nroot='a'\nbytes=1"));
  refused(
      square, [](Scenario& s) { s.policy.objective = Objective::kCost; },
      "policy.objective: the policy \"square\" knows no objective: choose \"exact\"");
  refused(
      square, [](Scenario& s) { s.policy.gap = 0.5; }, "policy.gap: the policy \"square\"");
  refused(
      square, [](Scenario& s) { s.policy.deadline_seconds = 1; }, "knows no deadline");
  refused(
      square, [](Scenario& s) { s.policy.max_streams = 1; }, "knows no limit on streams");
  refused(
      square, [](Scenario& s) { s.policy.budget_usd_per_hour = 1; }, "knows no budget");
  refused(
      square, [](Scenario& s) { s.policy.headroom = 1; }, "knows no headroom");
  refused(
      square, [](Scenario& s) { s.policy.avoid_nodes = {NodeId(1)}; }, "knows no nodes to avoid");
  refused(
      square, [](Scenario& s) { s.policy.avoid_links = {LinkId(1)}; }, "knows no links to avoid");
  refused(
      square, [](Scenario& s) { s.collectives[0].required_bps = 1; },
      "collective 0 (broadcast): the policy \"square\" knows no required rate");
  refused(
      square, [](Scenario& s) { s.collectives[0].max_latency.assign(3, 1ms); },
      "collective 0 (broadcast): the policy \"square\" knows no bound on latency");
}

TEST_CASE("scenarios made in code are checked for the values that the policy exact takes") {
  const Scenario fair = *parse(exact_broadcast("", ""));
  refused(
      fair, [](Scenario& s) { s.policy.gap = kNan; }, "policy.gap: must be from 0 to below 1, not nan");
  refused(
      fair, [](Scenario& s) { s.policy.gap = 1; }, "policy.gap");
  refused(
      fair, [](Scenario& s) { s.policy.deadline_seconds = kNan; },
      "policy.deadline_seconds: must be above 0");
  refused(
      fair, [](Scenario& s) { s.policy.deadline_seconds = 0; }, "policy.deadline_seconds: must be above 0");
  refused(
      fair, [](Scenario& s) { s.policy.max_streams = kMaxSessionStreams + 1; }, "policy.max_streams");
  refused(
      fair, [](Scenario& s) { s.policy.budget_usd_per_hour = kNan; }, "policy.budget_usd_per_hour: must be");
  refused(
      fair, [](Scenario& s) { s.policy.budget_usd_per_hour = -1; }, "policy.budget_usd_per_hour: must be");
  refused(
      fair, [](Scenario& s) { s.policy.headroom = kNan; }, "policy.headroom: must be 0 or above");
  refused(
      fair, [](Scenario& s) { s.policy.headroom = -1; }, "policy.headroom: must be 0 or above");
  refused(
      fair, [](Scenario& s) { s.policy.avoid_nodes = {NodeId(3)}; }, "policy.avoid_nodes: 3 is not a node");
  refused(
      fair, [](Scenario& s) { s.policy.avoid_links = {LinkId(6)}; }, "policy.avoid_links: 6 is not a link");
  refused(
      fair, [](Scenario& s) { s.collectives[0].required_bps = 1; },
      "collective 0 (broadcast): a required rate is for objective \"cost\"");
  refused(
      fair, [](Scenario& s) { s.collectives[0].max_latency.assign(2, 1ms); },
      "collective 0 (broadcast): there are 2 bounds on latency for 3 members");
  refused(
      fair,
      [](Scenario& s) {
        s.collectives[0].max_latency = {1ms, 1ms, 0ms};
      },
      "collective 0 (broadcast): a bound on latency must be above 0");
}

TEST_CASE("scenarios made in code are checked for what the least cost needs") {
  const Scenario cost = *parse(exact_broadcast("objective = 'cost'", "required_mbps = 1"));
  refused(
      cost, [](Scenario& s) { s.collectives[0].required_bps.reset(); },
      "collective 0 (broadcast): objective \"cost\" needs a required rate");
  refused(
      cost, [](Scenario& s) { s.collectives[0].required_bps = 0; }, "the required rate must be above 0");
  refused(
      cost, [](Scenario& s) { s.collectives[0].required_bps = kNan; }, "the required rate must be above 0");
  refused(
      cost, [](Scenario& s) { s.policy.budget_usd_per_hour = 1; },
      "policy.budget_usd_per_hour: is for objective = \"fair\"");
}
