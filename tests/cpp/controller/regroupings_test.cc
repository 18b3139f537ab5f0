// Which members go on together: the registry, who is there, and time are what the test says they are.
#include "controller/regroupings.h"

#include <doctest/doctest.h>

#include "controller/recorded_line.h"
#include "square/scenario.h"

using namespace square;
using namespace square::controller;
using square::test::hello_of;
using square::test::RecordedLine;

namespace {

constexpr Duration kRegroupingLease = std::chrono::seconds(2);
constexpr Duration kRegroupingPatience = std::chrono::seconds(5);

struct Overlay {
  explicit Overlay(const std::vector<std::string>& nodes, bool has_successors = false) {
    GroupSpec group{"g", "alice", nodes, {}};
    for (const std::string& node : nodes) {
      if (topology.find_node(node)) continue;
      REQUIRE(topology.add_node({node}).is_ok());
      v1::Hello hello = hello_of(node, 1, "here:1");
      if (has_successors) hello.set_successor("there:1");
      lines.push_back(std::make_shared<RecordedLine>());
      members.join(hello, lines.back(), now);
    }
    number = registry.add(group, topology)->number;
  }

  void ask(const std::string& node, const std::vector<Rank>& ranks, std::uint32_t joiners = 0) {
    RegroupReply reply = [this, node](Result<GroupSpec> result) { answers.emplace(node, std::move(result)); };
    REQUIRE(regroupings
                .add({{"g", number, ranks, 0, joiners, {}, allow_minority}, node, now + kRegroupingPatience},
                     reply)
                .is_ok());
  }

  // What is decided is registered, and told.
  void look() {
    Deferred deferred;
    awaited.clear();
    Regroupings::Look found = regroupings.look(registry, members, now, deferred);
    awaited = found.awaited;
    members.give_up(found.given_up);
    for (Regroupings::Decision& decision : found.decisions) {
      const auto made = registry.add(decision.group, topology);
      REQUIRE(made.is_ok());
      registry.note_told(decision.group.name, made->number, {""});
      for (const RegroupReply& reply : decision.replies) reply(decision.group);
    }
    for (const auto& run : deferred) run();
  }

  // Its lease ends, and the others' do not.
  void silence(const std::string& node) {
    now += kRegroupingLease;
    for (const auto& [name, member] : members) {
      if (name != node) members.hear(name, member.line.get(), now);
    }
    Deferred deferred;
    members.look(now);
    for (const std::string& name : members.expire(now, deferred)) CHECK(name == node);
  }

  Members::TimePoint now{std::chrono::hours(1)};
  Topology topology;
  GroupRegistry registry{Scenario()};
  Members members{kRegroupingLease};
  Regroupings regroupings;
  std::vector<std::shared_ptr<RecordedLine>> lines;
  std::uint64_t number = 0;
  bool allow_minority = false;
  std::set<std::string> awaited;
  std::map<std::string, Result<GroupSpec>> answers;
};

}  // namespace

TEST_CASE("regroupings: all are answered at once, and who asks later gets the same") {
  Overlay overlay({"a", "b", "a", "c"});
  overlay.ask("a", {Rank(0), Rank(2)});
  overlay.look();
  CHECK(overlay.awaited == std::set<std::string>{"b", "c"});
  overlay.members.leave("b", "it left");
  overlay.ask("c", {Rank(3)});
  overlay.look();
  REQUIRE(overlay.answers.size() == 2);
  const GroupSpec next = *overlay.answers.at("a");
  CHECK(next.name == "g~1");
  CHECK(next.nodes == std::vector<std::string>{"a", "a", "c"});
  CHECK(next.origin.ranks == std::vector<Rank>{Rank(0), Rank(2), Rank(3)});
  overlay.answers.clear();
  overlay.ask("c", {Rank(3)});  // its answer was lost
  overlay.ask("b", {Rank(1)});  // it was taken for dead
  overlay.look();
  CHECK(overlay.answers.at("c")->name == "g~1");
  CHECK(overlay.answers.at("b").status().code() == StatusCode::kFailedPrecondition);
}

TEST_CASE("regroupings: who is awaited is named when the time is over") {
  Overlay overlay({"a", "b"});
  overlay.ask("a", {Rank(0)});
  overlay.look();
  CHECK(overlay.answers.empty());
  CHECK(overlay.regroupings.next_end(Members::TimePoint::max()) == overlay.now + kRegroupLook);
  overlay.now += kRegroupingPatience;
  overlay.look();
  const Status late = overlay.answers.at("a").status();
  CHECK(late.code() == StatusCode::kDeadlineExceeded);
  CHECK(late.message().find("node \"b\" (rank 1)") != std::string::npos);
  CHECK(overlay.regroupings.is_empty());
}

