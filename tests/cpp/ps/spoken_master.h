// A master that is told things, and what it says to each line.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ps/master/master.h"

namespace square::ps {

inline v1::PsModel small_model() {
  v1::PsModel model;
  v1::PsTensor& tensor = *model.add_tensors();
  tensor.set_name("all");
  tensor.set_dtype("float32");
  tensor.add_shape(64);
  return model;
}

// Of this layout each has as much.
inline v1::PsRecord record_of(std::uint64_t version, std::uint64_t maker,
                              const std::vector<std::string>& servers) {
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

inline constexpr PeerId kOne = 11;
inline constexpr PeerId kTwo = 12;
inline constexpr PeerId kWorker = 13;
inline constexpr PeerId kLate = 14;

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

}  // namespace square::ps
