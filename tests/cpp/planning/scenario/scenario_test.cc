#include <doctest/doctest.h>

#include <cmath>
#include <fstream>

#include "planning/scenario/texts.h"

using namespace square;
using namespace square::testing;
using namespace std::chrono_literals;

namespace {

std::string collective(const std::string& lines) { return kMesh + "[[collective]]\n" + lines; }

const LinkProperties& between(const Scenario& scenario, std::string_view from, std::string_view to) {
  const Topology& topology = scenario.topology;
  const auto tail = topology.find_node(from);
  const auto head = topology.find_node(to);
  REQUIRE(tail.has_value());
  REQUIRE(head.has_value());
  const auto link = topology.find_link(*tail, *head);
  REQUIRE(link.has_value());
  return topology.link(*link).properties;
}

struct BadInput {
  std::string text;
  std::string expected;
};

void check_all_refused(const std::vector<BadInput>& inputs) {
  for (const BadInput& input : inputs) check_refused(input.text, input.expected);
}

const std::string kEveryKey = R"(
name = "everything"
[overlay]
capacity_mbps = 10
[[overlay.node]]
name = "fra"
egress_mbps = 5000
ingress_mbps = 6000
[[overlay.node]]
name = "sfo"
[[overlay.link]]
from = "fra"
to = "sfo"
capacity_mbps = 20
latency_ms = 75
price_usd_per_gb = 0.02
[[overlay.link]]
from = "sfo"
to = "fra"
[policy]
name = "max-throughput"
shots = 5
paths = "widest:7"
fairness = "tenant"
[[tenant]]
name = "alice"
weight = 2.0
[[tenant]]
name = "idle"
[[collective]]
tenant = "alice"
weight = 3
op = "broadcast"
root = "sfo"
members = ["fra", "sfo"]
bytes = 12500000
[[collective]]
tenant = "bob"
op = "all_reduce"
algorithm = "ring"
members = "all"
bytes = 0
)";

}  // namespace

TEST_CASE("a scenario with every key") {
  const auto scenario = parse(kEveryKey);

  REQUIRE_MESSAGE(scenario.is_ok(), scenario.status().message());
  CHECK(scenario->name == "everything");
  CHECK(scenario->topology.node(NodeId(0)).egress_bps == 5e9);
  CHECK(scenario->topology.node(NodeId(0)).ingress_bps == 6e9);
  CHECK(scenario->topology.node(NodeId(1)).egress_bps == kUnlimited);
  CHECK(between(*scenario, "fra", "sfo").capacity_bps == 20e6);
  CHECK(between(*scenario, "fra", "sfo").latency == 75ms);
  CHECK(between(*scenario, "fra", "sfo").price_usd_per_gb == 0.02);
  CHECK(between(*scenario, "sfo", "fra").capacity_bps == 10e6);
  CHECK(scenario->policy.name == "max-throughput");
  CHECK(scenario->policy.shots == 5);
  CHECK(scenario->policy.paths == PathChoice{PathKind::kWidest, 7});
  CHECK(scenario->policy.fairness == Fairness::kTenant);
  REQUIRE(scenario->tenants.size() == 3);
  CHECK(scenario->tenants[0].weight == 2.0);
  CHECK(scenario->tenants[1].name == "idle");
  CHECK(scenario->tenants[2].name == "bob");
  CHECK(scenario->tenants[2].weight == 1.0);
  REQUIRE(scenario->collectives.size() == 2);
  const CollectiveSpec& first = scenario->collectives[0];
  CHECK(first.id == CollectiveId(0));
  CHECK(first.tenant == "alice");
  CHECK(first.weight == 3.0);
  CHECK(first.op == CollectiveOp::kBroadcast);
  CHECK(first.root == NodeId(1));
  CHECK(first.members == std::vector{NodeId(0), NodeId(1)});
  CHECK(first.size_bytes == 12'500'000);
  const CollectiveSpec& second = scenario->collectives[1];
  CHECK(second.id == CollectiveId(1));
  CHECK(second.algorithm == AllReduceAlgorithm::kRing);
  CHECK(second.members.size() == 2);
  CHECK(second.size_bytes == 0);
}

