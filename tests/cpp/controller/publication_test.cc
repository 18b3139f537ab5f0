// The two phases of a plan, without the coordinator.
#include "controller/publication.h"

#include <doctest/doctest.h>

#include <initializer_list>

#include "controller/recorded_line.h"

using namespace square;
using namespace square::controller;
using square::test::hello_of;
using square::test::RecordedLine;
using square::test::Said;

namespace {

constexpr Duration kTimeout = std::chrono::seconds(3);
constexpr Members::TimePoint kBegin{std::chrono::hours(1)};

PublishedPlanPtr plan_at(Epoch epoch) {
  auto plan = std::make_shared<Plan>();
  plan->epoch = epoch;
  return std::make_shared<const PublishedPlan>(PublishedPlan{plan, std::make_shared<const PlanParts>(plan)});
}

// Of one session among the nodes, beside "idle", which has no part in it.
PublishedPlanPtr plan_among(Epoch epoch, const std::vector<std::string>& nodes) {
  auto plan = std::make_shared<Plan>();
  plan->epoch = epoch;
  PlanSession session;
  session.id = SessionId(0);
  session.collective = CollectiveId(0);
  for (const std::string& node : nodes) {
    session.members.emplace_back(static_cast<NodeId::value_type>(plan->nodes.size()));
    plan->nodes.push_back({node});
  }
  plan->nodes.push_back({"relay"});
  plan->nodes.push_back({"idle"});
  session.root = NodeId(0);
  const NodeId relay(static_cast<NodeId::value_type>(nodes.size()));
  session.streams.push_back({{{NodeId(0), relay}, {relay, NodeId(1)}}, 1e6});
  PlanCollective& collective = plan->collectives.emplace_back();
  collective.id = CollectiveId(0);
  collective.tenant = "tenant";
  collective.group = "g";
  collective.sessions = {session.id};
  plan->sessions.push_back(std::move(session));
  return std::make_shared<const PublishedPlan>(PublishedPlan{plan, std::make_shared<const PlanParts>(plan)});
}

// Two groups of two nodes each, whose collectives have these rates.
PublishedPlanPtr plan_of_two(Epoch epoch, double first_bps, double second_bps,
                             const PublishedPlanPtr& before = nullptr, const KeptWays& kept = {}) {
  auto plan = std::make_shared<Plan>();
  plan->epoch = epoch;
  plan->nodes = {{"a"}, {"b"}, {"c"}, {"d"}};
  for (const std::uint32_t i : {0U, 1U}) {
    const double rate_bps = i == 0 ? first_bps : second_bps;
    const NodeId from(2 * i);
    const NodeId to(2 * i + 1);
    PlanSession& session = plan->sessions.emplace_back();
    session.id = SessionId(i);
    session.collective = CollectiveId(i);
    session.root = from;
    session.members = {from, to};
    session.rate_bps = rate_bps;
    session.streams.push_back({{{from, to}}, rate_bps});
    PlanCollective& collective = plan->collectives.emplace_back();
    collective.id = CollectiveId(i);
    collective.tenant = "tenant";
    collective.group = i == 0 ? "ab" : "cd";
    collective.rate_bps = rate_bps;
    collective.sessions = {session.id};
  }
  auto parts =
      std::make_shared<const PlanParts>(plan, before ? before->parts.get() : nullptr, Epoch(0), kept);
  return std::make_shared<const PublishedPlan>(PublishedPlan{plan, parts});
}

struct PublicationStage {
  Members members{std::chrono::hours(1)};
  Publication publication{members, kTimeout};
  Deferred deferred;

  std::shared_ptr<RecordedLine> join(const std::string& name,
                                     std::uint32_t version = kControlProtocolVersion) {
    auto line = std::make_shared<RecordedLine>();
    v1::Hello hello = hello_of(name, 1, "x:1");
    hello.set_protocol_version(version);
    publication.greet(members.join(hello, line, kBegin).member, kBegin);
    return line;
  }
  // Of who is there the members' test knows more.
  static void forget(std::initializer_list<std::shared_ptr<RecordedLine>> lines) {
    for (const auto& line : lines) line->said.clear();
  }
  bool confirm(const std::string& name, const std::shared_ptr<RecordedLine>& line, Epoch epoch) {
    return publication.confirm(*members.hear(name, line.get(), kBegin), epoch, kBegin);
  }
};

}  // namespace

