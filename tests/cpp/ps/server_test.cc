// What a server does, order by order: cases that drawn faults meet too seldom.
#include "ps/server/server.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace square::ps {
namespace {

// A shard whose work ends when the test says so.
class HeldShard final : public ShardHost {
 public:
  std::vector<v1::PsHeld> held() override { return {}; }
  v1::PsModel model() override { return {}; }
  void open(const v1::PsWelcome&, const v1::PsShard&, Done<Status> done) override {
    calls.emplace_back("open");
    opened.push_back(std::move(done));
  }
  void take_push(const v1::PsTransfer&, Done<Result<double>>) override { calls.emplace_back("take"); }
  void drop_push(std::uint64_t) override { calls.emplace_back("drop push"); }
  void average(const v1::PsAverage&, Done<Result<double>>) override { calls.emplace_back("average"); }
  void make(const v1::PsMake& make, Done<Result<MadeVersion>> done) override {
    calls.push_back("make " + std::to_string(make.round()));
    made.push_back(std::move(done));
  }
  void move(const v1::PsMove& move, Done<Result<MadeVersion>> done) override {
    calls.push_back("move " + std::to_string(move.round()));
    made.push_back(std::move(done));
  }
  void commit(std::uint64_t version) override { calls.push_back("commit " + std::to_string(version)); }
  void drop_made(Done<Status> done) override {
    calls.emplace_back("drop");
    dropped.push_back(std::move(done));
  }
  void send_version(const v1::PsTransfer&, Done<Status>) override { calls.emplace_back("send"); }
  void cancel(std::uint64_t ticket) override { calls.push_back("cancel " + std::to_string(ticket)); }

  std::vector<std::string> calls;
  std::vector<Done<Status>> opened;
  std::vector<Done<Result<MadeVersion>>> made;
  std::vector<Done<Status>> dropped;
};

struct Served {
  HeldShard shard;
  std::vector<v1::PsReport> said;
  Status failure;
  ServerState server{{"one", "one", 1, 0},
                     shard,
                     [this](v1::PsReport report) { said.push_back(std::move(report)); },
                     [this](Status status) { failure = std::move(status); }};

  Served() {
    server.on_attached();
    welcome();
    shard.opened.back()({});
    shard.calls.clear();
  }
  std::size_t hellos() const {
    return static_cast<std::size_t>(std::ranges::count_if(said, &v1::PsReport::has_hello));
  }
  void welcome() {
    v1::PsOrder order;
    order.mutable_welcome()->mutable_layout()->add_shards()->set_server("one");
    server.on_order(order);
  }
  void make(std::uint64_t round) {
    v1::PsOrder order;
    order.mutable_make()->set_round(round);
    order.mutable_make()->mutable_record()->set_version(8);
    server.on_order(order);
  }
  void move(std::uint64_t round, std::uint64_t ticket) {
    v1::PsOrder order;
    order.mutable_move()->set_round(round);
    order.mutable_move()->mutable_record()->set_version(8);
    order.mutable_move()->add_takes()->set_ticket(ticket);
    server.on_order(order);
  }
  void commit(std::uint64_t version) {
    v1::PsOrder order;
    order.set_commit(version);
    server.on_order(order);
  }
  void abort(std::uint64_t round) {
    v1::PsOrder order;
    order.set_abort(round);
    server.on_order(order);
  }
};

using Calls = std::vector<std::string>;

}  // namespace

TEST_CASE("a server says what it has once nothing is made, dropped or opened any more") {
  Served served;
  REQUIRE(served.hellos() == 1);
  SUBCASE("while a version is made") {
    served.make(3);
    served.server.on_detached();
    served.server.on_attached();
    CHECK(served.hellos() == 1);
    served.shard.made.back()(MadeVersion{});
    CHECK_FALSE(served.said.back().has_made());  // who ordered it is gone
  }
  SUBCASE("while one is dropped") {
    served.abort(3);
    served.server.on_detached();
    served.server.on_attached();
    CHECK(served.hellos() == 1);
    served.shard.dropped.back()({});
    CHECK_FALSE(served.said.back().has_dropped());
  }
  SUBCASE("while one is opened") {
    served.welcome();
    served.server.on_detached();
    served.server.on_attached();
    CHECK(served.hellos() == 1);
    served.shard.opened.back()({});
    CHECK_FALSE(served.server.serves());
  }
  CHECK(served.hellos() == 2);
}

TEST_CASE("a version that is given up is dropped once it is made, and the next round waits for that") {
  Served served;
  served.make(3);
  served.abort(3);
  served.make(4);
  CHECK(served.shard.calls == Calls{"make 3"});
  served.shard.made[0](MadeVersion{});
  served.commit(8);  // behind what waits already
  CHECK(served.shard.calls == Calls{"make 3", "drop"});
  CHECK_FALSE(served.said.back().has_made());
  served.shard.dropped[0]({});
  CHECK(served.said.back().dropped().round() == 3);
  CHECK(served.shard.calls == Calls{"make 3", "drop", "make 4", "commit 8"});
}

TEST_CASE("a move that is given up, or whose master is lost, takes nothing more") {
  Served served;
  served.move(3, 50);
  SUBCASE("given up") { served.abort(3); }
  SUBCASE("its master is lost") { served.server.on_detached(); }
  CHECK(served.shard.calls == Calls{"move 3", "cancel 50"});
  served.shard.made[0](cancelled("it is not wanted any more"));
}

TEST_CASE("orders and aborts of a master are void on the next line") {
  Served served;
  served.make(3);
  served.abort(3);
  served.make(4);
  served.server.on_detached();
  served.server.on_attached();
  served.shard.made[0](MadeVersion{});
  // Whether it counts is for the next master to say.
  CHECK(served.shard.calls == Calls{"make 3"});
  served.welcome();
  served.make(5);
  CHECK(served.shard.calls == Calls{"make 3", "open"});
  served.shard.opened.back()({});
  CHECK(served.shard.calls == Calls{"make 3", "open", "make 5"});
}

TEST_CASE("what comes while a version is opened waits for that, also where another is opened meanwhile") {
  Served served;
  served.welcome();
  served.move(3, 50);
  served.welcome();
  served.move(4, 51);
  served.shard.opened[1]({});
  CHECK(served.shard.calls == Calls{"open", "open"});
  served.shard.opened[2]({});
  CHECK(served.shard.calls == Calls{"open", "open", "move 4"});
}

}  // namespace square::ps