TEST_CASE("what is left out has a default") {
  const auto scenario =
      parse_scenario("[[overlay.link]]\nfrom = 'a'\nto = 'b'\n", "folder/pair.toml", "folder");
  REQUIRE_MESSAGE(scenario.is_ok(), scenario.status().message());
  CHECK(scenario->name == "pair");
  CHECK(scenario->topology.node_count() == 2);
  CHECK(between(*scenario, "a", "b").capacity_bps == kUnlimited);
  CHECK(scenario->policy.name == "exact");
  CHECK(scenario->policy.shots == 3);
  CHECK(scenario->policy.paths == PathChoice{});
  CHECK(scenario->policy.fairness == Fairness::kTenant);
  CHECK(scenario->collectives.empty());
  const auto defaults = parse(collective("tenant='x'\nop='all_gather'\nbytes=1"));
  REQUIRE(defaults.is_ok());
  CHECK(defaults->collectives[0].members.size() == 3);
  CHECK(defaults->collectives[0].weight == 1.0);
  CHECK(defaults->collectives[0].algorithm == AllReduceAlgorithm::kPlanned);
}

TEST_CASE("members keep the order of their list: it is that of the ranks") {
  const auto scenario = parse(collective("tenant='x'\nop='reduce'\nroot='b'\nmembers=['c','b']\nbytes=8"));
  REQUIRE(scenario.is_ok());
  CHECK(scenario->collectives[0].members == std::vector{NodeId(2), NodeId(1)});
}

TEST_CASE("a topology file, changed and extended in the scenario") {
  const auto folder = std::filesystem::temp_directory_path() / "square_scenario_test";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "net.csv") << "from,to,capacity_mbps,latency_ms\na,b,5,7\nb,a,,7\nb,c,,\n";
  const auto write = [&](const std::string& text) {
    std::ofstream(folder / "s.toml") << "[overlay]\ntopology = 'net.csv'\n" << text;
    return read_scenario(folder / "s.toml");
  };
  const auto scenario = write(R"(capacity_mbps = 100
[[overlay.node]]
name = "a"
egress_mbps = 50
[[overlay.node]]
name = "d"
[[overlay.link]]
from = "a"
to = "b"
capacity_mbps = 6
[[overlay.link]]
from = "c"
to = "d"
)");
  REQUIRE_MESSAGE(scenario.is_ok(), scenario.status().message());
  CHECK(scenario->name == "s");
  CHECK(scenario->topology.node_count() == 4);
  CHECK(scenario->topology.link_count() == 4);
  CHECK(scenario->topology.node(NodeId(0)).egress_bps == 50e6);
  CHECK(between(*scenario, "a", "b").capacity_bps == 6e6);  // in place of the file's, not on top of it
  CHECK(between(*scenario, "a", "b").latency == 7ms);       // what the table leaves out stays
  CHECK(between(*scenario, "b", "a").capacity_bps == 100e6);
  CHECK(between(*scenario, "c", "d").capacity_bps == 100e6);

  const auto drawn = write("capacity_mbps = { mean = 10, stddev = 1, seed = 7 }\n");
  REQUIRE(drawn.is_ok());
  CHECK(between(*drawn, "a", "b").capacity_bps == 5e6);
  CHECK(between(*drawn, "b", "a").capacity_bps == doctest::Approx(10503233.91494218));
  const auto all_drawn = write("capacity_mbps = { mean = 10, stddev = 1, seed = 7, override = true }\n");
  REQUIRE(all_drawn.is_ok());
  CHECK(between(*all_drawn, "a", "b").capacity_bps == doctest::Approx(10503233.91494218));

  const auto unknown = write("[[overlay.link]]\nfrom = 'a'\nto = 'zz'\n");
  CHECK(unknown.status().message().find("s.toml:5: overlay.link.to: unknown node \"zz\"") !=
        std::string::npos);
  const auto twice = write("[[overlay.link]]\nfrom='a'\nto='b'\n[[overlay.link]]\nfrom='a'\nto='b'\n");
  CHECK(twice.status().message().find("two tables for the same link") != std::string::npos);
  std::ofstream(folder / "net.csv") << "from,to,capacity_mbps\na,b,0\n";
  const std::string broken = write("").status().message();
  CHECK(broken.find("s.toml:2: overlay.topology: ") != std::string::npos);
  CHECK(broken.find("net.csv:2: capacity_mbps") != std::string::npos);
  std::filesystem::remove_all(folder);
  CHECK(read_scenario(folder / "s.toml").status().code() == StatusCode::kNotFound);
  CHECK(parse("[overlay]\ntopology = 'no_such.gml'").status().code() == StatusCode::kNotFound);
}