TEST_CASE("publication: a plan is active when every connected member has confirmed it") {
  PublicationStage stage;
  const auto a = stage.join("a");
  const auto b = stage.join("b");
  const auto c = stage.join("c");
  REQUIRE(stage.members.lose("c", c.get(), kBegin));
  stage.forget({a, b, c});
  stage.publication.begin(plan_at(Epoch(1)), kBegin);
  CHECK(a->heard() == Said{"plan 1"});
  CHECK(c->heard().empty());
  CHECK_FALSE(stage.confirm("a", a, Epoch(2)));  // of which it cannot know
  CHECK(stage.confirm("a", a, Epoch(1)));
  CHECK_FALSE(stage.confirm("a", a, Epoch(1)));
  CHECK_FALSE(stage.publication.settle(kBegin, stage.deferred).activated);
  CHECK(stage.publication.active() == nullptr);
  CHECK(a->heard().empty());
  CHECK(stage.publication.next_end(Members::TimePoint::max()) == kBegin + kInstallPatience);

  CHECK(stage.confirm("b", b, Epoch(1)));
  const Settlement settlement = stage.publication.settle(kBegin, stage.deferred);
  REQUIRE(settlement.activated);
  CHECK(settlement.activated == Epoch(1));
  CHECK(settlement.late.empty());
  CHECK(stage.publication.active()->plan->epoch == Epoch(1));
  CHECK(a->heard() == Said{"activate 1"});
  CHECK(b->heard() == Said{"plan 1", "activate 1"});
  CHECK_FALSE(stage.publication.is_under_way());
  CHECK(stage.publication.missing({"a", "c", "d"}) == Said{"c", "d"});
}

TEST_CASE("publication: a member that is late is disconnected, and the others go on") {
  PublicationStage stage;
  const auto a = stage.join("a");
  const auto b = stage.join("b");
  stage.forget({a, b});
  stage.publication.begin(plan_at(Epoch(1)), kBegin);
  REQUIRE(stage.confirm("a", a, Epoch(1)));
  const Settlement settlement = stage.publication.settle(kBegin + kTimeout, stage.deferred);
  REQUIRE(settlement.activated);
  CHECK(settlement.late == Said{"b"});
  CHECK(a->heard() == Said{"plan 1", "activate 1"});
  CHECK(b->heard() == Said{"plan 1"});
  CHECK(stage.members.find("b")->line == nullptr);
  REQUIRE(stage.deferred.size() == 1);
  stage.deferred.front()();
  CHECK(b->reason == deadline_exceeded("plan 1 was not installed in time"));
}

