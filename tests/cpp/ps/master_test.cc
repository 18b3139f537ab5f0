// What a master decides, order by order: cases that drawn faults meet too seldom.
#include "ps/master/master.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ps/master/record.h"

namespace square::ps {
namespace {

v1::PsModel small_model() {
  v1::PsModel model;
  v1::PsTensor& tensor = *model.add_tensors();
  tensor.set_name("all");
  tensor.set_dtype("float32");
  tensor.add_shape(64);
  return model;
}

// Of this layout each has as much.
v1::PsRecord record_of(std::uint64_t version, std::uint64_t maker, const std::vector<std::string>& servers) {
  v1::PsRecord record;
  record.set_version(version);
  record.set_maker(maker);
  record.set_training(9);
  for (std::size_t i = 0; i < servers.size(); ++i) {
    v1::PsShard& shard = *record.mutable_layout()->add_shards();
    shard.set_server(servers[i]);
    shard.set_begin(64 * i / servers.size());
    shard.set_end(64 * (i + 1) / servers.size());
  }
  return record;
}

// A master, and what it says to each line.
class Spoken {
 public:
  explicit Spoken(TrainingOptions options = {})
      : master_(
            std::move(options), 77,
            [this](PeerId peer, v1::PsOrder order) { said_[peer].push_back(std::move(order)); },
            [](PeerId) {}) {}

  void say(PeerId peer, const v1::PsReport& report) { master_.on_report(peer, report, now_); }
  void lose(PeerId peer) { master_.on_line_lost(peer, now_); }
  void pass(Duration time) { master_.on_time(now_ += time); }
  MasterState& master() { return master_; }
  // What it said last of that kind; of no kind: it said none.
  [[nodiscard]] v1::PsOrder heard(PeerId peer, v1::PsOrder::WhatCase what) {
    v1::PsOrder last;
    for (const v1::PsOrder& order : said_[peer]) {
      if (order.what_case() == what) last = order;
    }
    return last;
  }
  [[nodiscard]] bool has_heard(PeerId peer, v1::PsOrder::WhatCase what) {
    return heard(peer, what).what_case() == what;
  }

  void server(PeerId peer, const std::string& name, const std::vector<v1::PsRecord>& held = {}) {
    v1::PsReport report = hello(name);
    v1::PsServerHello& server = *report.mutable_hello()->mutable_server();
    if (!held.empty()) *server.mutable_model() = small_model();
    for (const v1::PsRecord& record : held) *server.add_held()->mutable_record() = record;
    say(peer, report);
  }
  void worker(PeerId peer, const std::string& name, std::uint64_t base = 0, std::uint64_t open_push = 0,
              std::uint64_t base_maker = 5, const std::vector<std::uint64_t>& leases = {}) {
    v1::PsReport report = hello(name);
    v1::PsWorkerHello& worker = *report.mutable_hello()->mutable_worker();
    *worker.mutable_model() = small_model();
    worker.set_base_version(base);
    worker.set_base_maker(base_maker);
    worker.set_open_push(open_push);
    for (const std::uint64_t chunk : leases) worker.add_leases(chunk);
    say(peer, report);
  }

 private:
  static v1::PsReport hello(const std::string& name) {
    v1::PsReport report;
    report.mutable_hello()->set_protocol_version(kParameterServerProtocol);
    report.mutable_hello()->set_name(name);
    report.mutable_hello()->set_incarnation(9);
    return report;
  }

  TimePoint now_{std::chrono::seconds(1)};
  std::map<PeerId, std::vector<v1::PsOrder>> said_;
  MasterState master_;
};

constexpr PeerId kOne = 11;
constexpr PeerId kTwo = 12;
constexpr PeerId kWorker = 13;
constexpr PeerId kLate = 14;

// Servers "one" and "two" and a worker at version 7, whose push is in version 8.
class Round : public Spoken {
 public:
  explicit Round(const TrainingOptions& options = {}) : Spoken(options) {
    server(kOne, "one", {before()});
    server(kTwo, "two", {before()});
    worker(kWorker, "worker", 7);
    push();
  }

  static v1::PsRecord before() { return record_of(7, 5, {"one", "two"}); }
  void say_push(PeerId peer, std::uint64_t number, std::uint64_t base,
                const std::vector<std::uint64_t>& chunks = {}) {
    v1::PsReport report;
    report.mutable_push()->set_number(number);
    report.mutable_push()->set_base_version(base);
    report.mutable_push()->set_tokens(1);
    for (const std::uint64_t chunk : chunks) report.mutable_push()->add_chunks(chunk);
    say(peer, report);
  }
  void say_taken(PeerId peer, const Status& status = {}) {
    v1::PsReport report;
    report.mutable_push_taken()->set_ticket(heard(peer, v1::PsOrder::kTakePush).take_push().ticket());
    report.mutable_push_taken()->set_squared_norm(1);
    if (!status.is_ok()) *report.mutable_push_taken()->mutable_error() = to_message(status);
    say(peer, report);
  }
  // From the newest version, until both servers are to make one of it.
  void push() {
    v1::PsReport report;
    say_push(kWorker, ++pushes_, master().committed().version(), lease(kWorker, 1));
    for (const PeerId peer : {kOne, kTwo}) {
      say_taken(peer);
    }
    for (const PeerId peer : {kOne, kTwo}) {
      report.mutable_averaged()->set_round(heard(peer, v1::PsOrder::kAverage).average().round());
      report.mutable_averaged()->set_squared_norm(1);
      say(peer, report);
    }
    REQUIRE(made().version() == master().committed().version() + 1);
  }
  std::vector<std::uint64_t> lease(PeerId peer, std::uint32_t chunks) {
    v1::PsReport report;
    report.mutable_lease()->set_chunks(chunks);
    say(peer, report);
    const v1::PsOrder order = heard(peer, v1::PsOrder::kLeases);
    return {order.leases().chunks().begin(), order.leases().chunks().end()};
  }
  // What the servers make, and in which round.
  v1::PsRecord made() { return heard(kOne, v1::PsOrder::kMake).make().record(); }
  std::uint64_t round() { return heard(kOne, v1::PsOrder::kMake).make().round(); }
  void say_made(PeerId peer, std::uint64_t round) {
    v1::PsReport report;
    report.mutable_made()->set_round(round);
    say(peer, report);
  }
  void say_dropped(PeerId peer, std::uint64_t round) {
    v1::PsReport report;
    report.mutable_dropped()->set_round(round);
    say(peer, report);
  }
  // All are heard of meanwhile.
  void let_pass(Duration time) {
    v1::PsReport beat;
    beat.set_beat(true);
    for (Duration left = time; left > Duration(0); left -= std::chrono::milliseconds(500)) {
      for (PeerId peer = kOne; peer <= kLate + 1; ++peer) say(peer, beat);
      pass(std::chrono::milliseconds(500));
    }
  }
  bool is_told(v1::PsPushOutcome::Kind kind) {
    const v1::PsOrder order = heard(kWorker, v1::PsOrder::kOutcome);
    return order.has_outcome() && order.outcome().number() == pushes_ && order.outcome().kind() == kind;
  }
  v1::PsPushOutcome::Kind outcome(PeerId peer) { return heard(peer, v1::PsOrder::kOutcome).outcome().kind(); }
  bool is_skipped() { return is_told(v1::PsPushOutcome::SKIPPED); }

 private:
  std::uint64_t pushes_ = 0;
};

}  // namespace

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
