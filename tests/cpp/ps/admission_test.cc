// What a master believes of members, order by order, and what it does not.
#include <doctest/doctest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "ps/held.h"
#include "ps/spoken_master.h"

namespace square::ps {
namespace {

constexpr PeerId kHostile = 15;

v1::PsReport hello_of(const std::string& name, std::uint64_t incarnation = 9) {
  v1::PsReport report;
  report.mutable_hello()->set_protocol_version(kParameterServerProtocol);
  report.mutable_hello()->set_name(name);
  report.mutable_hello()->set_incarnation(incarnation);
  return report;
}

v1::PsReport server_hello(const std::string& name, const std::vector<v1::PsRecord>& held) {
  v1::PsReport report = hello_of(name);
  v1::PsServerHello& server = *report.mutable_hello()->mutable_server();
  *server.mutable_model() = small_model();
  for (const v1::PsRecord& record : held) *server.add_held()->mutable_record() = record;
  return report;
}

v1::PsRecord moved_to(std::uint64_t version, const std::vector<std::string>& servers) {
  v1::PsRecord record = record_of(version, 6, servers);
  record.add_moves(version);
  return record;
}

bool knows(Spoken& spoken, const std::string& name) {
  const v1::PsAnswer answer = spoken.master().answer();
  for (const v1::PsMember& member : answer.members()) {
    if (member.name() == name) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("a hello that no member says is refused, and the master goes on") {
  Spoken spoken;
  v1::PsReport report = server_hello("s", {record_of(5, 5, {"s"})});
  v1::PsServerHello& server = *report.mutable_hello()->mutable_server();
  v1::PsRecord& record = *server.mutable_held(0)->mutable_record();
  bool is_good = false;
  SUBCASE("one that is good") { is_good = true; }
  SUBCASE("one of the next release, which speaks this one's protocol too") {
    is_good = true;
    report.mutable_hello()->set_newest_version(kParameterServerProtocol + 1);
  }
  SUBCASE("of a later protocol") {
    report.mutable_hello()->set_protocol_version(kParameterServerProtocol + 1);
  }
  SUBCASE("of neither role") { report.mutable_hello()->clear_server(); }
  SUBCASE("a version without a layout") { record.clear_layout(); }
  SUBCASE("a version without a model") { server.clear_model(); }
  SUBCASE("of a model without elements") { server.mutable_model()->mutable_tensors(0)->set_shape(0, 0); }
  SUBCASE("of a larger model") { server.mutable_model()->mutable_tensors(0)->set_shape(0, 65); }
  SUBCASE("no version") { record.set_version(0); }
  SUBCASE("a version after which none can be") {
    record.set_version(std::numeric_limits<std::uint64_t>::max());
  }
  SUBCASE("a layout with a gap") { record.mutable_layout()->mutable_shards(0)->set_begin(1); }
  SUBCASE("a layout that ends before it begins") {
    *record.mutable_layout() = record_of(5, 5, {"s", "t"}).layout();
    record.mutable_layout()->mutable_shards(0)->set_end(70);
    record.mutable_layout()->mutable_shards(1)->set_begin(70);
  }
  SUBCASE("a layout with a server twice") { *record.mutable_layout() = record_of(5, 5, {"s", "s"}).layout(); }
  SUBCASE("a layout with a server without a name") {
    *record.mutable_layout() = record_of(5, 5, {"s", ""}).layout();
  }
  SUBCASE("moves in another order") {
    record.add_moves(4);
    record.add_moves(3);
  }
  SUBCASE("a move that comes later") { record.add_moves(6); }
  SUBCASE("chunks that overlap") {
    for (const std::uint64_t begin : {0, 1}) {
      record.add_chunks_done()->set_begin(begin);
      record.mutable_chunks_done()->rbegin()->set_end(begin + 2);
    }
  }
  SUBCASE("too many versions") {
    for (int i = 0; i < kMaxHeldVersions; ++i) *server.add_held() = server.held(0);
  }
  SUBCASE("too large") {
    server.mutable_held(0)->mutable_record()->set_penalty(std::string(kMaxHelloBytes, 'x'));
  }
  spoken.say(1, report);
  CHECK(spoken.has_heard(1, v1::PsOrder::kRefused) != is_good);
  CHECK(knows(spoken, "s") == is_good);
  CHECK((spoken.master().committed().version() == 5) == is_good);
  spoken.server(2, "newcomer");  // of which a layout would be made
  spoken.worker(3, "worker", 0);
  spoken.pass(std::chrono::seconds(2));
  CHECK(spoken.has_heard(3, is_good ? v1::PsOrder::kTakeVersion : v1::PsOrder::kSendPush));
}

TEST_CASE("a server that says it has all of a later version gets no other server's snapshots dropped") {
  const std::vector<v1::PsRecord> kept = {record_of(3, 5, {"honest"}), record_of(4, 5, {"honest"})};
  const v1::PsRecord claimed = record_of(1'000'000, 7, {"evil"});
  Spoken spoken;
  SUBCASE("it comes first") {
    spoken.server(kHostile, "evil", {claimed});
    REQUIRE(spoken.master().committed().version() == 1'000'000);
    spoken.server(kOne, "honest", kept);
    const v1::PsError refused = spoken.heard(kOne, v1::PsOrder::kRefused).refused();
    CHECK(refused.message().find("Nothing was removed") != std::string::npos);
    CHECK(refused.message().find("\"evil\"") != std::string::npos);
  }
  SUBCASE("it comes later: an operator decides, and training goes on from what is left") {
    spoken.server(kTwo, "two");  // so that nobody goes on before both are there
    v1::PsRecord shared = record_of(4, 5, {"honest", "two"});
    spoken.server(kOne, "honest", {record_of(3, 5, {"honest", "two"}), shared});
    spoken.server(kHostile, "evil", {claimed});
    CHECK(spoken.master().committed().version() == 0);
    CHECK(spoken.master().answer().waits_for().find("\"honest\"") != std::string::npos);
    spoken.lose(kTwo);
    spoken.lose(kHostile);
    spoken.server(kLate, "two", {shared});
    CHECK(spoken.master().committed().version() == 0);
    for (int half = 0; half < 40; ++half) {
      for (const PeerId peer : {kOne, kLate}) {
        v1::PsReport beat;
        beat.set_beat(true);
        spoken.say(peer, beat);
      }
      spoken.pass(std::chrono::milliseconds(500));
    }
    CHECK(spoken.master().committed().version() == 4);
  }
  for (int half = 0; half < 10; ++half) spoken.pass(std::chrono::milliseconds(500));
  CHECK_FALSE(spoken.has_heard(kOne, v1::PsOrder::kMove));
  CHECK(spoken.heard(kOne, v1::PsOrder::kWelcome).welcome().version() ==
        (spoken.has_heard(kOne, v1::PsOrder::kRefused) ? 0 : 4));
}

TEST_CASE("of a version what servers of its layout say counts, and not what others say of it") {
  const v1::PsRecord honest = record_of(4, 5, {"one", "two"});
  v1::PsRecord other = honest;
  Spoken spoken;
  SUBCASE("they add to it") { other.set_penalty("x"); }
  SUBCASE("in another layout") { *other.mutable_layout() = record_of(4, 5, {"one"}).layout(); }
  spoken.server(kHostile, "a", {other});
  spoken.server(kOne, "one", {honest});
  CHECK(spoken.master().committed().version() == 0);
  CHECK(spoken.master().answer().waits_for().find("\"two\"") != std::string::npos);
  spoken.server(kTwo, "two", {honest});
  CHECK(spoken.master().committed().version() == 4);
  CHECK(spoken.master().committed().record.penalty().empty());
  CHECK(spoken.master().committed().record.layout().shards_size() == 2);
}

TEST_CASE("a part that counted is told from what attempts leave") {
  const auto keeps = [](const std::vector<v1::PsRecord>& records) {
    std::vector<v1::PsHeld> held;
    for (const v1::PsRecord& record : records) *held.emplace_back().mutable_record() = record;
    return keeps_part(held, "s");
  };
  CHECK_FALSE(keeps({}));
  CHECK_FALSE(keeps({record_of(1, 5, {"s"})}));
  CHECK_FALSE(keeps({moved_to(8, {"one", "s"})}));
  CHECK_FALSE(keeps({record_of(7, 5, {"one"}), record_of(8, 5, {"one"})}));  // a copy of another's folder
  CHECK(keeps({record_of(2, 5, {"s"})}));
  CHECK(keeps({moved_to(8, {"one", "s"}), moved_to(9, {"one", "s", "two"})}));
  CHECK(keeps({record_of(1, 5, {"s"}), moved_to(2, {"s", "two"})}));
}

TEST_CASE("what servers without a shard say of a round is passed over") {
  TrainingOptions options;
  options.moves_shards = false;
  Round round(options);
  round.server(kLate, "late");
  v1::PsReport report;
  SUBCASE("that a version is made") {
    round.say_made(kLate, round.round());
    round.say_made(kOne, round.round());
    CHECK(round.master().committed().version() == 7);
    round.say_made(kTwo, round.round());
    CHECK(round.master().committed().version() == 8);
  }
  SUBCASE("that it cannot be made") {
    report.mutable_made()->set_round(round.round());
    *report.mutable_made()->mutable_error() = to_message(unavailable("no disk"));
    round.say(kLate, report);
    CHECK_FALSE(round.is_skipped());
  }
  SUBCASE("that it is dropped") {
    round.lose(kTwo);
    round.say_dropped(kLate, round.round());
    CHECK_FALSE(round.is_skipped());
    round.say_dropped(kOne, round.round());
    CHECK(round.is_skipped());
  }
  SUBCASE("that a version cannot be sent") {
    const v1::PsTransfer transfer = round.heard(kWorker, v1::PsOrder::kTakeVersion).take_version();
    report.mutable_send_failed()->set_ticket(transfer.ticket());
    round.say(kLate, report);
    CHECK_FALSE(round.has_heard(kWorker, v1::PsOrder::kCancel));
    round.say(transfer.server() == "one" ? kOne : kTwo, report);
    CHECK(round.has_heard(kWorker, v1::PsOrder::kCancel));
  }
}

TEST_CASE("averages are of the servers that have a shard, and of norms that can be") {
  TrainingOptions options;
  options.moves_shards = false;
  Round round(options);
  round.say_made(kOne, round.round());
  round.say_made(kTwo, round.round());
  round.server(kLate, "late");
  const std::uint64_t before = round.round();
  round.say_push(kWorker, 2, 8);
  round.say_taken(kOne);
  round.say_taken(kTwo);
  const auto say_averaged = [&](PeerId peer, double squared) {
    v1::PsReport report;
    report.mutable_averaged()->set_round(round.heard(kOne, v1::PsOrder::kAverage).average().round());
    report.mutable_averaged()->set_squared_norm(squared);
    round.say(peer, report);
  };
  say_averaged(kOne, -4);
  say_averaged(kLate, 1);
  CHECK(round.round() == before);
  say_averaged(kTwo, 9);
  CHECK(round.round() == before + 1);
  CHECK(round.heard(kTwo, v1::PsOrder::kMake).make().factor() == 0);  // like the one before
}

TEST_CASE("a line has one member") {
  Spoken spoken;
  spoken.server(1, "one");
  spoken.server(1, "two");
  CHECK(spoken.has_heard(1, v1::PsOrder::kRefused));
  CHECK_FALSE(knows(spoken, "two"));
  spoken.worker(2, "three");
  spoken.worker(2, "four");
  CHECK_FALSE(knows(spoken, "four"));
}

TEST_CASE("servers that are gone are forgotten, unless they have a shard") {
  Round round;
  round.server(kHostile, "passes by");
  round.lose(kHostile);
  round.lose(kTwo);
  CHECK(knows(round, "passes by"));
  round.let_pass(TrainingOptions().lease + std::chrono::seconds(1));
  CHECK_FALSE(knows(round, "passes by"));
  CHECK(knows(round, "two"));
  CHECK(round.master().answer().waits_for().find("two") != std::string::npos);
}

TEST_CASE("what a push counts for is bounded by the others of its round") {
  const auto counted = [](const std::vector<std::uint64_t>& tokens) {
    TrainingOptions options;
    options.quorum = static_cast<std::uint32_t>(tokens.size());
    options.grace = std::chrono::seconds(0);
    Spoken spoken(options);
    spoken.server(kOne, "one", {record_of(7, 5, {"one"})});
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      spoken.worker(100 + i, "worker" + std::to_string(i), 7);
    }
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      v1::PsReport report;
      report.mutable_push()->set_number(1);
      report.mutable_push()->set_base_version(7);
      report.mutable_push()->set_tokens(tokens[i]);
      spoken.say(100 + i, report);
      v1::PsReport taken;
      taken.mutable_push_taken()->set_ticket(spoken.heard(kOne, v1::PsOrder::kTakePush).take_push().ticket());
      taken.mutable_push_taken()->set_squared_norm(1);
      spoken.say(kOne, taken);
    }
    spoken.pass(std::chrono::milliseconds(50));
    v1::PsReport averaged;
    averaged.mutable_averaged()->set_round(spoken.heard(kOne, v1::PsOrder::kAverage).average().round());
    averaged.mutable_averaged()->set_squared_norm(1);
    spoken.say(kOne, averaged);
    const v1::PsRecord record = spoken.heard(kOne, v1::PsOrder::kMake).make().record();
    std::vector<std::uint64_t> all;
    std::uint64_t sum = 0;
    for (const v1::PsPushed& pushed : record.pushes()) sum += all.emplace_back(pushed.tokens());
    for (const v1::PsPushed& pushed : record.pushes()) {
      CHECK(pushed.weight() ==
            doctest::Approx(static_cast<double>(pushed.tokens()) / static_cast<double>(sum)));
    }
    CHECK(record.tokens() == sum);
    return all;
  };
  using Tokens = std::vector<std::uint64_t>;
  CHECK(counted({kMaxPushTokens}) == Tokens{kMaxPushTokens});
  CHECK(counted({10, 160}) == Tokens{10, 160});
  CHECK(counted({1'000'000, kMaxPushTokens}) == Tokens{1'000'000, 16'000'000});
  CHECK(counted({1'000'000, kMaxPushTokens, 500'000}) == Tokens{1'000'000, 16'000'000, 500'000});
  // One that says little does not keep the others down.
  CHECK(counted({1, 1'000'000, 9'000'000}) == Tokens{1, 1'000'000, 9'000'000});
}

TEST_CASE("a push of more tokens than any site trains on is refused") {
  Round round;
  round.worker(kLate, "other", 7);
  v1::PsReport report;
  report.mutable_push()->set_number(1);
  report.mutable_push()->set_base_version(7);
  report.mutable_push()->set_tokens(kMaxPushTokens + 1);
  round.say(kLate, report);
  CHECK(round.outcome(kLate) == v1::PsPushOutcome::REFUSED);
}

}  // namespace square::ps
