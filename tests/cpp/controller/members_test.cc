// Who is there, without the coordinator: time is what the test says it is.
#include "controller/members.h"

#include <doctest/doctest.h>

#include "controller/recorded_line.h"
#include "square/topology.h"

using namespace square;
using namespace square::controller;
using square::test::hello_of;
using square::test::RecordedLine;
using square::test::Said;

namespace {

constexpr Duration kLease = std::chrono::seconds(2);
constexpr Members::TimePoint kStart{std::chrono::hours(1)};

std::shared_ptr<RecordedLine> join_as(Members& members, const v1::Hello& hello,
                                      Members::TimePoint now = kStart) {
  auto line = std::make_shared<RecordedLine>();
  members.join(hello, line, now);
  return line;
}

// Looks whenever that is due, until somebody's lease is over.
std::vector<std::string> look(Members& members, Deferred& deferred, Members::TimePoint until) {
  std::vector<std::string> over;
  while (over.empty() && members.next_end(Members::TimePoint::max()) <= until) {
    over = members.expire(members.next_end(until), deferred);
  }
  return over;
}

}  // namespace

TEST_CASE("members: a node that comes is welcomed, and addresses go where they are news") {
  Members members(kLease);
  const auto a = join_as(members, hello_of("a", 1, "here:1"));
  CHECK(a->heard() == Said{"welcome"});
  const auto b = join_as(members, hello_of("b", 2, "there:2"));
  CHECK(b->heard() == Said{"welcome", "a is at here:1"});
  CHECK(a->heard() == Said{"b is at there:2"});
  // Back on another line, at the same address: no news for others.
  const auto again = std::make_shared<RecordedLine>();
  CHECK(members.join(hello_of("b", 2, "there:2"), again, kStart).replaced == b);
  CHECK(again->heard() == Said{"welcome", "a is at here:1"});
  CHECK(a->heard().empty());
  const auto moved = join_as(members, hello_of("b", 2, "elsewhere:2"));
  CHECK(a->heard() == Said{"b is at elsewhere:2"});
  // The line that was replaced says nothing any more.
  CHECK(members.hear("b", b.get(), kStart) == nullptr);
  CHECK_FALSE(members.lose("b", b.get(), kStart));
  CHECK(members.find("b")->line == moved);
  CHECK(members.size() == 2);
}

TEST_CASE("members: the others hear what a node had finished when it left, also those that come later") {
  Members members(kLease);
  const auto a = join_as(members, hello_of("a", 1, "here:1"));
  join_as(members, hello_of("b", 2, "there:2"));
  const FinishedOperations finished{{CollectiveId(3), 7}, {CollectiveId(5), 1}};
  const v1::Goodbye goodbye = to_message(finished);
  members.leave("b", "it left", goodbye);
  CHECK(a->gone.size() == 1);
  CHECK(from_message(a->gone.back()) == finished);
  const auto c = join_as(members, hello_of("c", 3, "elsewhere:3"));
  REQUIRE(c->gone.size() == 1);
  CHECK(from_message(c->gone.back()) == finished);
  GroupSpec group{"g", "alice", {"a", "c"}, {}};
  group.registrant = "a";
  CHECK(members.check_present(group).is_ok());
  group.nodes = {"a", "b", "c"};
  CHECK(members.check_present(group).message() == "node \"b\" is gone: it left");
  group.registrant = "c";  // b may be about to come, too
  CHECK(members.check_present(group).is_ok());
  // A node that dies has said nothing.
  members.leave("c", "nobody has heard of it");
  CHECK(from_message(a->gone.back()) == std::nullopt);
}

