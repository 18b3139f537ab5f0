// Demands from their arrival to their answer, without the coordinator.
#include "controller/requests.h"

#include <doctest/doctest.h>

using namespace square;
using namespace square::controller;

namespace {

constexpr Duration kPatienceOfRequests = std::chrono::seconds(5);
constexpr Requests::TimePoint kArrival{std::chrono::hours(1)};

GroupSpec group_at(const std::string& name, std::vector<std::string> nodes) {
  return {name, "tenant", std::move(nodes), {{CollectiveOp::kBroadcast, Rank(0), 1.0, 0}}};
}

struct Client {
  Requests requests{kPatienceOfRequests};
  std::vector<Result<Answer>> answers;
  std::vector<std::string> awaited;
  Deferred deferred;

  void ask(Demand demand) {
    Reply reply = [this](const Result<Answer>& answer) { answers.push_back(answer); };
    REQUIRE(requests.add(std::move(demand), reply, kArrival).is_ok());
  }
  // Of those whose first node is not "absent".
  std::vector<const Demand*> take(Requests::TimePoint now = kArrival) {
    return requests.take_batch(now, [](const GroupSpec& group) { return group.nodes[0] == "absent"; });
  }
  void answer_planned() {
    requests.answer_planned([this](Epoch) { return awaited; }, deferred);
  }
  std::vector<Result<Answer>> answered() {
    for (const auto& action : deferred) action();
    deferred.clear();
    return std::exchange(answers, {});
  }
};

}  // namespace

TEST_CASE("requests: what is admitted waits for its plan, what is refused does not") {
  Client client;
  client.ask(group_at("g", {"a", "b"}));
  client.ask(PolicySpec{});
  REQUIRE(client.take().size() == 2);
  client.ask(group_at("later", {"a"}));  // of the next batch
  client.requests.judge({{Status::ok(), {CollectiveId(7)}}, {invalid_argument("no such policy"), {}}},
                        client.deferred);
  CHECK(client.requests.has_planned());
  auto answers = client.answered();
  REQUIRE(answers.size() == 1);
  CHECK(answers[0].status() == invalid_argument("no such policy"));
  client.answer_planned();
  CHECK(client.answered().empty());  // not active yet
  client.requests.note({{}, Epoch(3)});
  client.answer_planned();
  CHECK_FALSE(client.requests.has_planned());
  answers = client.answered();
  REQUIRE(answers.size() == 1);
  REQUIRE(answers[0].is_ok());
  CHECK(answers[0]->collectives == std::vector{CollectiveId(7)});
  CHECK(answers[0]->epoch == Epoch(3));
  CHECK(client.take().size() == 1);
}

TEST_CASE("requests: late nodes matter to their groups, and to all that is no group") {
  Client client;
  client.ask(group_at("with", {"a", "late"}));
  client.ask(group_at("without", {"a", "b"}));
  client.ask(PolicySpec{});
  REQUIRE(client.take().size() == 3);
  client.requests.judge(std::vector<Verdict>(3), client.deferred);
  client.requests.note({{"late", "later"}, Epoch(1)});
  client.answer_planned();
  const auto answers = client.answered();
  REQUIRE(answers.size() == 3);
  CHECK(answers[0].status() ==
        deadline_exceeded(
            "members of the group did not install the plan within 5 s and was disconnected: late"));
  CHECK(answers[1].is_ok());
  CHECK(answers[2].status() ==
        deadline_exceeded("nodes did not install the plan within 5 s and were disconnected: late, later"));
}

TEST_CASE(
    "requests: an active plan is waited for by the groups of those that lag, and by all that is no group") {
  Client client;
  client.ask(group_at("with", {"a", "lag"}));
  client.ask(group_at("without", {"a", "b"}));
  client.ask(PolicySpec{});
  REQUIRE(client.take().size() == 3);
  client.requests.judge(std::vector<Verdict>(3), client.deferred);
  client.requests.note({{}, Epoch(1)});
  client.awaited = {"lag"};
  client.answer_planned();
  CHECK(client.answered().size() == 1);
  client.requests.note({{}, Epoch(2)});  // a later one: the first is what they asked for
  client.answer_planned();
  CHECK(client.answered().empty());
  SUBCASE("until it has installed the plan") {
    client.awaited = {"other"};
    client.answer_planned();
    const auto answers = client.answered();
    REQUIRE(answers.size() == 1);
    REQUIRE(answers[0].is_ok());
    CHECK(answers[0]->epoch == Epoch(1));
    client.awaited = {};
    client.answer_planned();
    CHECK(client.answered().size() == 1);
  }
  SUBCASE("or is late") {
    client.requests.note({{"lag"}, std::nullopt});
    client.answer_planned();
    const auto answers = client.answered();
    REQUIRE(answers.size() == 2);
    for (const auto& answer : answers) CHECK(answer.status().code() == StatusCode::kDeadlineExceeded);
  }
}