TEST_CASE("publication: a plan becomes active without who lags, which has the time of the timeout") {
  PublicationStage stage;
  const auto a = stage.join("a");
  const auto b = stage.join("b");
  stage.forget({a, b});
  stage.publication.begin(plan_at(Epoch(1)), kBegin);
  REQUIRE(stage.confirm("a", a, Epoch(1)));
  CHECK_FALSE(stage.publication.settle(kBegin, stage.deferred).activated);
  const auto patience = kBegin + kInstallPatience;
  const Settlement first = stage.publication.settle(patience, stage.deferred);
  CHECK(first.activated == Epoch(1));
  CHECK(first.late.empty());
  CHECK(a->heard() == Said{"plan 1", "activate 1"});
  CHECK(b->heard() == Said{"plan 1"});
  CHECK(stage.members.find("b")->line == b);
  CHECK(stage.publication.awaited(Epoch(1)) == Said{"b"});
  CHECK(stage.publication.next_end(Members::TimePoint::max()) == kBegin + kTimeout);
  CHECK(stage.publication.rest_end() == patience + kRest);
  // Nor is it waited for by the next, whose time is the first one's.
  stage.publication.begin(plan_at(Epoch(2)), patience);
  REQUIRE(stage.confirm("a", a, Epoch(2)));
  CHECK(stage.publication.settle(patience, stage.deferred).activated == Epoch(2));
  CHECK(stage.publication.next_end(Members::TimePoint::max()) == kBegin + kTimeout);
  SUBCASE("it is activated when it has installed the plan, and waited for again") {
    REQUIRE(stage.publication.confirm(*stage.members.hear("b", b.get(), patience), Epoch(1), patience));
    CHECK(b->heard() == Said{"plan 2"});
    CHECK(stage.publication.awaited(Epoch(1)).empty());
    CHECK(stage.publication.awaited(Epoch(2)) == Said{"b"});
    // It goes on: it has as long for the next.
    CHECK(stage.publication.next_end(Members::TimePoint::max()) == patience + kTimeout);
    REQUIRE(stage.publication.confirm(*stage.members.hear("b", b.get(), patience), Epoch(2), patience));
    CHECK(b->heard() == Said{"activate 2"});
    CHECK(stage.publication.next_end(Members::TimePoint::max()) == Members::TimePoint::max());
    CHECK(stage.publication.rest_end() < patience);
    stage.publication.begin(plan_at(Epoch(3)), patience);
    REQUIRE(stage.confirm("a", a, Epoch(3)));
    CHECK_FALSE(stage.publication.settle(patience, stage.deferred).activated);
  }
  SUBCASE("it is disconnected when its time is over, also without a plan under way") {
    CHECK(stage.publication.settle(kBegin + kTimeout, stage.deferred).late == Said{"b"});
    CHECK(stage.members.find("b")->line == nullptr);
    CHECK(stage.publication.awaited(Epoch(1)).empty());
  }
  SUBCASE("who turns out to be silent is not") {
    stage.members.note_silent("b");
    CHECK(stage.publication.settle(kBegin + kTimeout, stage.deferred).late.empty());
    CHECK(stage.publication.awaited(Epoch(1)).empty());
  }
}

TEST_CASE("publication: who was late is not waited for until it has installed a plan") {
  PublicationStage stage;
  const auto a = stage.join("a");
  stage.join("b");
  stage.publication.begin(plan_at(Epoch(1)), kBegin);
  REQUIRE(stage.confirm("a", a, Epoch(1)));
  REQUIRE(stage.publication.settle(kBegin + kTimeout, stage.deferred).activated);
  const auto back = stage.join("b");
  stage.publication.begin(plan_at(Epoch(2)), kBegin);
  CHECK(stage.publication.next_end(Members::TimePoint::max()) == kBegin + kInstallPatience);  // for a
  REQUIRE(stage.confirm("a", a, Epoch(2)));
  CHECK(stage.publication.next_end(Members::TimePoint::max()) == Members::TimePoint::max());
  const Settlement settlement = stage.publication.settle(kBegin, stage.deferred);
  REQUIRE(settlement.activated);
  CHECK(settlement.late == Said{"b"});
  CHECK(stage.members.find("b")->line == back);  // it may still do it
  REQUIRE(stage.confirm("b", back, Epoch(2)));
  stage.publication.begin(plan_at(Epoch(3)), kBegin);
  REQUIRE(stage.confirm("a", a, Epoch(3)));
  CHECK_FALSE(stage.publication.settle(kBegin, stage.deferred).activated);
}