TEST_CASE("members: a lease is prolonged by what is heard, and its end is a departure") {
  Members members(kLease);
  const auto a = join_as(members, hello_of("a", 1, "here:1"));
  const auto b = join_as(members, hello_of("b", 2, "there:2"));
  const auto c = join_as(members, hello_of("c", 3, "there:3"));
  Deferred deferred;
  CHECK(look(members, deferred, kStart + kLease / 2).empty());
  CHECK(members.hear("a", a.get(), kStart + kLease / 2) != nullptr);
  members.hear_of("c", kStart + kLease / 2);  // a hears it
  CHECK(look(members, deferred, kStart + kLease - Duration(1)).empty());
  a->heard();
  CHECK(look(members, deferred, kStart + kLease) == std::vector<std::string>{"b"});
  CHECK_FALSE(members.contains("b"));
  CHECK(members.contains("c"));
  CHECK(a->heard() == Said{"b is gone: nobody has heard of it for 2 s"});
  REQUIRE(deferred.size() == 1);
  CHECK(b->reason.is_ok());  // not under the lock
  deferred.front()();
  CHECK(b->reason == deadline_exceeded("not heard of for 2 s"));

  // Who comes after a departure was not there before it, and hears of it.
  const auto d = join_as(members, hello_of("d", 4, "there:4"), kStart + kLease);
  CHECK(d->heard() ==
        Said{"welcome", "b is gone: nobody has heard of it for 2 s", "a is at here:1", "c is at there:3"});
  const auto departures = members.take_departures();
  REQUIRE(departures.size() == 1);
  CHECK(departures[0].node == "b");
  CHECK(members.was_there("a", departures[0]));
  CHECK_FALSE(members.was_there("b", departures[0]));
  CHECK_FALSE(members.was_there("d", departures[0]));
  CHECK(members.take_departures().empty());
}

TEST_CASE("members: a lease does not run while this process is stopped") {
  Members members(kLease);
  const auto a = join_as(members, hello_of("a", 1, "here:1"));
  Deferred deferred;
  Members::TimePoint now = kStart + kLease / 8;
  CHECK(members.expire(now, deferred).empty());
  now += 10 * kLease;
  CHECK(members.expire(now, deferred).empty());
  CHECK(members.next_end(Members::TimePoint::max()) == now + kLease / 8);
  for (int step = 0; step < 6; ++step) CHECK(members.expire(now += kLease / 8, deferred).empty());
  CHECK(members.expire(now += kLease / 8, deferred) == std::vector<std::string>{"a"});
}

TEST_CASE("members: when all are silent at once it is the controller that is cut off, for a while") {
  Members members(kLease);
  const auto a = join_as(members, hello_of("a", 1, "here:1"));
  const auto b = join_as(members, hello_of("b", 2, "there:2"));
  Deferred deferred;
  CHECK(look(members, deferred, kStart + 5 * kLease).empty());
  CHECK(members.hear("a", a.get(), kStart + 5 * kLease) != nullptr);
  // One is back: the other has a look's time, and then has left.
  CHECK(look(members, deferred, kStart + 6 * kLease - Duration(1)) == std::vector<std::string>{"b"});
  const auto again = join_as(members, hello_of("b", 3, "there:3"), kStart + 6 * kLease);
  CHECK(members.hear("a", a.get(), kStart + 6 * kLease) != nullptr);
  CHECK(look(members, deferred, kStart + 12 * kLease).empty());
  CHECK(look(members, deferred, kStart + 14 * kLease).size() == 2);
}

TEST_CASE("members: a controller that is cut off deletes nobody, whenever it last heard of each") {
  Members members(kLease);
  std::vector<std::shared_ptr<RecordedLine>> lines;
  for (const std::string name : {"a", "b", "c", "d"})
    lines.push_back(join_as(members, hello_of(name, 1, "at:1")));
  Deferred deferred;
  // All are heard until the cut, each at its time: their leases end one after the other.
  const Duration beat = kLease / 4;
  const std::vector<std::string> names{"a", "b", "c", "d"};
  Members::TimePoint now = kStart;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Members::TimePoint heard = now + static_cast<int>(i) * beat / 4;
    CHECK(look(members, deferred, heard).empty());
    CHECK(members.hear(names[i], lines[i].get(), heard) != nullptr);
  }
  CHECK(look(members, deferred, now + 4 * kLease).empty());
  // It is over: each speaks again at its time.
  now += 4 * kLease;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Members::TimePoint heard = now + static_cast<int>(i) * beat / 2;
    CHECK(look(members, deferred, heard).empty());
    CHECK(members.hear(names[i], lines[i].get(), heard) != nullptr);
  }
  CHECK(look(members, deferred, now + kLease - Duration(1)).empty());
  CHECK(members.take_departures().empty());
}

