// Links that nodes report as broken, and nodes that nobody hears.
#include "controller/link_reports.h"

#include <doctest/doctest.h>

#include "controller/protocol.h"
#include "controller/recorded_line.h"

using namespace square;
using namespace square::controller;
using namespace std::chrono_literals;
using square::test::hello_of;
using square::test::RecordedLine;

namespace {

using Links = std::set<LinkName>;

PlanningState state_of(const std::vector<std::string>& names, const Topology& topology) {
  Scenario scenario;
  scenario.topology = topology;
  PlanningState state{"", scenario.topology, {}, {}, GroupRegistry(scenario), {}};
  REQUIRE(state.registry.add({"g", "alice", names, {{CollectiveOp::kAllReduce, Rank(0), 1.0, 0}}}, topology)
              .is_ok());
  return state;
}

struct Stage {
  explicit Stage(const std::vector<std::string>& group = {"a", "b", "c"},
                 const std::vector<std::string>& names = {"a", "b", "c", "d"})
      : state(state_of(group, *full_mesh(names, {}))) {
    for (const std::string& name : names) join(name);
  }
  void join(const std::string& name) {
    lines[name] = std::make_shared<RecordedLine>();
    members.join(hello_of(name, 1, "x:1"), lines[name], now);
    reports.note_heard(name, now);
  }
  Urgency urgency_of(const std::string& tail, const std::vector<std::string>& peers) {
    v1::BrokenLinks report;
    *report.mutable_peers() = {peers.begin(), peers.end()};
    return reports.note(tail, report, members, now);
  }
  bool report(const std::string& tail, const std::vector<std::string>& peers) {
    return urgency_of(tail, peers) != Urgency::kNone;
  }
  bool say(const std::string& node) {
    members.hear(node, lines.at(node).get(), now);
    return reports.note_heard(node, now);
  }
  // All others say something once a second.
  void pass(Duration time, const std::string& silent = "") {
    for (const Members::TimePoint end = now + time; now < end;) {
      now += 50ms;
      reports.fade(members, now);
      if ((now.time_since_epoch() % 1s).count() != 0) continue;
      for (const auto& [name, line] : lines) {
        if (name != silent) say(name);
      }
    }
  }

  Members::TimePoint now{1h};
  Members members{1h};
  std::map<std::string, std::shared_ptr<RecordedLine>> lines;
  LinkReports reports;
  PlanningState state;
};

}  // namespace

TEST_CASE("what is said of a node that has not joined counts when it has, and is not well by then") {
  Stage stage({"a", "b", "c"}, {"a", "b", "c"});
  CHECK_FALSE(stage.report("a", {"d", std::string(kMaxNodeNameBytes + 1, 'd')}));
  CHECK_FALSE(stage.reports.absorb(stage.state));
  stage.state = state_of({"a", "b", "c"}, *full_mesh(std::vector<std::string>{"a", "b", "c", "d"}, {}));
  stage.join("d");
  stage.pass(kRecovery);
  REQUIRE(stage.reports.absorb(stage.state));
  CHECK(stage.state.avoided_links() == Links{{"a", "d"}});
}

TEST_CASE("a link that breaks again and again is left out for longer each time") {
  Stage stage;
  const auto breaks_for = [&](Duration least) {
    stage.report("a", {"d"});
    stage.reports.absorb(stage.state);
    CHECK(stage.state.avoided_links() == Links{{"a", "d"}});
    stage.report("a", {});
    const Members::TimePoint well = stage.now;
    while (stage.now - well < 2 * kLongestHold && !stage.state.avoided_links().empty()) {
      stage.pass(50ms);
      stage.reports.absorb(stage.state);
    }
    CHECK(stage.now - well >= least);
    CHECK(stage.now - well <= least + 100ms);
  };
  breaks_for(0s);
  breaks_for(kFirstHold);
  breaks_for(2 * kFirstHold);
  breaks_for(4 * kFirstHold);
  breaks_for(kLongestHold);
  // Another process at that name has a new beginning, and so has a link that held for long.
  stage.reports.forget("d");
  stage.join("d");
  breaks_for(0s);
  breaks_for(kFirstHold);
  stage.pass(kFlapMemory);
  breaks_for(0s);
}

TEST_CASE("a broken link is left out of the plan while its head is heard, until its tail takes that back") {
  Stage stage;
  stage.pass(2s);
  CHECK_FALSE(stage.reports.absorb(stage.state));
  CHECK(stage.report("a", {"b"}));
  CHECK_FALSE(stage.report("a", {"b"}));
  REQUIRE(stage.reports.absorb(stage.state));
  CHECK_FALSE(stage.reports.absorb(stage.state));
  CHECK(stage.state.avoided_links() == Links{{"a", "b"}});
  const Scenario planned = stage.state.scenario();
  const auto id = [&](const std::string& name) { return *planned.topology.find_node(name); };
  CHECK(planned.topology.node_count() == 4);
  CHECK_FALSE(planned.topology.find_link(id("a"), id("b")));
  CHECK(planned.topology.find_link(id("b"), id("a")));
  CHECK(stage.state.whole_scenario().topology.link_count() == 12);
  CHECK(stage.reports.note_published(stage.state, false));
  CHECK_FALSE(stage.reports.note_published(stage.state, false));

  CHECK(stage.report("a", {"d"}));
  CHECK(stage.reports.absorb(stage.state));
  CHECK(stage.state.avoided_links() == Links{{"a", "d"}});
  CHECK(stage.report("a", {}));
  CHECK(stage.reports.absorb(stage.state));
  CHECK(stage.state.scenario().topology.link_count() == 12);
  CHECK_FALSE(stage.reports.note_published(stage.state, false));
  CHECK(stage.reports.next_end(Members::TimePoint::max()) == Members::TimePoint::max());
}

