// What a master decides, order by order: cases that drawn faults meet too seldom.
#include "ps/master/master.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <vector>

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

// A master, and what it says to each line.
class Spoken {
 public:
  explicit Spoken(TrainingOptions options = {})
      : master_(
            std::move(options), 77,
            [this](PeerId peer, v1::PsOrder order) { said_[peer].push_back(std::move(order)); },
            [](PeerId) {}) {}

  void say(PeerId peer, const v1::PsReport& report) { master_.on_report(peer, report, now_); }
  void pass(Duration time) { master_.on_time(now_ += time); }
  MasterState& master() { return master_; }
  [[nodiscard]] bool has_heard(PeerId peer, v1::PsOrder::WhatCase what) {
    return std::ranges::any_of(said_[peer],
                               [&](const v1::PsOrder& order) { return order.what_case() == what; });
  }

  void server(PeerId peer, const std::string& name, std::uint64_t version = 0) {
    v1::PsReport report = hello(name);
    v1::PsServerHello& server = *report.mutable_hello()->mutable_server();
    if (version != 0) {
      *server.mutable_model() = small_model();
      v1::PsRecord& record = *server.add_held()->mutable_record();
      record.set_version(version);
      record.set_maker(5);
      v1::PsShard& shard = *record.mutable_layout()->add_shards();
      shard.set_server(name);
      shard.set_end(64);
    }
    say(peer, report);
  }
  void worker(PeerId peer, const std::string& name, std::uint64_t base = 0) {
    v1::PsReport report = hello(name);
    v1::PsWorkerHello& worker = *report.mutable_hello()->mutable_worker();
    *worker.mutable_model() = small_model();
    worker.set_base_version(base);
    worker.set_base_maker(5);
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

}  // namespace

TEST_CASE("a master that begins anew waits for the server of the version that a worker trains on") {
  Spoken spoken;
  spoken.worker(1, "trains", 7);
  spoken.server(2, "empty");
  spoken.pass(std::chrono::milliseconds(50));
  CHECK(spoken.master().committed().version() == 0);
  CHECK_FALSE(spoken.has_heard(1, v1::PsOrder::kSendPush));
  CHECK(spoken.master().answer().waits_for().find("version 7") != std::string::npos);
  spoken.server(3, "full", 7);
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
  spoken.server(2, "one", 3);
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

}  // namespace square::ps
