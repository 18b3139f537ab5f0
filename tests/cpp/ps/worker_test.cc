// What a worker makes of its master's orders: cases that drawn faults meet too seldom.
#include "ps/worker/worker.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

namespace square::ps {
namespace {

v1::PsModel trained_model() {
  v1::PsModel model;
  v1::PsTensor& tensor = *model.add_tensors();
  tensor.set_name("all");
  tensor.set_dtype("float32");
  tensor.add_shape(64);
  return model;
}

// Parameters whose transfers end when the test says so.
class HeldParameters final : public ParameterHost {
 public:
  void send_push(const v1::PsTransfer&, Done done) override { given.push_back(std::move(done)); }
  void take_version(const v1::PsTransfer&, Done done) override { taken.push_back(std::move(done)); }
  void cancel(std::uint64_t) override {}
  std::vector<Done> given;
  std::vector<Done> taken;
};

struct Trained {
  HeldParameters parameters;
  std::vector<v1::PsReport> said;
  WorkerState worker{{"worker", "worker", 1, trained_model()}, parameters, [this](v1::PsReport report) {
                       said.push_back(std::move(report));
                     }};

  // It trains on version 7, and has pushed chunk 1; it holds 2 as well.
  Trained() {
    attach();
    take(7, 5, 0, 64);
    parameters.taken.back()({});
    worker.on_adopted(*worker.begin_adopting());
    v1::PsOrder order;
    for (const std::uint64_t chunk : {1, 2}) order.mutable_leases()->add_chunks(chunk);
    worker.on_order(order);
    worker.take_leases();
    worker.consume({3, {1}});
    worker.push();
  }
  void attach(bool must_start_over = false) {
    worker.on_attached();
    v1::PsOrder order;
    order.mutable_welcome()->set_version(7);
    order.mutable_welcome()->set_must_start_over(must_start_over);
    worker.on_order(order);
  }
  void take(std::uint64_t version, std::uint64_t maker, std::uint64_t begin, std::uint64_t end) {
    v1::PsOrder order;
    v1::PsTransfer& transfer = *order.mutable_take_version();
    transfer.set_version(version);
    transfer.set_maker(maker);
    transfer.set_is_committed(version == 7);
    transfer.mutable_shard()->set_begin(begin);
    transfer.mutable_shard()->set_end(end);
    worker.on_order(order);
  }
  void tell(v1::PsPushOutcome::Kind kind, std::uint64_t number = 1, std::uint64_t version = 8) {
    v1::PsOrder order;
    order.mutable_outcome()->set_kind(kind);
    order.mutable_outcome()->set_number(number);
    order.mutable_outcome()->set_version(version);
    worker.on_order(order);
  }
  v1::PsWorkerHello hello() {
    worker.on_detached();
    worker.on_attached();
    return said.back().hello().worker();
  }
};

std::vector<std::uint64_t> leases_of(const v1::PsWorkerHello& hello) {
  return {hello.leases().begin(), hello.leases().end()};
}

}  // namespace

TEST_CASE("a worker adopts a version that counts once all of it is here, of one maker and on one line") {
  Trained trained;
  trained.take(8, 5, 0, 32);
  const auto first = trained.parameters.taken.back();
  SUBCASE("what came of another maker's is no part of it") {
    first({});
    trained.take(8, 6, 32, 64);
  }
  SUBCASE("what came on another line is not, either") {
    first({});
    trained.worker.on_detached();
    trained.attach();
    trained.take(8, 5, 32, 64);
  }
  SUBCASE("nor is what comes of it yet") {
    trained.worker.on_detached();
    trained.attach();
    trained.take(8, 5, 32, 64);
    first({});
  }
  trained.parameters.taken.back()({});
  trained.tell(v1::PsPushOutcome::COMMITTED);
  CHECK_FALSE(trained.worker.ready());
}

TEST_CASE("a worker says that it cannot send a push, to the master that asked for it") {
  Trained trained;
  v1::PsOrder order;
  order.mutable_send_push()->set_ticket(4);
  order.mutable_send_push()->set_server("one");
  order.mutable_send_push()->set_line("line 0");
  trained.worker.on_order(order);
  const std::size_t before = trained.said.size();
  SUBCASE("") {
    trained.parameters.given.back()(cancelled("the line was ended"));
    REQUIRE(trained.said.size() == before + 1);
    const v1::PsPushFailed& failed = trained.said.back().push_failed();
    CHECK(failed.ticket() == 4);
    CHECK(failed.server() == "one");
    CHECK(failed.line() == "line 0");
  }
  SUBCASE("where it can it says nothing") {
    trained.parameters.given.back()({});
    CHECK(trained.said.size() == before);
  }
  SUBCASE("nor to another master") {
    trained.worker.on_detached();
    trained.attach();
    const std::size_t said = trained.said.size();
    trained.parameters.given.back()(cancelled("the line was ended"));
    CHECK(trained.said.size() == said);
  }
}

TEST_CASE("the work of a push that is skipped is in the next one, and of no other") {
  Trained trained;
  trained.worker.consume({2, {2}});
  trained.tell(v1::PsPushOutcome::SKIPPED, 0);  // an earlier push
  CHECK(trained.worker.push_state() == PushState::kSent);
  trained.tell(v1::PsPushOutcome::SKIPPED);
  REQUIRE(trained.worker.can_push());
  trained.worker.push();
  CHECK(trained.said.back().push().number() == 2);
  CHECK(trained.said.back().push().tokens() == 5);
  CHECK(trained.said.back().push().chunks_size() == 2);
}

TEST_CASE("a worker claims the chunks that it holds, and none that are done") {
  Trained trained;
  const v1::PsWorkerHello open = trained.hello();
  CHECK(open.open_push() == 1);
  CHECK(open.open_chunks_size() == 1);
  CHECK(leases_of(open) == std::vector<std::uint64_t>{2});
  trained.tell(v1::PsPushOutcome::COMMITTED);
  const v1::PsWorkerHello committed = trained.hello();
  CHECK(committed.open_push() == 1);
  CHECK(committed.open_chunks_size() == 0);
  CHECK(leases_of(committed) == std::vector<std::uint64_t>{2});
}

TEST_CASE("a worker that starts over drops all, also what is consumed until it has adopted") {
  Trained trained;
  SUBCASE("as it is told so") { trained.attach(true); }
  SUBCASE("as its push is refused") { trained.tell(v1::PsPushOutcome::REFUSED); }
  trained.worker.consume({1, {2}});
  CHECK_FALSE(trained.worker.has_work());
  CHECK_FALSE(trained.worker.can_push());
  CHECK(trained.worker.push_state() == PushState::kRefused);
  CHECK(leases_of(trained.hello()).empty());
}

TEST_CASE("no other version comes while one is adopted") {
  Trained trained;
  trained.take(8, 5, 0, 64);
  trained.parameters.taken.back()({});
  CHECK_FALSE(trained.worker.ready());  // it may never count
  trained.tell(v1::PsPushOutcome::COMMITTED);
  const auto ready = trained.worker.begin_adopting();
  REQUIRE(ready);
  CHECK(ready->version == 8);
  trained.take(9, 5, 0, 64);
  CHECK(trained.parameters.taken.size() == 2);
  CHECK(trained.said.back().received().has_error());
  trained.worker.on_adopted(*ready);
  CHECK(trained.worker.base_version() == 8);
}

TEST_CASE("a version that does not count yet is not adopted for another that does") {
  Trained trained;
  trained.tell(v1::PsPushOutcome::COMMITTED);
  trained.take(9, 5, 0, 64);
  trained.parameters.taken.back()({});
  CHECK_FALSE(trained.worker.ready());
}

}  // namespace square::ps