TEST_CASE("regroupings: another process of the same name does not go on for the one that is gone") {
  Overlay overlay({"a", "b"});
  overlay.ask("b", {Rank(1)});
  overlay.members.leave("b", "another process has its name");
  overlay.registry.miss("g", "b", [](const std::string& name) { return name == "a"; });
  overlay.members.join(hello_of("b", 2, "here:2"), std::make_shared<RecordedLine>(), overlay.now);
  overlay.ask("a", {Rank(0)});
  overlay.look();
  CHECK(overlay.answers.at("a")->nodes == std::vector<std::string>{"a"});
}

TEST_CASE("regroupings: an ask counts only while its node is there to hear the answer") {
  Overlay overlay({"a", "b"});
  overlay.ask("a", {Rank(0)});
  overlay.ask("b", {Rank(1)});
  overlay.members.lose("b", overlay.lines[1].get(), overlay.now);
  overlay.look();
  CHECK(overlay.answers.empty());
  CHECK(overlay.awaited == std::set<std::string>{"b"});
  overlay.members.join(hello_of("b", 1, "here:1"), std::make_shared<RecordedLine>(), overlay.now);
  overlay.look();
  CHECK(overlay.answers.size() == 2);
}

TEST_CASE("regroupings: who joins is counted once, however often it asks, and not while it is away") {
  Overlay overlay({"a"});
  std::vector<std::string> answered;
  const auto join = [&](const std::string& node, std::uint64_t joiner) {
    RegroupReply reply = [&answered, node](const Result<GroupSpec>& result) {
      answered.push_back(node + (result.is_ok() ? "" : " refused"));
    };
    const Members::TimePoint end = overlay.now + kRegroupingPatience;
    REQUIRE(overlay.regroupings.add({{"g", 0, {}, joiner, 0}, node, end}, reply).is_ok());
  };
  for (const char* const node : {"j", "k", "l"}) REQUIRE(overlay.topology.add_node({node}).is_ok());
  for (const char* const node : {"j", "k"})
    overlay.members.join(hello_of(node, 1, "here:1"), std::make_shared<RecordedLine>(), overlay.now);
  overlay.ask("a", {Rank(0)}, 2);
  join("j", 7);
  join("j", 7);
  join("l", 9);  // not connected
  overlay.look();
  CHECK(answered == std::vector<std::string>{"j refused"});
  CHECK(overlay.answers.empty());
  join("k", 8);
  overlay.look();
  CHECK(overlay.answers.at("a")->nodes == std::vector<std::string>{"a", "j", "k"});
  CHECK(answered.size() == 3);
}

TEST_CASE("regroupings: where controllers follow one another, those that may live elsewhere count") {
  const auto go_on = [](std::vector<std::string> nodes, const std::string& silent, bool has_successors) {
    Overlay overlay(nodes, has_successors);
    overlay.silence(silent);
    for (std::uint32_t rank = 0; rank < nodes.size(); ++rank) {
      if (nodes[rank] != silent) overlay.ask(nodes[rank], {Rank(rank)});
    }
    overlay.look();
    return !overlay.answers.empty();
  };
  CHECK(go_on({"a", "b", "c"}, "a", true));
  CHECK(go_on({"a", "b"}, "b", true));
  CHECK_FALSE(go_on({"a", "b"}, "a", true));  // it would go on as well
  CHECK(go_on({"a", "b"}, "a", false));       // there is one controller
}

TEST_CASE("regroupings: who has died since may have gone on with those that may live elsewhere") {
  for (const bool allow_minority : {false, true}) {
    Overlay overlay({"a", "b", "c", "d", "e", "f"}, true);
    for (const std::string dead : {"a", "c", "d"}) overlay.members.leave(dead, "its host refuses it");
    overlay.silence("b");
    overlay.allow_minority = allow_minority;
    for (std::uint32_t rank = 4; rank < 6; ++rank)
      overlay.ask(std::string(1, static_cast<char>('a' + rank)), {Rank(rank)});
    overlay.look();
    CHECK(overlay.answers.empty() == !allow_minority);
  }
}

TEST_CASE("regroupings: an earlier controller has let the others go on, and they have closed it") {
  Overlay overlay({"a", "b"}, true);
  overlay.registry.note_went_on({"g", overlay.number, "alice", "g~1"});
  overlay.ask("a", {Rank(0)});
  overlay.ask("b", {Rank(1)});
  overlay.look();
  for (const std::string node : {"a", "b"})
    CHECK(overlay.answers.at(node).status().message() ==
          "group \"g\" went on as \"g~1\", and that has ended");
}