TEST_CASE("mistakes in the overlay are named with file, line and key") {
  check_all_refused({
      {"[overlay", "demo.toml:1:"},
      {"", "demo.toml:1: overlay: is missing"},
      {"[overlay]", "demo.toml:1: overlay: has no nodes"},
      {"overlay = 3", "demo.toml:1: overlay: must be a table, not a whole number"},
      {kMesh + "[polcy]\n", "demo.toml:4: polcy: unknown key; the nearest known one is \"policy\""},
      {"name = 4\n" + kMesh, "demo.toml:1: name: must be a text"},
      {"name = ''\n" + kMesh, "demo.toml:1: name: must not be empty"},
      {"[overlay]\nmesh = ['a']\ntopology = 'x.gml'", "demo.toml:2: overlay.mesh: leave out either"},
      {"[overlay]\nmesh = []", "overlay.mesh: must not be empty"},
      {"[overlay]\nmesh = ['a', 'a']", "overlay.mesh: there are two nodes with the name \"a\""},
      {"[overlay]\nmesh = ['a', 1]", "overlay.mesh: must be a list of texts, but holds a whole number"},
      {"[overlay]\nmesh = 'a'", "overlay.mesh: must be a list of texts, not a text"},
      {"[overlay]\nmesh = ['a','b']\ncapacity_mpbs = 1",
       "overlay.capacity_mpbs: unknown key; the nearest known one is \"capacity_mbps\""},
      {"[overlay]\nmesh = ['a','b']\ncapacity_mbps = 0",
       "demo.toml:3: overlay.capacity_mbps: must be above 0 and finite, not 0"},
      {"[overlay]\nmesh = ['a','b']\ncapacity_mbps = -4.5",
       "overlay.capacity_mbps: must be above 0 and finite, not -4.5"},
      {"[overlay]\nmesh = ['a','b']\ncapacity_mbps = nan", "overlay.capacity_mbps: must be above 0"},
      {"[overlay]\nmesh = ['a','b']\ncapacity_mbps = inf", "overlay.capacity_mbps: must be above 0"},
      {"[overlay]\nmesh = ['a','b']\ncapacity_mbps = '10'",
       "overlay.capacity_mbps: must be a number or a table"},
      {"[overlay]\nmesh = ['a','b']\ncapacity_mbps = { stddev = 1 }",
       "overlay.capacity_mbps.mean: is missing"},
      {"[overlay]\nmesh = ['a','b']\ncapacity_mbps = { mean = 1, stddev = 2 }",
       "overlay.capacity_mbps: stddev must be from 0 to the mean"},
      {"[overlay]\nmesh = ['a','b']\ncapacity_mbps = { mean = 1, seed = -1 }",
       "overlay.capacity_mbps.seed: must be 0 or above"},
      {"[overlay]\nmesh = ['a','b']\ncapacity_mbps = { mean = 1, override = 1 }",
       "overlay.capacity_mbps.override: must be true or false"},
      {"[overlay]\nmesh = ['a','b']\ncapacity_mbps = { mean = 1, sd = 1 }",
       "overlay.capacity_mbps.sd: unknown key"},
      {"[[overlay.node]]\nname='a'\n[[overlay.node]]\nname='a'",
       "demo.toml:4: overlay.node.name: two tables for the node \"a\""},
      {"[[overlay.node]]\nname='a'\negress_mbps=0", "demo.toml:3: overlay.node.egress_mbps: must be above 0"},
      {"[overlay]\nmesh=['a','b']\n[[overlay.link]]\nfrom='c'\nto='a'",
       "demo.toml:4: overlay.link.from: unknown node \"c\""},
      {"[[overlay.link]]\nfrom='b'", "demo.toml:1: overlay.link.to: is missing"},
      {"[[overlay.link]]\nfrom='b'\nto='b'",
       "demo.toml:3: overlay.link.to: a link must join two different nodes"},
  });
}

TEST_CASE("mistakes in policy and tenants are named") {
  check_all_refused({
      {kMesh + "[policy]\nshots = 0", "demo.toml:5: policy.shots: must be from 1 to 1000, not 0"},
      {kMesh + "[policy]\nshots = 1.5", "policy.shots: must be a whole number, not a number"},
      {kMesh + "[policy]\nname = ''", "policy.name: must not be empty"},
      {kMesh + "[policy]\npaths = 'longest'",
       "policy.paths: unknown kind of paths \"longest\": write one of \"shortest\""},
      {kMesh + "[policy]\npaths = 'shortest:0'",
       "policy.paths: the number of paths is \"0\": write a whole number from 1 to 1000"},
      {kMesh + "[policy]\npaths = 'all:3'", "policy.paths: \"all\" takes no number"},
      {kMesh + "[policy]\npaths = 'all'",
       "demo.toml:5: policy.paths: the policy \"exact\", which plans where none is named, has no paths"},
      {kMesh + "[policy]\nshots = 2", "demo.toml:5: policy.shots: the policy \"exact\""},
      {kMesh + "[policy]\nfairness = 'none'",
       "policy.fairness: unknown fairness \"none\": write one of \"collective\", \"tenant\""},
      {kMesh + "[[tenant]]\nname='x'\n[[tenant]]\nname='x'",
       "demo.toml:7: tenant.name: two tables for the tenant \"x\""},
      {kMesh + "[[tenant]]\nname='x'\nweight=0", "tenant.weight: must be above 0"},
      {kMesh + "[[tenant]]\nweight=1", "demo.toml:4: tenant.name: is missing"},
  });
}

