// When shards move, order by order: cases that drawn faults meet too seldom.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "ps/master/record.h"
#include "ps/spoken_master.h"

namespace square::ps {

TEST_CASE("a move that never counted does not wait for a newcomer that is gone for good") {
  const v1::PsRecord before = Round::before();
  const v1::PsRecord moved = record_of(8, 6, {"one", "two", "late"});
  Spoken spoken;
  spoken.server(kOne, "one", {before, moved});
  SUBCASE("as another server has not got it") {
    spoken.server(kTwo, "two", {before});
    CHECK(spoken.master().committed().version() == 7);
  }
  SUBCASE("as another server has what another attempt left") {
    spoken.server(kTwo, "two", {before, record_of(8, 4, {"one", "two", "late"})});
    CHECK(spoken.master().committed().version() == 7);
  }
  SUBCASE("unless it may have counted") {
    spoken.server(kTwo, "two", {before, moved});
    CHECK(spoken.master().committed().version() == 0);
    CHECK(spoken.master().answer().waits_for().find("late") != std::string::npos);
    spoken.server(20, "late");
    CHECK(spoken.master().committed().version() == 7);
  }
}

TEST_CASE("a move waits for pushes under way, and lets no other begin") {
  Round round;
  round.server(kLate, "late");
  round.let_pass(std::chrono::seconds(2));
  CHECK_FALSE(round.has_heard(kLate, v1::PsOrder::kMove));
  round.worker(kLate + 1, "other", 7);
  round.say_push(kLate + 1, 1, 7);
  CHECK(round.outcome(kLate + 1) == v1::PsPushOutcome::SKIPPED);
  CHECK_FALSE(round.has_heard(kLate + 1, v1::PsOrder::kSendPush));
  round.say_made(kOne, round.round());
  round.say_made(kTwo, round.round());
  round.let_pass(std::chrono::milliseconds(500));
  CHECK(round.heard(kLate, v1::PsOrder::kMove).move().record().version() == 9);
  CHECK(round.heard(kLate, v1::PsOrder::kWelcome).welcome().layout().shards_size() == 3);
}

TEST_CASE("a move that fails is tried later on other lines, and its newcomer stands by") {
  Round round;
  round.say_made(kOne, round.round());
  round.say_made(kTwo, round.round());
  round.server(kLate, "late");
  round.let_pass(std::chrono::milliseconds(1500));
  const v1::PsMove first = round.heard(kLate, v1::PsOrder::kMove).move();
  REQUIRE(first.takes_size() > 0);
  v1::PsReport report;
  report.mutable_made()->set_round(first.round());
  *report.mutable_made()->mutable_error() = to_message(resource_exhausted("no space left"));
  round.say(kTwo, report);
  CHECK(round.heard(kLate, v1::PsOrder::kAbort).abort() == first.round());
  round.let_pass(std::chrono::seconds(4));
  CHECK(round.heard(kLate, v1::PsOrder::kMove).move().round() == first.round());
  SUBCASE("it comes again") {
    round.let_pass(std::chrono::milliseconds(1500));
    const v1::PsMove second = round.heard(kLate, v1::PsOrder::kMove).move();
    CHECK(second.round() == first.round() + 1);
    CHECK(second.record().maker() != first.record().maker());
    CHECK(second.takes(0).line() != first.takes(0).line());
  }
  SUBCASE("it dies, and nobody minds") {
    round.push();
    round.lose(kLate);
    CHECK_FALSE(round.heard(kOne, v1::PsOrder::kAbort).abort() == round.round());
    round.say_made(kOne, round.round());
    round.say_made(kTwo, round.round());
    round.let_pass(std::chrono::seconds(5));
    CHECK(round.heard(kLate, v1::PsOrder::kMove).move().round() == first.round());
    CHECK(round.master().committed().version() == 9);
  }
}

TEST_CASE("nothing moves while a server is away") {
  Round round;
  round.say_made(kOne, round.round());
  round.say_made(kTwo, round.round());
  round.server(kLate, "late");
  round.lose(kTwo);
  round.let_pass(std::chrono::seconds(3));
  CHECK_FALSE(round.has_heard(kLate, v1::PsOrder::kMove));
  round.server(kTwo, "two", {round.made()});
  round.lose(kLate);  // nor to a newcomer that is gone
  round.let_pass(std::chrono::milliseconds(500));
  CHECK_FALSE(round.has_heard(kOne, v1::PsOrder::kMove));
  round.server(kLate, "late");
  round.let_pass(std::chrono::milliseconds(1500));
  CHECK(round.has_heard(kLate, v1::PsOrder::kMove));
}

TEST_CASE("moves are no rounds to those that are behind") {
  v1::PsRecord record;
  record.set_version(10);
  record.add_moves(5);
  record.add_moves(9);
  CHECK(rounds_since(record, 10) == 0);
  CHECK(rounds_since(record, 9) == 1);
  CHECK(rounds_since(record, 8) == 1);
  CHECK(rounds_since(record, 5) == 4);
  CHECK(rounds_since(record, 4) == 4);
  for (std::uint64_t version = 11; version < 111; ++version) {
    record.set_version(version);
    note_move(record);
  }
  CHECK(record.moves_size() == 64);
  CHECK(rounds_since(record, 100) == 0);
}

}  // namespace square::ps
