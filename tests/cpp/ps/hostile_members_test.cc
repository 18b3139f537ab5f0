// Members with names of their own that say whatever fields can hold: the master goes on, and so does
// training.
#include <doctest/doctest.h>

#include <array>
#include <limits>
#include <random>
#include <string>

#include "coding/floats.h"
#include "ps/spoken_master.h"
#include "seed_step.h"

namespace square::ps {
namespace {

// Draws what a field can hold, most often what is near a bound or makes sense elsewhere.
class NastyMember {
 public:
  explicit NastyMember(std::uint64_t seed) : random_(seed) {}

  std::uint64_t below(std::uint64_t end) { return random_() % end; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  std::uint64_t number() {
    constexpr std::array<std::uint64_t, 12> kNumbers{
        0, 1, 2, 7, 8, 32, 64, 0xffffffff, kMaxElements, 1ULL << 62, 1ULL << 63, ~0ULL};
    return one_in(2) ? below(80) : kNumbers[below(kNumbers.size())];
  }
  double real() {
    constexpr std::array<double, 8> kReals{0.0,
                                           -1.0,
                                           1.0,
                                           1e-300,
                                           1e300,
                                           4e9,
                                           std::numeric_limits<double>::infinity(),
                                           std::numeric_limits<double>::quiet_NaN()};
    return kReals[below(kReals.size())];
  }
  std::string name() {
    const std::array<std::string, 9> names{
        "a", "b", "one", "two", "worker", "c", "", "d", std::string(300, 'x')};
    return names[below(names.size())];
  }
  template <typename Add>
  void some(Add add) {
    for (std::uint64_t count = below(4); count > 0; --count) add();
  }

  v1::PsReport hello() {
    v1::PsReport report;
    v1::PsHello& hello = *report.mutable_hello();
    hello.set_protocol_version(one_in(16) ? static_cast<std::uint32_t>(number()) : kParameterServerProtocol);
    hello.set_name(name());
    hello.set_incarnation(100 + below(3));
    if (one_in(4)) hello.set_node(name());
    if (one_in(8)) return report;
    if (one_in(2)) {
      v1::PsServerHello& server = *hello.mutable_server();
      if (!one_in(4)) fill(*server.mutable_model());
      some([&] { fill(*server.add_held()->mutable_record(), hello.name()); });
      server.set_capacity_bps(real());
    } else {
      v1::PsWorkerHello& worker = *hello.mutable_worker();
      fill(*worker.mutable_model());
      worker.set_base_version(number());
      worker.set_base_maker(number());
      worker.set_open_push(number());
      some([&] { worker.add_leases(number()); });
      some([&] { worker.add_open_chunks(number()); });
    }
    return report;
  }
  v1::PsReport report() {
    v1::PsReport report;
    switch (below(12)) {
      case 0:
        report.mutable_push()->set_number(number());
        report.mutable_push()->set_base_version(number());
        report.mutable_push()->set_tokens(number());
        some([&] { report.mutable_push()->add_chunks(number()); });
        break;
      case 1:
        report.mutable_push_taken()->set_ticket(number());
        report.mutable_push_taken()->set_squared_norm(real());
        if (one_in(3)) fill(*report.mutable_push_taken()->mutable_error());
        break;
      case 2:
        report.mutable_averaged()->set_round(number());
        report.mutable_averaged()->set_squared_norm(real());
        if (one_in(3)) fill(*report.mutable_averaged()->mutable_error());
        break;
      case 3:
        report.mutable_made()->set_round(number());
        report.mutable_made()->set_hash(number());
        if (one_in(3)) fill(*report.mutable_made()->mutable_error());
        break;
      case 4: report.mutable_dropped()->set_round(number()); break;
      case 5:
        report.mutable_received()->set_ticket(number());
        if (one_in(3)) fill(*report.mutable_received()->mutable_error());
        break;
      case 6: report.mutable_lease()->set_chunks(static_cast<std::uint32_t>(number())); break;
      case 7: report.set_leave(true); break;
      case 8:
        report.mutable_adopted()->set_version(number());
        report.mutable_adopted()->set_has_dropped_work(one_in(2));
        break;
      case 9: report.mutable_send_failed()->set_ticket(number()); break;
      case 10:
        report.mutable_push_failed()->set_ticket(number());
        report.mutable_push_failed()->set_server(name());
        break;
      default: report.set_beat(true);
    }
    return report;
  }

 private:
  void fill(v1::PsModel& model) {
    model = small_model();
    if (one_in(4)) model.mutable_tensors(0)->set_shape(0, number());
    if (one_in(8)) model.mutable_tensors(0)->add_shape(number());
    if (one_in(8)) model.mutable_tensors(0)->set_dtype(name());
    if (one_in(8)) *model.add_tensors() = model.tensors(0);
    if (one_in(8)) model.clear_tensors();
  }
  void fill(v1::PsRecord& record, const std::string& self) {
    const std::array<std::vector<std::string>, 5> layouts{
        std::vector<std::string>{self}, {"one", "two"}, {"one", "two", self}, {name(), self}, {}};
    record =
        record_of(one_in(3) ? number() : below(12), one_in(2) ? 5 : number(), layouts[below(layouts.size())]);
    if (one_in(4)) record.set_training(number());
    for (v1::PsShard& shard : *record.mutable_layout()->mutable_shards()) {
      if (one_in(8)) shard.set_begin(number());
      if (one_in(8)) shard.set_end(number());
    }
    if (one_in(4)) some([&] { record.add_moves(number()); });
    if (one_in(4)) {
      some([&] {
        v1::PsRange& range = *record.add_chunks_done();
        range.set_begin(number());
        range.set_end(number());
      });
    }
    if (one_in(4)) record.set_penalty(name());
    record.set_tokens(number());
  }
  void fill(v1::PsError& error) {
    error.set_code(static_cast<std::int32_t>(number()));
    error.set_message(name());
  }

  std::mt19937_64 random_;
};

// Servers "one" and "two", a worker, and lines that say anything.
class HostileScene : public Round {
 public:
  HostileScene(std::uint64_t seed, const TrainingOptions& options) : Round(options), draw_(seed) {
    say_made(kOne, round());
    say_made(kTwo, round());
  }

