#include "controller/session_numbers.h"

#include <doctest/doctest.h>

using namespace square;
using namespace square::controller;

namespace {

PlanSession session(std::uint32_t id, std::uint32_t collective, SessionKind kind,
                    const std::vector<std::uint32_t>& members) {
  PlanSession made;
  made.id = SessionId(id);
  made.collective = CollectiveId(collective);
  made.kind = kind;
  made.root = NodeId(members.front());
  for (const auto member : members) made.members.emplace_back(member);
  return made;
}

Plan plan_of(std::vector<PlanSession> sessions) {
  Plan plan;
  plan.sessions = std::move(sessions);
  for (const PlanSession& entry : plan.sessions) {
    const PlanCollective* const known = plan.find_collective(entry.collective);
    if (known == nullptr) {
      plan.collectives.emplace_back();
      plan.collectives.back().id = entry.collective;
    }
    for (PlanCollective& collective : plan.collectives) {
      if (collective.id == entry.collective) collective.sessions.push_back(entry.id);
    }
  }
  return plan;
}

std::vector<std::uint32_t> ids(const Plan& plan) {
  std::vector<std::uint32_t> found;
  for (const PlanSession& entry : plan.sessions) found.push_back(entry.id.value());
  return found;
}

using Ids = std::vector<std::uint32_t>;

}  // namespace

TEST_CASE("what proves a plan follows the sessions to their numbers") {
  SessionNumbers numbers;
  Plan first = plan_of({session(0, 5, SessionKind::kMulticast, {0, 1, 2})});
  renumber_sessions(first, numbers);
  Plan second = plan_of(
      {session(0, 2, SessionKind::kMulticast, {0, 1, 2}), session(1, 5, SessionKind::kMulticast, {0, 2, 1})});
  second.certificate.levels.push_back({});
  second.certificate.levels[0].packings = {{SessionId(0), {}}, {SessionId(1), {}}};
  renumber_sessions(second, numbers);
  CHECK(second.certificate.levels[0].packings[0].session == SessionId(1));
  CHECK(second.certificate.levels[0].packings[1].session == SessionId(0));
}

TEST_CASE("a session keeps its number when others come before it") {
  SessionNumbers numbers;
  Plan first = plan_of({session(0, 5, SessionKind::kMulticast, {0, 1, 2})});
  renumber_sessions(first, numbers);
  CHECK(ids(first) == Ids{0});
  // The planner numbers from 0 in order; the members in another order are the same.
  Plan second = plan_of(
      {session(0, 2, SessionKind::kMulticast, {0, 1, 2}), session(1, 5, SessionKind::kMulticast, {0, 2, 1})});
  renumber_sessions(second, numbers);
  CHECK(ids(second) == Ids{0, 1});
  CHECK(second.find_session(SessionId(0))->collective == CollectiveId(5));
  CHECK(second.find_collective(CollectiveId(2))->sessions == std::vector{SessionId(1)});
  CHECK(second.find_collective(CollectiveId(5))->sessions == std::vector{SessionId(0)});
}

TEST_CASE("another kind, root or set of destinations is another session") {
  SessionNumbers numbers;
  Plan first = plan_of({session(0, 0, SessionKind::kMulticast, {0, 1})});
  renumber_sessions(first, numbers);
  Plan second =
      plan_of({session(0, 0, SessionKind::kUnicast, {0, 1}), session(1, 0, SessionKind::kMulticast, {1, 0}),
               session(2, 0, SessionKind::kMulticast, {0, 1, 2})});
  renumber_sessions(second, numbers);
  CHECK(ids(second) == Ids{1, 2, 3});
  Plan third = plan_of({session(0, 0, SessionKind::kMulticast, {0, 1})});
  renumber_sessions(third, numbers);
  CHECK(ids(third) == Ids{0});
}

TEST_CASE("sessions that are alike are told apart by their order") {
  SessionNumbers numbers;
  for (int round = 0; round < 2; ++round) {
    Plan plan =
        plan_of({session(0, 0, SessionKind::kReduce, {0, 1}), session(1, 0, SessionKind::kReduce, {0, 1})});
    plan.sessions[0].pair = SessionId(1);
    plan.sessions[1].pair = SessionId(0);
    renumber_sessions(plan, numbers);
    CHECK(ids(plan) == Ids{0, 1});
    CHECK(plan.sessions[0].pair == SessionId(1));
  }
}

TEST_CASE("numbers of collectives that left are not given again") {
  SessionNumbers numbers;
  Plan first = plan_of({session(0, 0, SessionKind::kMulticast, {0, 1})});
  renumber_sessions(first, numbers);
  Plan second = plan_of({session(0, 1, SessionKind::kMulticast, {0, 1})});
  renumber_sessions(second, numbers);
  CHECK(ids(second) == Ids{1});
  CHECK(numbers.known.size() == 1);
}
