#include "controller/planner_turns.h"

#include <doctest/doctest.h>

#include <chrono>

using namespace square;
using namespace square::controller;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

const TimePoint kNow{std::chrono::hours(1)};

}  // namespace

TEST_CASE("a tenant with expensive plans waits twice their time, where others ask") {
  PlannerTurns turns;
  turns.ask("a", kNow);
  turns.charge("a", seconds(3), kNow);
  CHECK(turns.due("a") <= kNow);  // alone
  turns.ask("b", kNow);
  CHECK(turns.due("b") <= kNow);
  CHECK(turns.due("a") == kNow + seconds(6) - milliseconds(200));
  // What it has not paid yet comes on top, what was idle does not count.
  turns.charge("a", seconds(1), kNow + seconds(4));
  CHECK(turns.due("a") == kNow + seconds(8) - milliseconds(200));
  turns.charge("a", seconds(1), kNow + seconds(20));
  CHECK(turns.due("a") == kNow + seconds(22) - milliseconds(200));
}

TEST_CASE("cheap plans cost no wait") {
  PlannerTurns turns;
  turns.ask("a", kNow);
  turns.ask("b", kNow);
  for (int i = 0; i < 100; ++i) turns.charge("a", milliseconds(5), kNow + milliseconds(20 * i));
  CHECK(turns.due("a") <= kNow + milliseconds(20 * 100));
}

TEST_CASE("tenants that ask no more are forgotten") {
  PlannerTurns turns;
  turns.ask("b", kNow);
  turns.ask("a", kNow + PlannerTurns::kMemory);
  turns.charge("a", seconds(100), kNow + PlannerTurns::kMemory);
  CHECK(turns.due("a") > kNow + PlannerTurns::kMemory);
  turns.ask("a", kNow + PlannerTurns::kMemory + seconds(1));
  CHECK(turns.due("a") <= kNow);
}