  void say_something() {
    const std::size_t line = draw_.below(lines_.size());
    PeerId& peer = lines_[line];
    if (peer == 0 || draw_.one_in(6)) {
      if (peer != 0) lose(peer);
      peer = ++last_;
      say(peer, draw_.hello());
      ++(has_heard(peer, v1::PsOrder::kRefused) ? refused : joined);
      return;
    }
    if (draw_.one_in(16)) return say(peer, draw_.hello());
    if (draw_.one_in(8)) return let_pass(std::chrono::milliseconds(500 * draw_.below(4)));
    say(peer, draw_.report());
  }
  // What is under way ends, and then a push of the honest worker becomes a version.
  void check_honest(std::uint64_t number) {
    CHECK_FALSE(has_heard(kOne, v1::PsOrder::kRefused));
    CHECK_FALSE(has_heard(kTwo, v1::PsOrder::kRefused));
    for (PeerId& peer : lines_) lose(std::exchange(peer, 0));
    end_rounds();
    let_pass(TrainingOptions().lease + std::chrono::seconds(1));
    const std::uint64_t before = master().committed().version();
    say_push(kWorker, 100 + number, before);
    for (int step = 0; step < 8; ++step) end_rounds();
    CHECK(master().committed().version() == before + 1);
    CHECK(outcome(kWorker) == v1::PsPushOutcome::COMMITTED);
  }

  std::size_t joined = 0;
  std::size_t refused = 0;

 private:
  // Both servers do what they were told last.
  void end_rounds() {
    for (const PeerId peer : {kOne, kTwo}) {
      say_taken(peer);
      v1::PsReport report;
      report.mutable_averaged()->set_round(heard(peer, v1::PsOrder::kAverage).average().round());
      report.mutable_averaged()->set_squared_norm(1);
      say(peer, report);
    }
    for (const PeerId peer : {kOne, kTwo}) {
      say_made(peer, heard(peer, v1::PsOrder::kMake).make().round());
      say_dropped(peer, heard(peer, v1::PsOrder::kAbort).abort());
    }
    let_pass(std::chrono::milliseconds(500));
  }

  NastyMember draw_;
  std::array<PeerId, 3> lines_{};
  PeerId last_ = 100;
};

constexpr std::uint64_t kSeeds = 60 / test::kSeedStep;

}  // namespace

TEST_CASE("whatever members say, the master goes on, and the honest worker's pushes count") {
  std::size_t joined = 0;
  std::size_t refused = 0;
  const std::uint64_t first = test::seed();
  for (std::uint64_t seed = first; seed < first + kSeeds; ++seed) {
    CAPTURE(seed);  // SQUARE_SEED runs it again
    TrainingOptions options;
    options.moves_shards = false;  // else a server that says that it has its part gets one
    options.grace = std::chrono::seconds(0);
    options.outer.penalty.reset();
    HostileScene scene(seed, options);
    for (std::uint64_t batch = 0; batch < 4; ++batch) {
      for (int said = 0; said < 40; ++said) scene.say_something();
      scene.check_honest(batch);
    }
    joined += scene.joined;
    refused += scene.refused;
  }
  // Else nothing was tried.
  CHECK(joined > kSeeds);
  CHECK(refused > kSeeds);
}

TEST_CASE("whatever members say of versions to a master that begins anew, it goes on") {
  std::size_t found = 0;
  const std::uint64_t first = test::seed();
  for (std::uint64_t seed = first; seed < first + 20 * kSeeds; ++seed) {
    CAPTURE(seed);
    NastyMember draw(seed);
    TrainingOptions options;
    options.chunks = draw.one_in(2) ? 40 : 0;
    Spoken spoken(options);
    for (PeerId peer = 1; peer < 60; ++peer) {
      if (draw.one_in(8)) spoken.lose(1 + draw.below(peer));
      spoken.say(peer, draw.hello());
      for (int said = 0; said < 4; ++said) spoken.say(1 + draw.below(peer), draw.report());
      spoken.pass(std::chrono::milliseconds(draw.below(600)));
      static_cast<void>(spoken.master().answer());
    }
    found += spoken.master().committed().version() != 0;
  }
  CHECK(found > kSeeds);
}

}  // namespace square::ps