TEST_CASE("regroupings: who comes late to a group that went on, and has ended, does not go on alone") {
  Overlay overlay({"a", "b", "c"}, true);
  overlay.silence("a");
  overlay.ask("b", {Rank(1)});
  overlay.ask("c", {Rank(2)});
  overlay.look();
  REQUIRE(overlay.answers.at("b").is_ok());
  const std::string next = overlay.answers.at("b")->name;
  for (const std::string node : {"b", "c"}) {
    for (const std::string& group : {std::string("g"), next})
      overlay.registry.close(group, overlay.registry.groups().at(group)->number, node,
                             overlay.members.presence());
  }
  overlay.members.join(hello_of("a", 1, "here:1"), std::make_shared<RecordedLine>(), overlay.now);
  overlay.ask("a", {Rank(0)});
  overlay.look();
  CHECK(overlay.answers.at("a").status().message() == "group \"g\" went on as \"g~1\", and that has ended");
}

TEST_CASE("regroupings: who was silent, and is refused, may have gone on and ended") {
  Overlay overlay({"a", "b"}, true);
  overlay.silence("a");
  overlay.ask("b", {Rank(1)});
  overlay.look();
  CHECK(overlay.answers.empty());
  CHECK(overlay.awaited == std::set<std::string>{"a"});
  CHECK_FALSE(overlay.members.leave_refused("a", "here:1", overlay.now));
  overlay.look();
  CHECK(overlay.answers.empty());
}

TEST_CASE("regroupings: who was silent may live, however many leave after that, while a group has it") {
  Overlay overlay({"a", "b"}, true);
  overlay.silence("a");
  for (std::size_t i = 0; i <= kMaxRememberedDepartures; ++i) {
    const std::string name = "n" + std::to_string(i);
    overlay.members.join(hello_of(name, 1, "here:1"), std::make_shared<RecordedLine>(), overlay.now);
    overlay.members.leave(name, "it left");
  }
  const auto matters = [&](const std::string& name) { return overlay.registry.uses(name); };
  overlay.members.forget_silent(matters);
  overlay.ask("b", {Rank(1)});
  overlay.look();
  CHECK(overlay.answers.empty());
  overlay.registry = GroupRegistry(Scenario());
  overlay.members.forget_silent(matters);
  CHECK_FALSE(overlay.members.may_live("a"));
}

TEST_CASE("regroupings: groups have a name in common") {
  CHECK(common_name("g") == "g");
  CHECK(common_name("g~12") == "g");
  CHECK(common_name("g~1~2") == "g~1");
  CHECK(common_name("g~") == "g~");
  CHECK(common_name("g~a") == "g~a");
}

TEST_CASE("regroupings: who has no member in a group has no say in it") {
  Overlay overlay({"a", "b"});
  REQUIRE(overlay.topology.add_node({"other"}).is_ok());
  overlay.members.join(hello_of("other", 1, "here:1"), std::make_shared<RecordedLine>(), overlay.now);
  overlay.ask("other", {Rank(0)}, 99);
  overlay.ask("a", {Rank(0)});
  overlay.ask("b", {Rank(1)});
  overlay.look();
  CHECK(overlay.answers.at("other").status().code() == StatusCode::kPermissionDenied);
  REQUIRE(overlay.answers.at("a").is_ok());
  CHECK(overlay.answers.at("a")->nodes == std::vector<std::string>{"a", "b"});
}

TEST_CASE("regroupings: a group of another tenant is nobody's successor") {
  Overlay overlay({"a", "b"});
  GroupSpec forged{"forged", "mallory", {"a", "b"}, {}};
  forged.origin = {"g", overlay.number, {Rank(0), Rank(1)}, {}};
  REQUIRE(overlay.registry.add(forged, overlay.topology).is_ok());
  overlay.ask("a", {Rank(0)});
  overlay.ask("b", {Rank(1)});
  overlay.look();
  CHECK(overlay.answers.at("a")->name == "g~1");
}

TEST_CASE("regroupings: one node's requests leave room for others'") {
  Overlay overlay({"a", "b"});
  const auto ask = [&](const std::string& node, std::uint64_t joiner, std::string group) {
    RegroupReply reply = [](const Result<GroupSpec>&) {};
    return overlay.regroupings
        .add({{std::move(group), 0, {}, joiner, 0}, node, overlay.now + kRegroupingPatience}, reply)
        .code();
  };
  for (std::uint64_t i = 1; i <= kMaxNodeRegroupRequests; ++i) CHECK(ask("a", i, "g") == StatusCode::kOk);
  CHECK(ask("a", kMaxNodeRegroupRequests + 1, "g") == StatusCode::kResourceExhausted);
  CHECK(ask("b", 1, "g") == StatusCode::kOk);
  CHECK(ask("b", 2, std::string(kMaxGroupNameBytes + 30, 'g')) == StatusCode::kInvalidArgument);
}