TEST_CASE("publication: who comes during a change gets both plans, and each activation it has a plan for") {
  PublicationStage stage;
  stage.publication.start_with(plan_at(Epoch(1)));
  stage.publication.begin(plan_at(Epoch(2)), kBegin);
  const auto line = std::make_shared<RecordedLine>();
  stage.publication.greet(stage.members.join(hello_of("a", 1, "x:1"), line, kBegin).member, kBegin);
  CHECK(line->heard() == Said{"welcome", "plan 1", "plan 2"});
  CHECK(stage.confirm("a", line, Epoch(1)));
  CHECK(line->heard() == Said{"activate 1"});
  CHECK_FALSE(stage.publication.settle(kBegin, stage.deferred).activated);
  CHECK(stage.confirm("a", line, Epoch(2)));
  CHECK(stage.publication.settle(kBegin, stage.deferred).activated == Epoch(2));
  CHECK(line->heard() == Said{"activate 2"});

  // The active plan once more: nothing is sent again.
  stage.publication.begin(nullptr, kBegin);
  CHECK(stage.publication.settle(kBegin, stage.deferred).activated == Epoch(2));
  CHECK(line->heard().empty());
}

TEST_CASE("publication: where there is no plan yet it ends at once") {
  PublicationStage stage;
  const auto a = stage.join("a");
  stage.forget({a});
  stage.publication.begin(nullptr, kBegin);
  CHECK(stage.publication.settle(kBegin, stage.deferred).activated == Epoch(0));
  CHECK(stage.publication.active() == nullptr);
  CHECK(stage.publication.missing({"a"}).empty());
  CHECK(a->heard().empty());
}

TEST_CASE("publication: who has confirmed the active plan on this line is told what is other than in it") {
  PublicationStage stage;
  stage.publication.start_with(plan_at(Epoch(1)));
  const auto a = stage.join("a");
  const auto b = stage.join("b");
  REQUIRE(stage.confirm("a", a, Epoch(1)));
  stage.publication.begin(plan_at(Epoch(2)), kBegin);
  CHECK(a->parts.back().base_epoch() == 1);
  CHECK(b->parts.back().base_epoch() == 0);  // it has not said that it has the first one

  // It has not got that plan after all: all of it, and of none that it was not sent.
  stage.publication.send_whole(*stage.members.find("a"), Epoch(2));
  CHECK(a->parts.back().epoch() == 2);
  CHECK(a->parts.back().base_epoch() == 0);
  const std::size_t sent = a->parts.size();
  stage.publication.send_whole(*stage.members.find("a"), Epoch(7));
  CHECK(a->parts.size() == sent);

  // Another line begins with whole parts, though the process has both plans.
  REQUIRE(stage.confirm("a", a, Epoch(2)));
  const auto back = stage.join("a");
  REQUIRE(back->parts.size() == 2);
  CHECK(back->parts.front().base_epoch() == 0);
  CHECK(back->parts.back().base_epoch() == 0);
}

TEST_CASE("publication: what runs under a plan that a node of it never had must leave it") {
  for (const std::string& who : std::vector<std::string>{"b", "relay", "idle"}) {
    CAPTURE(who);
    PublicationStage stage;
    const auto a = stage.join("a");
    const auto line = stage.join(who);
    CHECK_FALSE(stage.publication.is_lacked());
    stage.publication.begin(plan_among(Epoch(1), {"a", "b"}), kBegin);
    CHECK_FALSE(stage.publication.is_lacked());  // nothing runs under it
    REQUIRE(stage.confirm("a", a, Epoch(1)));
    REQUIRE(stage.members.lose(who, line.get(), kBegin));
    REQUIRE(stage.publication.settle(kBegin, stage.deferred).activated);
    CHECK(stage.publication.is_lacked() == (who != "idle"));
    const auto back = stage.join(who);
    CHECK(stage.publication.is_lacked() == (who != "idle"));
    REQUIRE(stage.confirm(who, back, Epoch(1)));
    CHECK_FALSE(stage.publication.is_lacked());
  }
}

TEST_CASE("publication: nodes that another controller had may have had different plans of it") {
  PublicationStage stage;
  CHECK_FALSE(stage.publication.is_lacked());
  REQUIRE(stage.members.expect("a", kBegin));
  CHECK(stage.publication.is_lacked());
  stage.join("a");
  CHECK_FALSE(stage.publication.is_lacked());
  stage.members.hear("a", stage.members.find("a")->line.get(), kBegin)->floor = Epoch(7);
  CHECK(stage.publication.is_lacked());
}