TEST_CASE("members: a controller that is cut off deletes nobody, also where nodes have ended their lines") {
  Members members(kLease);
  std::vector<std::shared_ptr<RecordedLine>> lines;
  const std::vector<std::string> names{"a", "b", "c"};
  for (const std::string& name : names) lines.push_back(join_as(members, hello_of(name, 1, "at:1")));
  Deferred deferred;
  for (std::size_t i = 0; i < names.size(); ++i) CHECK(members.lose(names[i], lines[i].get(), kStart));
  CHECK(look(members, deferred, kStart + 5 * kLease).empty());
  // One speaks again: the others have half a lease to do so, too.
  const auto a = join_as(members, hello_of("a", 1, "at:1"), kStart + 5 * kLease);
  CHECK(members.hear("a", a.get(), kStart + 5 * kLease) != nullptr);
  CHECK(look(members, deferred, kStart + 5 * kLease + kLease / 4).empty());
  CHECK(members.hear("a", a.get(), kStart + 5 * kLease + kLease / 4) != nullptr);
  CHECK(look(members, deferred, kStart + 6 * kLease) == std::vector<std::string>{"b", "c"});
}

TEST_CASE("members: the first that comes back after a cut need not have said more than hello") {
  Members members(kLease);
  const std::vector<std::string> names{"a", "b", "c"};
  for (const std::string& name : names) {
    const auto line = join_as(members, hello_of(name, 1, "at:1"));
    CHECK(members.lose(name, line.get(), kStart));
  }
  Deferred deferred;
  CHECK(look(members, deferred, kStart + 5 * kLease).empty());
  const auto a = join_as(members, hello_of("a", 1, "at:1"), kStart + 5 * kLease);
  CHECK(look(members, deferred, kStart + 5 * kLease + kLease / 2 - Duration(1)).empty());
  CHECK(members.hear("a", a.get(), kStart + 5 * kLease + kLease / 2 - Duration(1)) != nullptr);
  CHECK(look(members, deferred, kStart + 6 * kLease - Duration(1)) == std::vector<std::string>{"b", "c"});
}

TEST_CASE("members: a controller that hears the node beside it and no other is cut off, for a while") {
  Members members(kLease);
  const auto own = join_as(members, hello_of("a", 1, "at:1"));
  for (const std::string name : {"b", "c", "d"}) {
    v1::Hello hello = hello_of(name, 1, "at:1");
    hello.set_successor("at:2");  // another one may lead
    join_as(members, hello);
  }
  Deferred deferred;
  Members::TimePoint now = kStart;
  for (; now < kStart + kLongestCutOff * kLease; now += kLease / 8) {
    CHECK(members.hear("a", own.get(), now) != nullptr);
    CHECK(members.expire(now, deferred).empty());
  }
  std::size_t left = 0;
  for (; now < kStart + (kLongestCutOff + 1) * kLease; now += kLease / 8) {
    CHECK(members.hear("a", own.get(), now) != nullptr);
    left += members.expire(now, deferred).size();
  }
  CHECK(left == 3);
}

TEST_CASE(
    "members: where nodes bring their controllers, more than half of them make a quorum, or the lowest "
    "half") {
  const auto hello = [](const std::string& name, std::uint32_t standing) {
    v1::Hello hello = hello_of(name, 1, "at:1");
    hello.set_successor("at:2");
    hello.set_standing(standing);
    return hello;
  };
  Members members(kLease);
  std::map<std::string, std::shared_ptr<RecordedLine>> lines;
  for (const auto& [name, standing] :
       std::map<std::string, std::uint32_t>{{"d", 0}, {"c", 1}, {"b", 2}, {"a", 3}})
    lines[name] = join_as(members, hello(name, standing));
  Deferred deferred;
  TimePoint now = kStart;
  const auto go_on_with = [&](const std::vector<std::string>& heard, Duration time) {
    for (const TimePoint end = now + time; now < end;) {
      now += kLease / 8;
      for (const std::string& name : heard) CHECK(members.hear(name, lines.at(name).get(), now) != nullptr);
      members.expire(now, deferred);
    }
    return members.has_quorum(now);
  };
  CHECK(members.has_quorum(now));
  CHECK(go_on_with({"a", "b", "c", "d"}, kLease));
  CHECK(go_on_with({"a", "b", "c"}, kLease));
  CHECK(members.may_live("d"));
  CHECK_FALSE(go_on_with({"a", "b"}, kLease));  // the others may have the lowest standing, "d"
  // It may have led others meanwhile, and ended.
  CHECK_FALSE(members.leave_refused("d", "at:1", now));
  CHECK(members.may_live("d"));
  CHECK_FALSE(members.has_quorum(now));
}