TEST_CASE("mistakes in collectives are named") {
  check_all_refused({
      {collective("op='reduce'"), "demo.toml:4: collective.tenant: is missing"},
      {collective("tenant='x'"), "demo.toml:4: collective.op: is missing"},
      {collective("tenant='x'\nop='allreduce'\nbytes=1"),
       "demo.toml:6: collective.op: unknown operation \"allreduce\": write one of \"broadcast\""},
      {collective("tenant='x'\nop='all_gather'"), "collective.bytes: is missing"},
      {collective("tenant='x'\nop='all_gather'\nbytes=-1"),
       "demo.toml:7: collective.bytes: must be 0 or above, not -1"},
      {collective("tenant='x'\nop='all_gather'\nbytes=1e6"),
       "collective.bytes: must be a whole number, not a number"},
      {collective("tenant='x'\nop='all_gather'\nbytes=1\nweight=-1"), "collective.weight: must be above 0"},
      {collective("tenant='x'\nop='all_gather'\nbytes=1\nmembers=[]"),
       "collective.members: must not be empty"},
      {collective("tenant='x'\nop='all_gather'\nbytes=1\nmembers=['a','a']"),
       "collective.members: two members are the node \"a\""},
      {collective("tenant='x'\nop='all_gather'\nbytes=1\nmembers=['a','z']"),
       "collective.members: unknown node \"z\""},
      {collective("tenant='x'\nop='all_gather'\nbytes=1\nmembers='some'"),
       "collective.members: must be \"all\" or a list of node names, not the text \"some\""},
      {collective("tenant='x'\nop='all_gather'\nbytes=1\nmembers=3"),
       "collective.members: must be a list of texts"},
      {collective("tenant='x'\nop='broadcast'\nbytes=1"),
       "demo.toml:4: collective.root: is missing: broadcast needs one"},
      {collective("tenant='x'\nop='broadcast'\nbytes=1\nroot='z'"), "collective.root: unknown node \"z\""},
      {collective("tenant='x'\nop='broadcast'\nbytes=1\nroot='a'\nmembers=['b','c']"),
       "collective.root: the root \"a\" is not among the members"},
      {collective("tenant='x'\nop='all_reduce'\nbytes=1\nroot='a'"),
       "collective.root: all_reduce has no root"},
      {collective("tenant='x'\nop='all_gather'\nbytes=1\nalgorithm='ring'"),
       "collective.algorithm: \"ring\" is for all_reduce, not for all_gather"},
      {collective("tenant='x'\nop='all_reduce'\nbytes=1\nalgorithm='tree'"),
       "collective.algorithm: unknown algorithm \"tree\""},
      {collective("tenant='x'\nop='all_reduce'\nbytes=1\nmember=['a']"),
       "collective.member: unknown key; the nearest known one is \"members\""},
      {collective("tenant='x'\nop='all_reduce'\nbytes=1\n[collective.more]\nx=1"), "unknown key"},
  });
}

TEST_CASE("a standard deviation for links that have none") {
  const auto scenario = parse(R"([overlay]
capacity_mbps = 10
capacity_stddev_mbps = 2
[[overlay.link]]
from = "a"
to = "b"
capacity_stddev_mbps = 3
[[overlay.link]]
from = "b"
to = "a"
latency_ms = 4
)");
  REQUIRE_MESSAGE(scenario.is_ok(), scenario.status().message());
  CHECK(between(*scenario, "a", "b").capacity_stddev_bps == 3e6);
  CHECK(between(*scenario, "b", "a").capacity_stddev_bps == 2e6);
  CHECK(between(*scenario, "b", "a").capacity_bps == 10e6);
  CHECK(between(*scenario, "b", "a").latency == 4ms);
  const std::string mesh = "[overlay]\nmesh = ['a', 'b']\ncapacity_stddev_mbps = ";
  check_refused(mesh + "-1",
                "demo.toml:3: overlay.capacity_stddev_mbps: must be 0 or above and finite, not -1");
  check_refused(mesh + "nan", "overlay.capacity_stddev_mbps: must be 0 or above and finite, not nan");
  check_refused(mesh + "1e308", "overlay.capacity_stddev_mbps: is too large");
  check_refused(mesh + "'2'", "overlay.capacity_stddev_mbps: must be a number");
}