TEST_CASE("requests: who is told what of a group is known, and nobody has failed while another there waits") {
  Client client;
  const auto ask = [&](const std::string& node, std::vector<std::string> nodes) {
    GroupSpec spec = group_at("g", std::move(nodes));
    spec.registrant = node;
    client.ask(spec);
  };
  using Names = std::vector<std::string>;
  const auto check_told = [&](const Names& in, const Names& out) {
    const auto told = client.requests.answer_planned([&](Epoch) { return client.awaited; }, client.deferred);
    REQUIRE(told.size() == 1);
    CHECK(told.begin()->first == std::pair(std::string("g"), std::uint64_t{4}));
    CHECK(told.begin()->second.in == in);
    CHECK(told.begin()->second.out == out);
  };
  const auto judge = [&](std::size_t count) {
    REQUIRE(client.take().size() == count);
    client.requests.judge(std::vector<Verdict>(count, Verdict{Status::ok(), {}, 4}), client.deferred);
  };
  ask("b", {"a", "b", "late"});
  judge(1);
  client.requests.note({{"late"}, Epoch(1)});
  ask("a", {"a", "b"});
  ask("b", {"a", "b"});
  judge(2);
  check_told({}, {});  // another member on b waits for its plan
  client.requests.note({{}, Epoch(2)});
  check_told({"a", "b"}, {});
  ask("b", {"a", "b", "late"});
  ask("a", {"a", "b"});
  judge(2);
  client.requests.note({{"late"}, Epoch(3)});
  check_told({"a"}, {"b"});
}

TEST_CASE("requests: a group waits for its nodes, but not for ever") {
  Client client;
  client.ask(group_at("early", {"absent"}));
  client.ask(Topology{});
  CHECK(client.take().size() == 1);
  client.requests.judge(std::vector<Verdict>(1), client.deferred);
  CHECK(client.requests.next_end(kArrival, Requests::TimePoint::max()) == kArrival + kPatienceOfRequests);
  CHECK(client.take().empty());
  CHECK(client.take(kArrival + kPatienceOfRequests).size() == 1);
  CHECK(client.requests.next_end(kArrival, Requests::TimePoint::max()) == Requests::TimePoint::max());
}

TEST_CASE("requests: all are failed, each once, wherever they are") {
  Client client;
  client.ask(group_at("planned", {"a"}));
  REQUIRE(client.take().size() == 1);
  client.requests.judge(std::vector<Verdict>(1), client.deferred);
  client.ask(group_at("batch", {"a"}));
  const auto batch = client.take();
  REQUIRE(batch.size() == 1);
  client.ask(group_at("pending", {"a"}));
  client.requests.fail_all(unavailable("over"), client.deferred);
  auto answers = client.answered();
  REQUIRE(answers.size() == 3);
  for (const auto& answer : answers) CHECK(answer.status() == unavailable("over"));
  // Still there: a planner may be reading it.
  CHECK(std::get<GroupSpec>(*batch[0]).name == "batch");
  client.requests.judge({{invalid_argument("too late"), {}}}, client.deferred);
  client.requests.fail_all(unavailable("again"), client.deferred);
  CHECK(client.answered().empty());
}

TEST_CASE("requests: too many are refused") {
  Requests requests(kPatienceOfRequests);
  int answers = 0;
  Reply reply;
  bool all_taken = true;
  for (std::size_t i = 0; i < kMaxPendingRequests; ++i) {
    reply = [&](const Result<Answer>&) { ++answers; };
    all_taken = requests.add(PolicySpec{}, reply, kArrival).is_ok() && all_taken;
  }
  CHECK(all_taken);
  reply = [&](const Result<Answer>&) { ++answers; };
  const Status refused = requests.add(PolicySpec{}, reply, kArrival);
  CHECK(refused.code() == StatusCode::kResourceExhausted);
  reply(refused);  // it is the caller's still
  CHECK(answers == 1);
}

TEST_CASE("requests: who asked for an expensive plan waits, others do not, and nobody for ever") {
  Client client;
  GroupSpec dear = group_at("dear", {"a", "b"});
  dear.collectives.front().op = CollectiveOp::kAllToAll;
  GroupSpec cheap = group_at("cheap", {"a", "b"});
  cheap.tenant = "other";
  client.ask(dear);
  REQUIRE(client.take().size() == 1);
  client.requests.charge(std::chrono::seconds(20), kArrival);
  client.requests.judge(std::vector<Verdict>(1), client.deferred);
  client.ask(dear);
  client.ask(cheap);
  REQUIRE(client.take().size() == 1);
  client.requests.charge(std::chrono::milliseconds(1), kArrival);
  client.requests.judge(std::vector<Verdict>(1), client.deferred);
  CHECK(client.take().empty());
  CHECK(client.requests.next_end(kArrival, Requests::TimePoint::max()) == kArrival + kPatienceOfRequests);
  CHECK(client.take(kArrival + kPatienceOfRequests).size() == 1);
}