TEST_CASE("members: of those that are refused soon none can have gone on elsewhere") {
  Members members(kLease);
  std::map<std::string, std::shared_ptr<RecordedLine>> lines;
  Deferred deferred;
  const auto join = [&](const std::string& name, Members::TimePoint when) {
    v1::Hello hello = hello_of(name, 1, "at:1");
    hello.set_successor(name + ":7");
    lines[name] = join_as(members, hello, when);
  };
  for (const std::string name : {"a", "b", "c"}) join(name, kStart);
  const Members::TimePoint soon = kStart + kLease / 2 - Duration(1);
  members.lose("b", lines.at("b").get(), soon);
  CHECK(members.leave_refused("b", "at:1", soon));
  CHECK_FALSE(members.may_live("b"));
  // That a line breaks, and neighbours, say nothing of the controller that it has by then.
  members.hear_of("c", soon);
  members.lose("c", lines.at("c").get(), soon);
  CHECK(members.leave_refused("c", "at:1", kStart + kLease / 2));
  CHECK(members.may_live("c"));
  // What is read after this process was stopped may be old.
  Members::TimePoint now = kStart + 4 * kLease;
  members.expire(now, deferred);
  join("d", kStart);
  for (const Duration read : {Duration(0), kStaleWords}) {
    join("d", now + read);
    members.lose("d", lines.at("d").get(), now + read);
    CHECK(members.leave_refused("d", "at:1", now + read));
    CHECK(members.may_live("d") == (read == Duration(0)));
  }
}

TEST_CASE("members: what followed an earlier controller is dead where that was refused before it was woken") {
  Members members(kLease);
  members.presume_gone({{"dead", true}, {"silent", false}}, kStart);
  for (const std::string name : {"dead", "silent", "other"}) {
    CHECK(members.expect(name, kStart));
    v1::Address told;
    told.set_peer(name);
    told.set_address("at:1");
    told.set_successor("at:7");
    members.locate(told);
    CHECK(members.leave_refused(name, "at:1", kStart));
    CHECK(members.may_live(name) == (name != "dead"));
    CHECK_FALSE(members.leave_refused(name, "at:1", kStart));
  }
}

TEST_CASE("members: who was led by a controller that died just now is dead where it is refused soon") {
  constexpr Duration kSoon = kLease / 2;
  const auto is_dead = [](bool may_live, std::vector<LostController> lost, Duration refused) {
    Members members(kLease);
    Deferred deferred;
    members.expire(kStart, deferred);  // before anybody is there
    members.presume_gone(lost, kStart);
    CHECK(members.expect("a", kStart));
    v1::Address told;
    told.set_peer("a");
    told.set_address("at:1");
    told.set_successor("at:7");
    told.set_may_live(may_live);
    members.locate(told);
    CHECK(members.leave_refused("a", "at:1", kStart + refused));
    return !members.may_live("a");
  };
  CHECK(is_dead(false, {{"leader", true}}, kSoon - Duration(1)));
  CHECK_FALSE(is_dead(false, {{"leader", true}}, kSoon));
  CHECK_FALSE(is_dead(true, {{"leader", true}}, Duration(0)));  // it was silent before
  CHECK_FALSE(is_dead(false, {{"leader", true}, {"next", false}}, Duration(0)));
  CHECK_FALSE(is_dead(false, {}, Duration(0)));
}

TEST_CASE("members: a controller that nodes cannot leave for another needs no quorum") {
  Members members(kLease);
  for (const std::string name : {"a", "b", "c"}) join_as(members, hello_of(name, 1, "at:1"));
  CHECK(members.has_quorum(kStart + kLease));
}