TEST_CASE("a link to who has not been heard for long waits for its next word") {
  Stage stage;
  stage.pass(2s);
  stage.pass(1200ms, "b");
  CHECK(stage.report("a", {"b"}));
  CHECK_FALSE(stage.reports.absorb(stage.state));
  CHECK(stage.reports.next_end(Members::TimePoint::max()) == stage.now + kNextWord);
  stage.pass(100ms, "b");
  CHECK(stage.say("b"));
  REQUIRE(stage.reports.absorb(stage.state));
  CHECK(stage.state.avoided_links() == Links{{"a", "b"}});
  CHECK(stage.state.silent.empty());
}

TEST_CASE(
    "who is silent on all its lines relays nothing, is not waited for, and is used again once it is heard") {
  Stage stage;
  stage.pass(2s);
  stage.pass(1200ms, "d");
  CHECK(stage.report("a", {"d"}));
  stage.pass(kNextWord, "d");
  REQUIRE(stage.reports.absorb(stage.state));
  CHECK(stage.state.silent == std::set<std::string>{"d"});
  CHECK(stage.state.left_out() == std::set<std::string>{"d"});
  CHECK(stage.state.avoided_links().empty());
  CHECK(stage.members.find("d")->is_silent);
  // Further reports say nothing new.
  stage.report("b", {"d"});
  CHECK_FALSE(stage.reports.absorb(stage.state));

  // It speaks: its neighbours will find its links well in a moment.
  CHECK_FALSE(stage.say("d"));
  CHECK_FALSE(stage.members.find("d")->is_silent);
  CHECK_FALSE(stage.reports.absorb(stage.state));
  stage.report("a", {});
  CHECK_FALSE(stage.reports.absorb(stage.state));
  stage.report("b", {});
  CHECK(stage.reports.absorb(stage.state));
  CHECK(stage.state.silent.empty());
}

TEST_CASE("links that stay broken when a silent node speaks again are broken links") {
  Stage stage;
  stage.pass(2s);
  stage.pass(1200ms, "d");
  stage.report("a", {"d"});
  stage.pass(kNextWord + 1s, "d");
  REQUIRE(stage.reports.absorb(stage.state));
  stage.pass(kRecovery + 2s);
  REQUIRE(stage.reports.absorb(stage.state));
  CHECK(stage.state.silent.empty());
  CHECK(stage.state.avoided_links() == Links{{"a", "d"}});
}

TEST_CASE("a node that is not connected has no broken links, and one that left neither") {
  Stage stage;
  stage.pass(2s);
  stage.report("a", {"d"});
  REQUIRE(stage.reports.absorb(stage.state));
  stage.members.lose("d", stage.lines["d"].get(), stage.now);
  stage.reports.note_lost("d");
  stage.report("b", {"d"});
  CHECK(stage.reports.absorb(stage.state));
  CHECK(stage.state.avoided_links().empty());
  CHECK(stage.state.silent.empty());
  stage.join("d");
  stage.report("a", {});
  stage.report("b", {});
  CHECK_FALSE((stage.reports.absorb(stage.state) && !stage.state.avoided_links().empty()));

  stage.report("a", {"d"});
  stage.reports.absorb(stage.state);
  CHECK(stage.reports.forget("a"));
  stage.reports.absorb(stage.state);
  CHECK(stage.state.broken.empty());
  stage.report("b", {"d"});
  CHECK(stage.reports.forget("d"));
  CHECK_FALSE(stage.reports.forget("d"));
  CHECK_FALSE(stage.report("b", {"b", "nobody"}));
}

TEST_CASE("a broken link that members have no way around stays, whatever others avoid") {
  Stage stage;
  stage.pass(2s);
  // Nothing comes to c: it is a member.
  for (const std::string tail : {"a", "b", "d"}) stage.report(tail, {"c"});
  CHECK_FALSE(stage.reports.absorb(stage.state));
  CHECK(stage.state.avoided_links().empty());
  // Nothing comes to d: it is none. But a -> b has ways around.
  for (const std::string tail : {"a", "b", "c"})
    stage.report(tail, tail == "a" ? std::vector<std::string>{"b", "d"} : std::vector<std::string>{"d"});
  stage.report("d", {});
  CHECK(stage.reports.absorb(stage.state));
  CHECK(stage.state.avoided_links() == Links{{"a", "b"}, {"a", "d"}, {"b", "d"}, {"c", "d"}});
}

