// What asks for a plan, without the coordinator.
#include "controller/agenda.h"

#include <doctest/doctest.h>

using namespace square;
using namespace square::controller;
using namespace std::chrono_literals;

TEST_CASE("agenda: what can wait is due when the rest is over, what cannot at once, and each wakes") {
  int woken = 0;
  Agenda agenda([&woken] { ++woken; });
  const TimePoint now{1h};
  agenda.note(Urgency::kNone);
  CHECK_FALSE(agenda.is_due(TimePoint::min(), now));
  CHECK(woken == 0);
  agenda.note(Urgency::kCanWait);
  CHECK(woken == 1);
  CHECK(agenda.has_change());
  CHECK_FALSE(agenda.is_due(now + 1ns, now));
  CHECK(agenda.is_due(now, now));
  CHECK_FALSE(agenda.is_urgent());
  agenda.note();
  CHECK(woken == 2);
  CHECK(agenda.is_due(now + 1s, now));
  agenda.clear();
  CHECK_FALSE(agenda.is_due(TimePoint::min(), now));
}
