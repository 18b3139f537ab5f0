// A process that was stopped for long, and what its groups go on as.
#include "collective/pause_watch.h"

#include <doctest/doctest.h>

#include <utility>

#include "collective/group_calls.h"

using namespace square;

namespace {

struct HandClock final : Clock {
  [[nodiscard]] TimePoint now() const override { return time; }
  TimePoint time{std::chrono::hours(1)};
};

// Runs the last timer when the test says so: a process that was stopped runs it late.
struct HandExecutor final : Executor {
  void post(Task task) override { task(); }
  TimerId post_at(TimePoint /*when*/, Task task) override {
    timer = std::move(task);
    return 1;
  }
  void cancel(TimerId) override {}
  void work(std::size_t, Task task) override { task(); }
  void run() { std::exchange(timer, {})(); }
  Task timer;
};

// Tells its member what the group goes on as.
class Stopped final : public MemberHost {
 public:
  [[nodiscard]] const std::string& name() const override { return name_; }
  Result<GroupPart> join_group(const GroupSpec&, Rank, Duration) override { return GroupPart{}; }
  Result<GroupRegistration> register_group(const GroupSpec&, Duration) override {
    return GroupRegistration{};
  }
  Result<GroupSpec> regroup(const RegroupRequest&, Duration) override { return next; }
  [[nodiscard]] bool was_stopped_since(TimePoint) const override { return was_stopped; }
  void after(Duration, std::function<void()>) override {}
  void set_members(CollectiveId, std::string, std::vector<Rank>) override {}
  void post(MemberOperation) override {}
  void cancel(CollectiveId, OperationId) override {}
  void fail(CollectiveId, OperationId, Status) override {}
  void watch(CollectiveId, OperationId, Duration, std::function<void(Status)>) override {}

  bool was_stopped = false;
  GroupSpec next{"g.1", "alice", {"a"}, {}, "", 0, {"g", 0, {Rank(0)}, {}}};

 private:
  const std::string name_ = "a";
};

}  // namespace

TEST_CASE("a pause is seen at once, and by groups that were made before it") {
  HandClock clock;
  HandExecutor executor;
  const auto watch = PauseWatch::start(clock, executor);
  const auto pass = [&](Duration time) {
    clock.time += time;
    executor.run();
  };
  const TimePoint begin = clock.time;
  for (int i = 0; i < 100; ++i) pass(kPauseLook);
  CHECK_FALSE(watch->was_stopped_since(begin));
  pass(kLongPause);
  CHECK_FALSE(watch->was_stopped_since(begin));
  clock.time += kLongPause + kPauseLook;
  CHECK(watch->was_stopped_since(begin));
  executor.run();
  CHECK(watch->was_stopped_since(begin));
  const TimePoint after = clock.time;
  pass(kPauseLook);
  CHECK(watch->was_stopped_since(begin));
  CHECK_FALSE(watch->was_stopped_since(after));
}

TEST_CASE("a member that was stopped for long does not go on alone, but with others") {
  const auto next_of = [](Stopped& host, std::vector<std::string> nodes) {
    GroupCalls calls(host, {"g", "alice", std::move(nodes), {}}, Rank(0));
    return calls.next_group(0, std::chrono::seconds(1), false).status();
  };
  Stopped host;
  CHECK(next_of(host, {"a", "b"}).is_ok());
  host.was_stopped = true;
  const Status refused = next_of(host, {"a", "b"});
  CHECK(refused.code() == StatusCode::kFailedPrecondition);
  CHECK(refused.message().find("does not go on with node \"a\" alone") != std::string::npos);
  CHECK(next_of(host, {"a", "a"}).is_ok());  // nobody else was there
  host.next.nodes = {"a", "b"};
  host.next.origin.ranks = {Rank(0), Rank(1)};
  CHECK(next_of(host, {"a", "b", "c"}).is_ok());
}