TEST_CASE("ways around broken links, in a chain") {
  // a <-> r <-> s <-> b, and r -> t -> s.
  Scenario scenario;
  for (const std::string name : {"a", "r", "s", "b", "t"})
    REQUIRE(scenario.topology.add_node({name}).is_ok());
  for (const auto& [from, to] :
       {std::pair("a", "r"), std::pair("r", "s"), std::pair("s", "b"), std::pair("b", "s"),
        std::pair("s", "r"), std::pair("r", "a"), std::pair("r", "t"), std::pair("t", "s")}) {
    REQUIRE(scenario.topology.add_link(from, to, {}).is_ok());
  }
  const auto planned = [&](const std::vector<std::string>& names, const Links& broken) {
    return detoured(state_of(names, scenario.topology).whole_scenario(), broken);
  };
  CHECK(planned({"a", "b"}, {{"r", "s"}}) == Links{{"r", "s"}});
  CHECK(planned({"a", "b"}, {{"s", "r"}}).empty());
  // Either would do; both are had, for nothing says which is better.
  CHECK(planned({"a", "b"}, {{"r", "s"}, {"t", "s"}}).empty());
  CHECK(planned({"a", "r"}, {{"r", "s"}, {"t", "s"}, {"s", "b"}}) ==
        Links{{"r", "s"}, {"t", "s"}, {"s", "b"}});
  // Several on one way.
  CHECK(planned({"a", "b"}, {{"a", "r"}, {"s", "b"}, {"r", "s"}}) == Links{{"r", "s"}});
  CHECK(planned({"a", "b"}, {{"a", "nobody"}, {"a", "b"}}).empty());
}

TEST_CASE("a link that breaks is planned around at once, and the next time in a minute when there is time") {
  Stage stage;
  CHECK(stage.urgency_of("a", {"b"}) == Urgency::kAtOnce);
  CHECK(stage.urgency_of("a", {"b"}) == Urgency::kNone);
  stage.urgency_of("a", {});
  stage.pass(1s);
  CHECK(stage.urgency_of("a", {"b"}) == Urgency::kCanWait);
  CHECK(stage.urgency_of("a", {"b", "c"}) == Urgency::kAtOnce);
  stage.urgency_of("a", {});
  stage.pass(2 * kFlapMemory);
  CHECK(stage.urgency_of("a", {"b"}) == Urgency::kAtOnce);
}

TEST_CASE("links to nobody are none") {
  Stage stage;
  v1::BrokenLinks report;
  for (const char* const peer : {"made up", "b", "arriving", "d"}) report.add_peers(peer);
  stage.members.leave("d", "it left");
  stage.join("arriving");
  const v1::BrokenLinks known = known_of(report, stage.members, stage.state.topology);
  CHECK(std::vector<std::string>(known.peers().begin(), known.peers().end()) ==
        std::vector<std::string>{"b", "arriving", "d"});
}

TEST_CASE("a relay that loses blocks is left out until all who said so take that back") {
  Stage stage({"a", "b", "c"}, {"a", "b", "c", "d"});
  const auto report = [&](const std::string& node, bool loses, bool is_way = false) {
    v1::BrokenLinks told;
    if (loses) {
      told.add_lossy()->set_relay("d");
      told.mutable_lossy(0)->set_is_way(is_way);
    }
    return stage.reports.note(node, told, stage.members, stage.now);
  };
  CHECK(report("a", true) == Urgency::kAtOnce);
  CHECK(report("a", true) == Urgency::kNone);
  REQUIRE(stage.reports.absorb(stage.state));
  CHECK(stage.state.left_out() == std::set<std::string>{"d"});
  CHECK(report("b", true) == Urgency::kAtOnce);
  CHECK(report("a", false) == Urgency::kCanWait);
  CHECK_FALSE(stage.reports.absorb(stage.state));
  CHECK(stage.state.left_out() == std::set<std::string>{"d"});
  CHECK(report("b", false) == Urgency::kCanWait);
  REQUIRE(stage.reports.absorb(stage.state));
  CHECK(stage.state.left_out().empty());
  // The way that begins there: only the links between the two.
  report("a", true, true);
  REQUIRE(stage.reports.absorb(stage.state));
  CHECK(stage.state.left_out().empty());
  CHECK(stage.state.avoided_links() == Links{{"a", "d"}, {"d", "a"}});
  stage.reports.forget("a");
  REQUIRE(stage.reports.absorb(stage.state));
  CHECK(stage.state.avoided_links().empty());
}

TEST_CASE("a relay that others cannot reach is left out") {
  Stage stage({"a", "b", "c"}, {"a", "b", "c", "d"});
  REQUIRE(stage.reports.absorb(stage.state, {"d"}));
  CHECK(stage.state.left_out() == std::set<std::string>{"d"});
  REQUIRE(stage.reports.absorb(stage.state));
  CHECK(stage.state.left_out().empty());
}
