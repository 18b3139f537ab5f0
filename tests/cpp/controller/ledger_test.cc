// What is written into the store, and when.
#include "controller/ledger.h"

#include <doctest/doctest.h>

#include <utility>

using namespace square;
using namespace square::controller;

namespace {

constexpr Epoch kEpoch(7);

// Counts what is written into a store in memory, or refuses it.
class WatchedStore final : public store::Store {
 public:
  struct Watch {
    std::vector<store::Write> last;
    Status answer;
  };
  explicit WatchedStore(Watch& watch) : watch_(watch) {}

  [[nodiscard]] store::StoreId id() const override { return store_->id(); }
  [[nodiscard]] std::uint64_t term() const override { return store_->term(); }
  Result<std::map<std::string, std::string>> read() override { return store_->read(); }
  Status write(const std::vector<store::Write>& writes) override {
    watch_.last = writes;
    return watch_.answer.is_ok() ? store_->write(writes) : watch_.answer;
  }

 private:
  Watch& watch_;
  std::unique_ptr<store::Store> store_ = store::make_memory_store();
};

struct Kept {
  WatchedStore::Watch watch;
  PlanningState state = empty_state();
  SessionNumbers numbers;
  Ledger ledger{std::make_unique<WatchedStore>(watch), false};

  Kept() {
    REQUIRE(ledger.read().is_ok());
    REQUIRE(ledger.restore(state).is_ok());
    add("g");
    add("h");
    number(0);
    number(1);
    REQUIRE(keep().is_ok());
  }

  static PlanningState empty_state() {
    Scenario scenario;
    scenario.topology = *full_mesh(std::vector<std::string>{"a", "b", "c"}, {});
    return {"", scenario.topology, {}, {}, GroupRegistry(scenario), {}};
  }

  void add(const std::string& name) {
    const GroupSpec spec{name, "alice", {"a", "b"}, {{CollectiveOp::kBroadcast, Rank(0), 1.0, 0}}};
    REQUIRE(state.registry.add(spec, state.topology).is_ok());
  }
  // One more session of the collective.
  void number(std::uint32_t collective) {
    const SessionKey key{
        CollectiveId(collective), SessionKind::kMulticast, NodeId(0), {NodeId(1)}, numbers.known.size()};
    numbers.known.emplace(key, SessionId(numbers.next++));
  }

  Status keep() { return ledger.keep(state, numbers, kEpoch); }
  // What keep() wrote, by key; an empty value for what went.
  std::map<std::string, std::string> written() {
    REQUIRE(keep().is_ok());
    std::map<std::string, std::string> writes;
    for (const store::Write& write : watch.last) writes[write.key] = write.value.value_or("");
    return writes;
  }
  v1::Past read() {
    const Result<v1::Past> past = ledger.read();
    REQUIRE(past.is_ok());
    return *past;
  }
};

bool always(const std::string&) { return true; }

}  // namespace

TEST_CASE("what is as it was is not written again, and the store is looked at all the same") {
  Kept kept;
  CHECK(kept.written().empty());
  // Nothing that a later controller needs.
  kept.state.registry.note_told("g", kept.state.registry.groups().at("g")->number, {"a"});
  CHECK(kept.written().empty());
  kept.watch.answer = failed_precondition("another controller leads");
  CHECK(kept.keep().code() == StatusCode::kFailedPrecondition);
}

TEST_CASE("of groups and their sessions only what is other is written") {
  Kept kept;
  kept.number(1);
  auto writes = kept.written();
  REQUIRE(writes.size() == 1);
  CHECK(writes.contains("group/h"));
  const std::uint64_t number = kept.state.registry.groups().at("g")->number;
  CHECK_FALSE(kept.state.registry.close("g", number, "a", always));
  writes = kept.written();
  REQUIRE(writes.size() == 1);
  CHECK(writes.contains("group/g"));
  v1::Past past = kept.read();
  REQUIRE(past.groups_size() == 2);
  CHECK(past.groups(0).closed_size() == 1);
  CHECK(past.sessions_size() == 3);
  CHECK(kept.state.registry.close("g", number, "b", always));
  CHECK(kept.written() == std::map<std::string, std::string>{{"group/g", ""}});
  past = kept.read();
  REQUIRE(past.groups_size() == 1);
  CHECK(past.groups(0).group().name() == "h");
}

TEST_CASE("what the store refused is written the next time") {
  Kept kept;
  kept.number(0);
  kept.add("i");
  kept.watch.answer = resource_exhausted("the disk is full");
  CHECK_FALSE(kept.keep().is_ok());
  kept.watch.answer = Status::ok();
  const auto writes = kept.written();
  CHECK(writes.contains("group/g"));
  CHECK(writes.contains("group/i"));
  CHECK_FALSE(writes.contains("group/h"));
  CHECK(kept.read().groups_size() == 3);
}

TEST_CASE("what an earlier controller left, and nobody has any more, goes") {
  Kept kept;
  REQUIRE(kept.ledger.read().is_ok());
  kept.state = Kept::empty_state();
  kept.numbers = {};
  const auto writes = kept.written();
  CHECK(writes.at("group/g").empty());
  CHECK(writes.at("group/h").empty());
  CHECK(kept.read().groups_size() == 0);
}
