// Who is to reach whom, without the coordinator.
#include "controller/attendance.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <set>

#include "controller/recorded_line.h"

using namespace square;
using namespace square::controller;
using square::test::hello_of;
using square::test::RecordedLine;

namespace {

std::vector<Attendant> attendance_of(Members& members, const Topology& topology) {
  return take_attendance(members, topology, false, [](const std::string&) { return false; });
}

void join_as(Members& members, const std::string& name) {
  members.join(hello_of(name, 1, name + ":1"), std::make_shared<RecordedLine>(), {});
}

}  // namespace

TEST_CASE("attendance: nodes are to reach the neighbours that are there") {
  Topology topology;
  for (const char* const name : {"a", "b", "c"}) REQUIRE(topology.add_node({.name = name}).is_ok());
  REQUIRE(topology.add_link("a", "b", {}).is_ok());
  REQUIRE(topology.add_link("a", "c", {}).is_ok());
  REQUIRE(topology.add_link("b", "a", {}).is_ok());
  Members members(std::chrono::seconds(2));
  join_as(members, "a");
  join_as(members, "b");
  const auto nodes = attendance_of(members, topology);
  REQUIRE(nodes.size() == 3);
  CHECK(nodes[0].address == "a:1");
  CHECK(nodes[0].peers == std::vector<std::string>{"b"});
  CHECK(nodes[1].peers == std::vector<std::string>{"a"});
  CHECK(nodes[2].line == nullptr);
  CHECK(nodes[2].peers.empty());
}

TEST_CASE("attendance: of many neighbours each node has some, and each is some node's") {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kMaxPeers + 20; ++i) names.push_back(fmt::format("n{}", i));
  const auto topology = full_mesh(names, {});
  REQUIRE(topology.is_ok());
  Members members(std::chrono::seconds(2));
  for (const std::string& name : names) join_as(members, name);
  std::set<std::string> asked;
  for (const Attendant& node : attendance_of(members, *topology)) {
    CHECK(node.peers.size() == kMaxPeers);
    asked.insert(node.peers.begin(), node.peers.end());
  }
  CHECK(asked.size() == names.size());
}

TEST_CASE(
    "attendance: who joined and is in no topology yet is to reach everybody, and everybody is to reach it") {
  const std::vector<std::string> names = {"a", "b", "left"};
  auto topology = full_mesh(names, {});
  REQUIRE(topology.is_ok());
  Members members(std::chrono::seconds(2));
  for (const char* const name : {"a", "b", "new", "back"}) join_as(members, name);
  REQUIRE(topology->add_node({.name = "back"}).is_ok());
  const auto is_gone = [](const std::string& name) { return name == "back"; };
  const auto nodes = take_attendance(members, *topology, true, is_gone);
  REQUIRE(nodes.size() == 5);
  CHECK(nodes[0].peers == std::vector<std::string>{"b", "back", "new"});
  CHECK(nodes[2].peers.empty());
  CHECK(nodes[3].peers == std::vector<std::string>{"a", "b", "new"});
  CHECK(nodes[4].peers == std::vector<std::string>{"a", "b", "back"});
  CHECK(take_attendance(members, *topology, false, is_gone)[4].peers.empty());
}