TEST_CASE("path choices and operations go to words and back") {
  for (const char* text : {"shortest:7", "widest:2", "all", "shortest", "widest", "widest:1000"}) {
    const auto choice = parse_path_choice(text);
    REQUIRE(choice.is_ok());
    CHECK(to_string(*choice) == text);
  }
  for (const char* text : {"", "short", "shortest:", "shortest:x", "shortest:1001", "shortest:-1",
                           "shortest:7 ", "all:", ":3"}) {
    CAPTURE(text);
    CHECK(parse_path_choice(text).status().code() == StatusCode::kInvalidArgument);
  }
  for (const char* text : {"broadcast", "reduce", "all_reduce", "all_gather", "reduce_scatter", "all_to_all",
                           "gather", "scatter"}) {
    CHECK(to_string(*parse_collective_op(text)) == text);
  }
  for (const char* text : {"tenant", "collective"}) CHECK(to_string(*parse_fairness(text)) == text);
  for (const char* text : {"fair", "cost"}) CHECK(to_string(*parse_objective(text)) == text);
}

TEST_CASE("scenarios made in code are checked") {
  const Scenario good = *parse(collective("tenant='x'\nop='broadcast'\nroot='a'\nbytes=1"));
  CHECK(check_scenario(good).is_ok());
  const auto refused = [&](auto change, std::string_view expected) {
    Scenario scenario = good;
    change(scenario);
    const Status status = check_scenario(scenario);
    CAPTURE(expected);
    CHECK(status.code() == StatusCode::kInvalidArgument);
    CHECK_MESSAGE(status.message().find(expected) != std::string::npos, status.message());
  };
  refused([](Scenario& s) { s.tenants.clear(); }, "collective 0 (broadcast): there is no tenant \"x\"");
  refused([](Scenario& s) { s.tenants.push_back({"x", 2}); }, "tenant \"x\": is there twice");
  refused([](Scenario& s) { s.tenants.push_back({"", 2}); }, "a tenant needs a name");
  refused([](Scenario& s) { s.tenants[0].weight = 0; },
          "tenant \"x\": the weight is 0; it must be from 0.0001 to 10000");
  refused([](Scenario& s) { s.collectives[0].weight = kUnlimited; }, "collective 0 (broadcast): the weight");
  refused([](Scenario& s) { s.collectives[0].members.clear(); }, "there are no members");
  refused([](Scenario& s) { s.collectives[0].members.push_back(NodeId(3)); }, "member 3 is not a node");
  refused([](Scenario& s) { s.collectives[0].members.push_back(NodeId(1)); },
          "two members are the node \"b\"");
  refused([](Scenario& s) { s.collectives[0].members = {NodeId(1)}; },
          "the root \"a\" is not among the members");
  refused([](Scenario& s) { s.collectives[0].root = NodeId(8); }, "root 8 is not a node");
  refused([](Scenario& s) { s.collectives.push_back(s.collectives[0]); }, "its id is there twice");
  refused([](Scenario& s) { s.policy.shots = 0; }, "policy.shots");
  refused([](Scenario& s) { s.policy.paths.k = kMaxPaths + 1; }, "policy.paths");
  refused([](Scenario& s) { s.policy.name = ""; }, "policy.name: must not be empty");
  refused([](Scenario& s) { s.policy.name = "best"; }, "policy.name: unknown policy \"best\"");
  refused([](Scenario& s) { s.collectives[0].weight = std::nan(""); },
          "collective 0 (broadcast): the weight");
  refused([](Scenario& s) { s.collectives[0].weight = 1e200; },
          "collective 0 (broadcast): the weight is 1e+200");
  Scenario rootless = good;
  rootless.collectives[0].op = CollectiveOp::kAllReduce;
  rootless.collectives[0].root = NodeId(8);  // means nothing there
  CHECK(check_scenario(rootless).is_ok());
}

TEST_CASE("ids of collectives may have gaps, and one member alone sends nothing") {
  Scenario scenario = *parse(collective("tenant='x'\nop='broadcast'\nroot='a'\nbytes=1"));
  scenario.collectives.push_back(scenario.collectives[0]);
  scenario.collectives[0].id = CollectiveId(9);
  scenario.collectives[1].id = CollectiveId(4);
  scenario.collectives[1].members = {NodeId(0)};
  CHECK(check_scenario(scenario).is_ok());
}