TEST_CASE("members: a name is yielded once its line broke") {
  Members members(kLease);
  const auto a = join_as(members, hello_of("a", 1, "here:1"));
  const v1::Hello other = hello_of("a", 2, "here:2");
  CHECK_FALSE(*members.yield_name(hello_of("a", 1, "here:1")));
  const Status taken = members.yield_name(other).status();
  CHECK(taken.code() == StatusCode::kAlreadyExists);
  CHECK(taken.message().find("here:1") != std::string::npos);
  CHECK(members.lose("a", a.get(), kStart));
  CHECK(members.contains("a"));
  CHECK(*members.yield_name(other));
  CHECK_FALSE(members.contains("a"));
  CHECK(members.take_departures().size() == 1);
  CHECK_FALSE(*members.yield_name(other));
}

TEST_CASE("members: hellos that no node may say") {
  CHECK(check_hello(hello_of("a", 1, "here:1")).is_ok());
  CHECK(check_hello(hello_of("", 1, "here:1")).code() == StatusCode::kInvalidArgument);
  CHECK(check_hello(hello_of("a", 1, std::string(kMaxAddressBytes + 1, 'x'))).code() ==
        StatusCode::kInvalidArgument);
  v1::Hello late = hello_of("a", 1, "here:1");
  late.set_protocol_version(kControlProtocolVersion + 1);
  CHECK(check_hello(late).code() == StatusCode::kFailedPrecondition);
}

TEST_CASE("members: a node and its controller speak the lower of their newest versions") {
  Members members(kLease);
  const auto spoken = [&](const std::string& name, std::uint32_t oldest, std::uint32_t newest) {
    v1::Hello hello = hello_of(name, 1, "here:1");
    hello.set_protocol_version(oldest);
    hello.set_newest_version(newest);
    REQUIRE(check_hello(hello).is_ok());
    const auto line = join_as(members, hello);
    const auto nodes = members.list({}, [](const std::string&) { return false; });
    const auto node = std::ranges::find(nodes, name, &NodeInformation::name);
    REQUIRE(node != nodes.end());
    CHECK(line->version == node->protocol_version);
    return node->protocol_version;
  };
  CHECK(spoken("before", kControlProtocolVersion - 1, 0) == kControlProtocolVersion - 1);
  CHECK(spoken("same", kOldestControlProtocol, kControlProtocolVersion) == kControlProtocolVersion);
  CHECK(spoken("next", kControlProtocolVersion, kControlProtocolVersion + 1) == kControlProtocolVersion);
}

TEST_CASE("members: the list has the topology's nodes and then the others") {
  Members members(kLease);
  const auto a = join_as(members, hello_of("a", 1, "here:1"));
  const auto z = join_as(members, hello_of("z", 2, "there:2"));
  const Topology topology = *full_mesh(std::vector<std::string>{"c", "b", "a"}, {});
  const auto nodes = members.list(topology, [](const std::string& name) { return name != "b"; });
  REQUIRE(nodes.size() == 3);
  CHECK(nodes[0].name == "b");
  CHECK_FALSE(nodes[0].connected);
  CHECK(nodes[1].name == "a");
  CHECK(nodes[1].connected);
  CHECK(nodes[2].name == "z");

  Deferred deferred;
  members.close_all(unavailable("over"), deferred);
  CHECK(members.size() == 0);
  for (const auto& action : deferred) action();
  CHECK(a->reason == unavailable("over"));
  CHECK(z->reason == unavailable("over"));
  CHECK(members.take_departures().empty());
}

TEST_CASE("members: of those expected the ones that are taken for gone have little time") {
  constexpr Duration kLong = 5 * kPresumedTime;
  Members members(kLong);
  members.presume_gone({{"a", false}}, kStart);
  CHECK(members.expect("a", kStart));
  CHECK(members.expect("b", kStart));
  v1::Address told;
  told.set_peer("a");
  told.set_address("here:1");
  members.locate(told);
  Deferred deferred;
  CHECK(look(members, deferred, kStart + kPresumedTime) == std::vector<std::string>{"a"});
  CHECK(members.may_live("a"));
  CHECK(look(members, deferred, kStart + kLong - Duration(1)).empty());
  CHECK(look(members, deferred, kStart + kLong) == std::vector<std::string>{"b"});
  CHECK_FALSE(
      members.may_live("b"));  // nobody has told where it was: those that knew have heard of its death
  join_as(members, hello_of("a", 1, "here:1"), kStart + kLong);
  CHECK_FALSE(members.may_live("a"));
}