TEST_CASE("publication: also where the controller began with a plan of its own") {
  PublicationStage stage;
  stage.publication.start_with(plan_at(Epoch(1)));
  Member& member = *stage.members.hear("a", stage.join("a").get(), kBegin);
  CHECK_FALSE(stage.publication.is_lacked());
  member.floor = Epoch(7);
  CHECK(stage.publication.is_lacked());
  stage.publication.begin(plan_at(Epoch(8)), kBegin);
  REQUIRE(stage.publication.settle(kBegin + std::chrono::minutes(1), stage.deferred).activated);
  CHECK_FALSE(stage.publication.is_lacked());
}

TEST_CASE("publication: no collective changes without one of its members") {
  PublicationStage stage;
  const auto a = stage.join("a");
  auto b = stage.join("b");
  const auto c = stage.join("c");
  const auto first = plan_of_two(Epoch(1), 1e6, 1e6);
  stage.publication.begin(first, kBegin);
  for (const auto& [name, line] : {std::pair("a", a), std::pair("b", b), std::pair("c", c)})
    REQUIRE(stage.confirm(name, line, Epoch(1)));
  REQUIRE(stage.publication.settle(kBegin, stage.deferred).activated == Epoch(1));
  CHECK(stage.publication.kept().collectives.empty());
  CHECK_FALSE(stage.publication.can_release());
  stage.forget({a, b, c});

  // The second plan changes both collectives, and the line of b breaks. d never came, and nobody waits for
  // it.
  const auto second = plan_of_two(Epoch(2), 2e6, 2e6, first);
  stage.publication.begin(second, kBegin);
  REQUIRE(stage.confirm("a", a, Epoch(2)));
  REQUIRE(stage.confirm("c", c, Epoch(2)));
  SUBCASE("whose line broke") { REQUIRE(stage.members.lose("b", b.get(), kBegin)); }
  SUBCASE("who lags") {}
  const auto patience = kBegin + kInstallPatience;
  const Settlement held_back = stage.publication.settle(patience, stage.deferred);
  CHECK(held_back.plan_again);
  CHECK_FALSE(held_back.activated);
  CHECK(stage.publication.active() == first);
  CHECK_FALSE(stage.publication.is_under_way());
  CHECK(a->heard() == Said{"plan 2"});
  const KeptWays kept = stage.publication.kept();
  CHECK(kept.parts == first->parts);
  CHECK(kept.collectives == std::set{CollectiveId(0)});

  // The third has the one as it was, and the other as it is to be.
  const auto third = plan_of_two(Epoch(3), 2e6, 2e6, second, kept);
  CHECK(third->parts->since(CollectiveId(0)) == Epoch(1));
  CHECK(third->parts->since(CollectiveId(1)) == Epoch(2));
  stage.publication.begin(third, patience);
  REQUIRE(stage.confirm("a", a, Epoch(3)));
  REQUIRE(stage.confirm("c", c, Epoch(3)));
  const Settlement settlement = stage.publication.settle(patience, stage.deferred);
  CHECK(settlement.activated == Epoch(3));
  CHECK_FALSE(settlement.plan_again);
  CHECK(a->heard() == Said{"plan 3", "activate 3"});
  CHECK_FALSE(stage.publication.can_release());
  CHECK(stage.publication.kept().collectives == std::set{CollectiveId(0)});

  // b is back, and has the third: the next may change everything.
  b = stage.join("b");
  CHECK_FALSE(stage.publication.can_release());
  REQUIRE(stage.publication.confirm(*stage.members.hear("b", b.get(), patience), Epoch(3), patience));
  CHECK(stage.publication.can_release());
  CHECK(stage.publication.kept().collectives.empty());
  const auto fourth = plan_of_two(Epoch(4), 2e6, 2e6, third);
  CHECK(fourth->parts->since(CollectiveId(0)) == Epoch(4));
  CHECK(fourth->parts->since(CollectiveId(1)) == Epoch(2));
  stage.publication.begin(fourth, patience);
  for (const auto& [name, line] : {std::pair("a", a), std::pair("b", b), std::pair("c", c)})
    REQUIRE(stage.confirm(name, line, Epoch(4)));
  CHECK(stage.publication.settle(patience, stage.deferred).activated == Epoch(4));
  CHECK_FALSE(stage.publication.can_release());
}

