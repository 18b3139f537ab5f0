// Who is gone, when nodes say that another one's host refuses them.
#include "controller/refused_nodes.h"

#include <doctest/doctest.h>

#include "controller/recorded_line.h"

using namespace square;
using namespace square::controller;
using namespace std::chrono_literals;
using square::test::hello_of;
using square::test::RecordedLine;

namespace {

using Gone = std::vector<std::pair<std::string, std::string>>;
using Names = std::vector<std::string>;

struct Stage {
  explicit Stage(const Names& names) {
    for (const std::string& name : names) {
      lines[name] = std::make_shared<RecordedLine>();
      members.join(hello_of(name, 1, name + ":1"), lines[name], now);
    }
    for (const std::string& name : names) beat(name, names);
  }
  void beat(const std::string& node, const Names& hears) {
    v1::Heartbeat heartbeat;
    for (const std::string& peer : hears) {
      if (peer != node) heartbeat.add_heard(peer);
    }
    members.hear(node, lines.at(node).get(), now);
    members.note(node, heartbeat, now);
  }
  void lose(const std::string& node) { members.lose(node, lines.at(node).get(), now); }
  void refuse(const std::string& reporter, const Names& nodes, bool is_heard = false) {
    v1::BrokenLinks report;
    for (const std::string& node : nodes) {
      report.add_refused()->set_peer(node);
      report.mutable_refused()->rbegin()->set_is_heard(is_heard);
    }
    members.hear(reporter, lines.at(reporter).get(), now);
    refused.note(reporter, report, members, now);
  }
  Gone gone() {
    Gone found;
    for (const auto& [node, address, since] : refused.find_gone(members, now)) {
      CHECK(since <= now);
      found.emplace_back(node, address);
    }
    return found;
  }
  Names asked(const std::string& node) {
    Names names;
    for (const auto& [asker, about] : refused.take_questions(members, now)) {
      CHECK(about == node);
      names.push_back(asker);
    }
    return names;
  }

  Members::TimePoint now{1h};
  Members members{10s};
  std::map<std::string, std::shared_ptr<RecordedLine>> lines;
  RefusedNodes refused;
};

}  // namespace

TEST_CASE("refused: a node whose line is up is not gone, whoever is refused") {
  Stage stage({"a", "b", "c"});
  for (const std::string node : {"a", "b"}) stage.refuse(node, {"c"});
  stage.now += kLongestRefusal;
  CHECK(stage.gone().empty());
  CHECK(stage.asked("c").empty());
  CHECK(stage.refused.unreachable(stage.members) == std::set<std::string>{"c"});
  stage.refuse("a", {});
  CHECK(stage.refused.unreachable(stage.members).empty());
}

TEST_CASE("refused: two that are refused are enough, once nobody hears the node") {
  Stage stage({"a", "b", "c", "d"});
  stage.lose("d");
  stage.refuse("a", {"d"});
  CHECK(stage.gone().empty());
  stage.refuse("b", {"d"});
  CHECK(stage.gone().empty());  // c has said that it hears it
  stage.beat("c", {"a", "b", "d"});
  CHECK(stage.gone().empty());
  stage.beat("c", {"a", "b"});
  CHECK(stage.gone() == Gone{{"d", "d:1"}});
  stage.refused.forget("d");
  CHECK(stage.gone().empty());
}

TEST_CASE(
    "refused: one that hears it over a link that it has opened counts, and a word that is old does not") {
  Stage stage({"a", "b", "c", "d"});
  stage.lose("d");
  stage.refuse("a", {"d"});
  stage.refuse("b", {"d"});
  stage.refuse("c", {"d"}, true);
  CHECK(stage.gone().empty());
  stage.now += kFreshWord + 1ms;
  for (const std::string node : {"a", "b"}) stage.beat(node, {"c"});
  CHECK(stage.gone() == Gone{{"d", "d:1"}});
}

TEST_CASE("refused: others are asked once, and where nobody can say anything three seconds must pass") {
  Stage stage({"a", "b", "c", "d", "e", "f"});
  stage.lose("f");
  for (const std::string node : {"b", "c", "d", "e"}) stage.beat(node, {});
  stage.refuse("a", {"f"});
  CHECK(stage.asked("f") == Names{"b", "c", "d"});
  CHECK(stage.asked("f").empty());
  CHECK(stage.refused.next_end(stage.members, stage.now, stage.now + 1h) == stage.now + kJudgeAgain);
  stage.now += kLongestRefusal - 1ms;
  CHECK(stage.gone().empty());
  stage.now += 1ms;
  CHECK(stage.gone() == Gone{{"f", "f:1"}});
}

TEST_CASE("refused: of two nodes the other is gone after three seconds, this process's own look included") {
  for (const bool is_own : {false, true}) {
    Stage stage({"a", "b"});
    stage.lose("b");
    stage.beat("a", {});
    if (is_own) stage.refused.note_own("b", stage.members, stage.now);
    if (!is_own) stage.refuse("a", {"b"});
    CHECK(stage.gone().empty());
    stage.now += kLongestRefusal;
    CHECK(stage.gone() == Gone{{"b", "b:1"}});
    // It comes back: what was seen before counts no more.
    stage.members.join(hello_of("b", 1, "b:1"), stage.lines["b"], stage.now);
    CHECK(stage.gone().empty());
    if (!is_own) continue;
    stage.lose("b");
    CHECK(stage.gone().empty());
  }
}
