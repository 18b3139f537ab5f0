// What a master decides, order by order: cases that drawn faults meet too seldom.
#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

#include "ps/master/record.h"
#include "ps/spoken_master.h"

namespace square::ps {

TEST_CASE("a master that begins anew waits for the server of the version that a worker trains on") {
  Spoken spoken;
  spoken.worker(1, "trains", 7);
  spoken.server(2, "empty");
  spoken.pass(std::chrono::milliseconds(50));
  CHECK(spoken.master().committed().version() == 0);
  CHECK_FALSE(spoken.has_heard(1, v1::PsOrder::kSendPush));
  CHECK(spoken.master().answer().waits_for().find("version 7") != std::string::npos);
  spoken.server(3, "full", {record_of(7, 5, {"full"})});
  CHECK(spoken.master().committed().version() == 7);
  CHECK(spoken.has_heard(1, v1::PsOrder::kWelcome));
}

TEST_CASE("a first worker brings the first version") {
  Spoken spoken;
  spoken.worker(1, "first");
  CHECK_FALSE(spoken.has_heard(1, v1::PsOrder::kSendPush));
  spoken.server(2, "empty");
  CHECK(spoken.has_heard(1, v1::PsOrder::kSendPush));
  CHECK(spoken.has_heard(2, v1::PsOrder::kTakePush));
}

TEST_CASE("two members of one name, and another model, are refused") {
  Spoken spoken;
  spoken.server(2, "one", {record_of(3, 5, {"one"})});
  v1::PsReport again;
  again.mutable_hello()->set_protocol_version(kParameterServerProtocol);
  again.mutable_hello()->set_name("one");
  again.mutable_hello()->set_incarnation(10);
  again.mutable_hello()->mutable_server();
  spoken.say(4, again);
  CHECK(spoken.has_heard(4, v1::PsOrder::kRefused));
}

TEST_CASE("a chunk is given once, also where it was claimed and given back") {
  Chunks chunks(6);
  const std::vector<std::uint64_t> claimed{2, 3};
  REQUIRE(chunks.claim("a", claimed));
  chunks.release("a");
  std::vector<std::uint64_t> given = chunks.lease("b", 10);
  std::ranges::sort(given);
  CHECK(given == std::vector<std::uint64_t>{0, 1, 2, 3, 4, 5});
  CHECK_FALSE(chunks.claim("a", claimed));
  chunks.finish(claimed);
  CHECK(chunks.done() == 2);
  CHECK(chunks.held() == 4);
}

TEST_CASE("a doubt ends once a server that would have the version says that it has not got it") {
  Round round;
  round.lose(kTwo);
  CHECK(round.has_heard(kWorker, v1::PsOrder::kCancel));  // of what it sent
  round.let_pass(std::chrono::seconds(4));
  CHECK_FALSE(round.is_skipped());
  round.server(20, "late");  // it stands by, and would have none in any case
  CHECK_FALSE(round.is_skipped());
  round.say_dropped(kOne, round.round() - 1);
  CHECK_FALSE(round.is_skipped());
  SUBCASE("as it comes back without it") { round.server(21, "two", {Round::before()}); }
  SUBCASE("as it comes back with what another attempt left") {
    round.server(21, "two", {Round::before(), record_of(8, 6, {"one", "two"})});
  }
  SUBCASE("as it has dropped it") { round.say_dropped(kOne, round.round()); }
  CHECK(round.is_skipped());
  CHECK(round.master().committed().version() == 7);
}

TEST_CASE("a version that all come back with counts") {
  Round round;
  const std::string line = round.heard(kWorker, v1::PsOrder::kTakeVersion).take_version().line();
  round.lose(kOne);
  round.lose(kTwo);
  round.server(21, "one", {Round::before(), round.made()});
  CHECK_FALSE(round.has_heard(21, v1::PsOrder::kWelcome));  // it would drop it
  CHECK(round.master().committed().version() == 7);
  round.server(22, "two", {Round::before(), round.made()});
  CHECK(round.master().committed().version() == 8);
  CHECK(round.is_told(v1::PsPushOutcome::COMMITTED));
  // What is left of the transfer that broke is not taken for the new one's.
  round.pass(std::chrono::milliseconds(200));
  CHECK(round.heard(kWorker, v1::PsOrder::kTakeVersion).take_version().line() != line);
}

TEST_CASE("what was made before an abort may be dropped, and does not count") {
  Round round;
  round.say_made(kOne, round.round());
  round.lose(kTwo);
  CHECK(round.heard(kOne, v1::PsOrder::kAbort).abort() == round.round());
  round.server(22, "two", {Round::before(), round.made()});
  CHECK(round.master().committed().version() == 7);
  CHECK_FALSE(round.is_skipped());
  round.say_dropped(kOne, round.round());
  CHECK(round.is_skipped());
}

TEST_CASE("a version that takes too long is in doubt, and what is made too late is of no other") {
  TrainingOptions options;
  options.step_timeout = std::chrono::seconds(5);
  Round round(options);
  const std::uint64_t late = round.round();
  round.let_pass(std::chrono::seconds(6));
  CHECK(round.has_heard(kOne, v1::PsOrder::kAbort));
  CHECK_FALSE(round.is_skipped());
  round.say_made(kOne, late);
  round.say_dropped(kTwo, late);
  CHECK(round.is_skipped());
  round.push();
  round.say_made(kOne, late);
  round.say_made(kTwo, late);
  CHECK(round.master().committed().version() == 7);
  round.say_made(kOne, round.round());
  round.say_made(kTwo, round.round());
  CHECK(round.master().committed().version() == 8);
  const std::string penalty = round.made().penalty();
  round.push();
  CHECK(round.made().penalty() != penalty);  // it knows what was judged before
}

TEST_CASE("who stands by may have snapshots of this training only") {
  Round round;
  round.say_made(kOne, round.round());
  round.say_made(kTwo, round.round());
  REQUIRE(round.master().committed().version() == 8);
  round.server(20, "copy", {Round::before()});
  CHECK_FALSE(round.has_heard(20, v1::PsOrder::kRefused));
  v1::PsRecord other = Round::before();
  other.set_training(10);
  round.server(21, "other", {other});
  CHECK(round.has_heard(21, v1::PsOrder::kRefused));
}

TEST_CASE("a worker that trains on a version that was lost, or has others' chunks, starts over") {
  TrainingOptions options;
  options.chunks = 4;
  Round round(options);
  REQUIRE(round.lease(kWorker, 1) == std::vector<std::uint64_t>{1});
  const auto must_start_over = [&](PeerId peer, std::uint64_t base, std::uint64_t maker) {
    round.worker(peer, "other" + std::to_string(peer), base, 0, maker);
    return round.heard(peer, v1::PsOrder::kWelcome).welcome().must_start_over();
  };
  CHECK_FALSE(must_start_over(31, 7, 5));
  CHECK(must_start_over(32, 7, 6));
  CHECK(must_start_over(33, 9, 5));
  round.worker(34, "holds", 7, 0, 5, {1, 2});
  CHECK(round.heard(34, v1::PsOrder::kWelcome).welcome().must_start_over());
  CHECK(round.lease(34, 1) == std::vector<std::uint64_t>{2});
}

TEST_CASE("an open push is found in any version since, if it is of that worker's life") {
  v1::PsRecord record = Round::before();
  v1::PsLastPush& last = *record.add_last_pushes();
  last.set_worker("worker");
  last.set_number(4);
  Spoken spoken;
  SUBCASE("of this one") { last.set_incarnation(9); }
  SUBCASE("of another one") { last.set_incarnation(10); }
  spoken.server(kOne, "one", {record});
  spoken.server(kTwo, "two", {record});
  spoken.worker(kWorker, "worker", 6, 4);
  const auto expected = last.incarnation() == 9 ? v1::PsPushOutcome::COMMITTED : v1::PsPushOutcome::SKIPPED;
  CHECK(spoken.heard(kWorker, v1::PsOrder::kOutcome).outcome().kind() == expected);
}

TEST_CASE("no other first version is made while a server that may have one is away") {
  Spoken spoken;
  spoken.worker(1, "first");
  spoken.server(kOne, "one", {record_of(1, 6, {"one", "two", "away"})});
  spoken.server(kTwo, "two");
  CHECK_FALSE(spoken.has_heard(1, v1::PsOrder::kSendPush));
  CHECK(spoken.master().answer().waits_for().find("away") != std::string::npos);
}

TEST_CASE("servers of a first version that was given up learn of the next one's layout") {
  Spoken spoken;
  spoken.server(kOne, "one");
  spoken.worker(1, "first");
  CHECK(spoken.heard(kOne, v1::PsOrder::kTakePush).take_push().shard().end() == 64);
  spoken.lose(1);
  spoken.server(kTwo, "two");
  spoken.worker(2, "second");
  CHECK(spoken.heard(kOne, v1::PsOrder::kWelcome).welcome().layout().shards_size() == 2);
  CHECK(spoken.heard(kOne, v1::PsOrder::kTakePush).take_push().shard().end() == 32);
}

TEST_CASE("a server that comes back without the newest version is refused") {
  Round round;
  round.say_made(kOne, round.round());
  round.say_made(kTwo, round.round());
  round.lose(kTwo);
  round.server(22, "two", {Round::before()});
  CHECK(round.has_heard(22, v1::PsOrder::kRefused));
  round.server(23, "two", {Round::before(), round.made()});
  CHECK(round.has_heard(23, v1::PsOrder::kWelcome));
}

TEST_CASE("chunks of a push whose worker started over are free once nothing is made of it") {
  TrainingOptions options;
  options.chunks = 4;
  Round round(options);
  round.worker(31, "worker", 9);  // of a version that was lost
  REQUIRE(round.heard(31, v1::PsOrder::kWelcome).welcome().must_start_over());
  CHECK(round.lease(31, 4) == std::vector<std::uint64_t>{1, 2, 3});
  round.lose(kTwo);
  round.say_dropped(kOne, round.round());
  CHECK(round.lease(31, 4) == std::vector<std::uint64_t>{0});
}

TEST_CASE("a push that fails is sent again on another line, and given up after three") {
  TrainingOptions options;
  options.step_timeout = std::chrono::seconds(5);
  Round round(options);
  round.say_made(kOne, round.round());
  round.say_made(kTwo, round.round());
  round.say_push(kWorker, 2, 8);
  const std::uint64_t ticket = round.heard(kTwo, v1::PsOrder::kTakePush).take_push().ticket();
  round.say_taken(kOne);
  SUBCASE("as its line breaks") {
    std::set<std::string> lines;
    for (int i = 0; i < kTransferAttempts; ++i) {
      CHECK(round.outcome(kWorker) == v1::PsPushOutcome::COMMITTED);  // of the one before
      CHECK(lines.insert(round.heard(kTwo, v1::PsOrder::kTakePush).take_push().line()).second);
      round.say_taken(kTwo, unavailable("the line broke"));
    }
  }
  SUBCASE("as it takes too long") { round.let_pass(std::chrono::seconds(6)); }
  SUBCASE("as a server dies, and who has no part of it says that it has") {
    round.server(kLate, "late");
    v1::PsReport report;
    report.mutable_push_taken()->set_ticket(ticket);
    round.say(kLate, report);
    CHECK(round.outcome(kWorker) == v1::PsPushOutcome::COMMITTED);
    round.lose(kTwo);
  }
  CHECK(round.outcome(kWorker) == v1::PsPushOutcome::SKIPPED);
  CHECK(round.heard(kOne, v1::PsOrder::kDropPush).drop_push() == ticket);
}

TEST_CASE("a push that its worker cannot send is sent again on another line, once for each line") {
  Round round;
  round.say_made(kOne, round.round());
  round.say_made(kTwo, round.round());
  round.say_push(kWorker, 2, 8);
  const v1::PsTransfer first = round.heard(kTwo, v1::PsOrder::kTakePush).take_push();
  v1::PsReport report;
  report.mutable_push_failed()->set_ticket(first.ticket());
  report.mutable_push_failed()->set_server("two");
  report.mutable_push_failed()->set_line(first.line());
  *report.mutable_push_failed()->mutable_error() = to_message(cancelled("the line was ended"));
  round.say(kWorker, report);
  const v1::PsTransfer second = round.heard(kTwo, v1::PsOrder::kTakePush).take_push();
  CHECK(second.line() != first.line());
  CHECK(round.heard(kWorker, v1::PsOrder::kSendPush).send_push().line() == second.line());
  round.say(kWorker, report);  // of the first line, which the server had named already
  CHECK(round.heard(kTwo, v1::PsOrder::kTakePush).take_push().line() == second.line());
}

TEST_CASE("a push that waits for its round is skipped when a server dies") {
  Round round;  // the next push waits for the end of the first one's
  round.worker(kLate, "other", 7);
  round.say_push(kLate, 1, 7);
  round.say_taken(kOne);
  round.say_taken(kTwo);
  REQUIRE(round.outcome(kLate) == v1::PsPushOutcome::ACCEPTED);
  round.lose(kTwo);
  CHECK(round.outcome(kLate) == v1::PsPushOutcome::SKIPPED);
  CHECK_FALSE(round.is_skipped());
}

TEST_CASE("what may not be pushed is refused, and its chunks are others'") {
  TrainingOptions options;
  options.chunks = 4;
  Round round(options);
  round.worker(kLate, "other", 7);
  REQUIRE(round.lease(kLate, 1) == std::vector<std::uint64_t>{1});
  SUBCASE("chunks that it does not hold") { round.say_push(kLate, 1, 7, {1, 2}); }
  SUBCASE("from a version that is not known") { round.say_push(kLate, 1, 8, {1}); }
  SUBCASE("from none") { round.say_push(kLate, 1, 0, {1}); }
  CHECK(round.outcome(kLate) == v1::PsPushOutcome::REFUSED);
  CHECK(round.lease(kWorker, 1) == std::vector<std::uint64_t>{1});
}

TEST_CASE("chunks of work that a worker has dropped are others'") {
  TrainingOptions options;
  options.chunks = 4;
  Round round(options);
  round.worker(kLate, "other", 7);
  REQUIRE(round.lease(kLate, 1) == std::vector<std::uint64_t>{1});
  v1::PsReport report;
  report.mutable_adopted()->set_version(7);
  SUBCASE("all of it") { report.mutable_adopted()->set_has_dropped_work(true); }
  SUBCASE("none") {}
  round.say(kLate, report);
  const std::uint64_t next = report.adopted().has_dropped_work() ? 1 : 2;
  CHECK(round.lease(kWorker, 1) == std::vector<std::uint64_t>{next});
}

TEST_CASE("a worker has one push at a time") {
  Round round;
  round.say_push(kWorker, 2, 7);
  CHECK(round.outcome(kWorker) == v1::PsPushOutcome::SKIPPED);
  CHECK(round.heard(kWorker, v1::PsOrder::kOutcome).outcome().number() == 2);
}

TEST_CASE("an open push whose chunks are others' by now is refused") {
  TrainingOptions options;
  options.chunks = 4;
  Round round(options);
  v1::PsReport report;
  v1::PsHello& hello = *report.mutable_hello();
  hello.set_protocol_version(kParameterServerProtocol);
  hello.set_name("other");
  *hello.mutable_worker()->mutable_model() = small_model();
  hello.mutable_worker()->set_base_version(7);
  hello.mutable_worker()->set_base_maker(5);
  hello.mutable_worker()->set_open_push(3);
  SUBCASE("free") { hello.mutable_worker()->add_open_chunks(1); }
  SUBCASE("another worker's") { hello.mutable_worker()->add_open_chunks(0); }
  round.say(kLate, report);
  CHECK(round.outcome(kLate) ==
        (hello.worker().open_chunks(0) == 1 ? v1::PsPushOutcome::SKIPPED : v1::PsPushOutcome::REFUSED));
}

}  // namespace square::ps