TEST_CASE("publication: an older node has what was sent to it before its heartbeat") {
  PublicationStage stage;
  const auto a = stage.join("a");
  const auto b = stage.join("b", kMovingSince - 1);
  const auto first = plan_of_two(Epoch(1), 1e6, 1e6);
  stage.publication.begin(first, kBegin);
  for (const auto& [name, line] : {std::pair("a", a), std::pair("b", b)})
    REQUIRE(stage.confirm(name, line, Epoch(1)));
  REQUIRE(stage.publication.settle(kBegin, stage.deferred).activated == Epoch(1));
  stage.publication.begin(plan_of_two(Epoch(2), 2e6, 2e6, first), kBegin);
  REQUIRE(stage.confirm("a", a, Epoch(2)));
  CHECK_FALSE(stage.publication.settle(kBegin + kInstallPatience, stage.deferred).activated);
  SUBCASE("that is heard since") {
    stage.members.note("b", {}, kBegin + kInstallPatience);
    const Settlement settlement = stage.publication.settle(kBegin + kInstallPatience, stage.deferred);
    CHECK(settlement.activated == Epoch(2));
    CHECK(settlement.away.empty());
  }
  SUBCASE("that is silent") {
    const TimePoint end = kBegin + kInstallPatience + kLongestBeat;
    const Settlement settlement = stage.publication.settle(end, stage.deferred);
    CHECK_FALSE(settlement.activated);
    CHECK(settlement.away == Said{"b"});
    CHECK(stage.publication.kept().collectives == std::set{CollectiveId(0)});
    return;
  }
  CHECK(stage.confirm("b", b, Epoch(2)));
  CHECK(b->heard().back() == "activate 2");
}

TEST_CASE(
    "publication: a member that says that the plan has come is not waited for, and holds nothing back") {
  PublicationStage stage;
  const auto a = stage.join("a");
  const auto b = stage.join("b");
  const auto first = plan_of_two(Epoch(1), 1e6, 1e6);
  stage.publication.begin(first, kBegin);
  REQUIRE(stage.confirm("a", a, Epoch(1)));
  REQUIRE(stage.confirm("b", b, Epoch(1)));
  REQUIRE(stage.publication.settle(kBegin, stage.deferred).activated);
  stage.forget({a, b});
  stage.publication.begin(plan_of_two(Epoch(2), 2e6, 2e6, first), kBegin);
  REQUIRE(stage.confirm("a", a, Epoch(2)));
  Member& member = *stage.members.hear("b", b.get(), kBegin);
  CHECK(stage.publication.confirm(member, Epoch(2), kBegin, true));
  CHECK_FALSE(stage.publication.confirm(member, Epoch(2), kBegin, true));
  CHECK(stage.publication.kept().collectives.empty());
  CHECK_FALSE(stage.publication.settle(kBegin, stage.deferred).activated);
  const auto patience = kBegin + kInstallPatience;
  const Settlement settlement = stage.publication.settle(patience, stage.deferred);
  CHECK(settlement.activated == Epoch(2));
  CHECK(settlement.away.empty());
  CHECK(stage.publication.kept().collectives.empty());
  CHECK(b->heard() == Said{"plan 2"});
  // It is given the time to say so of the next.
  stage.publication.begin(plan_of_two(Epoch(3), 3e6, 3e6, first), patience);
  CHECK(stage.publication.kept().collectives.empty());
  REQUIRE(stage.confirm("a", a, Epoch(3)));
  CHECK_FALSE(stage.publication.settle(patience, stage.deferred).activated);
  CHECK(stage.publication.next_end(Members::TimePoint::max()) == patience + kInstallPatience);
  SUBCASE("and does") {
    CHECK(stage.publication.confirm(member, Epoch(3), patience, true));
    CHECK(stage.publication.settle(patience, stage.deferred).activated == Epoch(3));
  }
  SUBCASE("and does not") {
    const Settlement last = stage.publication.settle(patience + kInstallPatience, stage.deferred);
    CHECK(last.plan_again);
    CHECK(last.away == Said{"b"});
    CHECK(stage.publication.kept().collectives == std::set{CollectiveId(0)});
  }
}

TEST_CASE("publication: a plan that needs a relay which it does not reach is held back, once") {
  PublicationStage stage;
  const auto a = stage.join("a");
  const auto b = stage.join("b");
  const auto relay = stage.join("relay");
  const auto confirm_all = [&](Epoch epoch) {
    REQUIRE(stage.confirm("a", a, epoch));
    REQUIRE(stage.confirm("b", b, epoch));
  };
  stage.publication.begin(plan_at(Epoch(1)), kBegin);
  confirm_all(Epoch(1));
  REQUIRE(stage.confirm("relay", relay, Epoch(1)));
  REQUIRE(stage.publication.settle(kBegin, stage.deferred).activated);
  stage.publication.begin(plan_among(Epoch(2), {"a", "b"}), kBegin);
  confirm_all(Epoch(2));
  const auto patience = kBegin + kInstallPatience;
  const Settlement settlement = stage.publication.settle(patience, stage.deferred);
  CHECK(settlement.plan_again);
  CHECK(settlement.away == Said{"relay"});
  CHECK(stage.publication.kept().collectives.empty());
  // There is no way around it.
  stage.publication.begin(plan_among(Epoch(3), {"a", "b"}), patience);
  confirm_all(Epoch(3));
  CHECK(stage.publication.settle(patience, stage.deferred).activated == Epoch(3));
}

TEST_CASE("publication: where no other plan can be made the one that was held back becomes active") {
  PublicationStage stage;
  const auto a = stage.join("a");
  const auto b = stage.join("b");
  const auto first = plan_of_two(Epoch(1), 1e6, 1e6);
  stage.publication.begin(first, kBegin);
  REQUIRE(stage.confirm("a", a, Epoch(1)));
  REQUIRE(stage.confirm("b", b, Epoch(1)));
  REQUIRE(stage.publication.settle(kBegin, stage.deferred).activated);
  stage.publication.begin(plan_of_two(Epoch(2), 2e6, 2e6, first), kBegin);
  REQUIRE(stage.confirm("a", a, Epoch(2)));
  REQUIRE(stage.publication.settle(kBegin + kInstallPatience, stage.deferred).plan_again);
  stage.publication.begin(nullptr, kBegin);
  CHECK(stage.publication.settle(kBegin + kInstallPatience, stage.deferred).activated == Epoch(2));
  CHECK(stage.publication.active()->plan->epoch == Epoch(2));
}

TEST_CASE("publication: where nodes have other numbers nothing can stay, and nothing is held back") {
  PublicationStage stage;
  const auto a = stage.join("a");
  const auto b = stage.join("b");
  const auto first = plan_of_two(Epoch(1), 1e6, 1e6);
  stage.publication.begin(first, kBegin);
  REQUIRE(stage.confirm("a", a, Epoch(1)));
  REQUIRE(stage.confirm("b", b, Epoch(1)));
  REQUIRE(stage.publication.settle(kBegin, stage.deferred).activated);
  auto other = *plan_of_two(Epoch(2), 2e6, 2e6)->plan;
  std::swap(other.nodes.front(), other.nodes.back());
  const auto plan = std::make_shared<const Plan>(other);
  CHECK_FALSE(can_keep(*first->plan, *plan));
  stage.publication.begin(
      std::make_shared<const PublishedPlan>(PublishedPlan{plan, std::make_shared<const PlanParts>(plan)}),
      kBegin);
  REQUIRE(stage.confirm("a", a, Epoch(2)));
  CHECK(stage.publication.settle(kBegin + kInstallPatience, stage.deferred).activated == Epoch(2));
}
