// Operations of several steps: order, bounds, timeouts, cancelling, arithmetic, the end of their
// communicator.
#include "collective/composite_calls.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <random>
#include <stdexcept>
#include <thread>

#include "square/simulation.h"

using namespace square;
using namespace std::chrono_literals;

namespace {

// Keeps what is posted until it is told how it ends, as a node does with slow links.
class StepHost : public MemberHost {
 public:
  [[nodiscard]] const std::string& name() const override { return name_; }
  Result<GroupPart> join_group(const GroupSpec& group, Rank, Duration timeout) override {
    return GroupPart{*register_group(group, timeout), nullptr};
  }
  Result<GroupRegistration> register_group(const GroupSpec& group, Duration /*timeout*/) override {
    GroupRegistration made{{}, Epoch(1)};
    for (std::size_t i = 0; i < group.collectives.size(); ++i)
      made.collectives.emplace_back(static_cast<std::uint32_t>(i));
    return made;
  }
  void set_members(CollectiveId, std::string, std::vector<Rank>) override {}
  void post(MemberOperation operation) override {
    const std::lock_guard lock(mutex_);
    posted_.push_back(std::move(operation));
  }
  void cancel(CollectiveId, OperationId operation) override {
    if (!is_deaf) finish(operation, cancelled("the step was cancelled"));
  }
  void fail(CollectiveId, OperationId, Status cause) override {
    const std::lock_guard lock(mutex_);
    failures_.push_back(std::move(cause));
  }
  void after(Duration, std::function<void()>) override {}
  void watch(CollectiveId, OperationId, Duration, std::function<void(Status)>) override {}
  void work(std::size_t, const std::function<void()>& task, std::function<void()> then) override {
    tasks.push_back([task, then = std::move(then)] {
      task();
      then();
    });
  }

  std::vector<GroupCall> calls() {
    const std::lock_guard lock(mutex_);
    std::vector<GroupCall> calls;
    for (const MemberOperation& operation : posted_) calls.push_back(operation.call);
    return calls;
  }
  void finish(OperationId operation, const Status& outcome) {
    std::function<void(Status)> done;
    {
      const std::lock_guard lock(mutex_);
      for (MemberOperation& one : posted_) {
        if (one.operation == operation) done = std::exchange(one.done, nullptr);
      }
    }
    if (done) done(outcome);
  }
  std::vector<Status> failures() {
    const std::lock_guard lock(mutex_);
    return failures_;
  }

  bool is_deaf = false;  // steps do not end when they are cancelled
  std::vector<std::function<void()>> tasks;

 private:
  const std::string name_ = "a";
  std::mutex mutex_;
  std::vector<MemberOperation> posted_;
  std::vector<Status> failures_;
};

class VirtualStepHost final : public StepHost {
 public:
  [[nodiscard]] const Clock& clock() const override { return simulation.clock(); }
  void after(Duration delay, std::function<void()> then) override {
    executor->post_at(simulation.clock().now() + delay, std::move(then));
  }
  void pass(Duration time) {
    bool is_over = false;
    executor->post_at(simulation.clock().now() + time, [&] { is_over = true; });
    simulation.run_until([&] { return is_over; }, simulation.clock().now() + time);
  }

  Simulation simulation{1};
  std::unique_ptr<Executor> executor = simulation.make_executor();
};

Part empty_step() { return unicast_source(Rank(0), Rank(1), {}, 7); }

class FunctionSteps final : public CompositeSteps {
 public:
  explicit FunctionSteps(std::function<void(CompositeRun&)> begin) : begin_(std::move(begin)) {}
  void begin(CompositeRun& run) override { begin_(run); }

 private:
  const std::function<void(CompositeRun&)> begin_;
};

void two_steps(CompositeRun& run) {
  run.begin(empty_step(), [&run] { run.begin(empty_step(), [&run] { run.finish(Status::ok()); }); });
}
void no_steps(CompositeRun& run) { run.finish(Status::ok()); }

template <typename Host>
struct StepPlace {
  using Begin = std::function<void(CompositeRun&)>;
  Host host;
  std::shared_ptr<GroupCalls> group =
      std::make_shared<GroupCalls>(host, GroupSpec{"g", "alice", {"a", "a"}, {}}, Rank(0));
  std::optional<CompositeCalls> calls{std::in_place, group};

  std::shared_ptr<Work> start(Begin begin, Duration timeout = 20s) {
    auto work = calls->start(operation(std::move(begin), timeout));
    REQUIRE_MESSAGE(work.is_ok(), work.status().to_string());
    return *work;
  }
  static CompositeOperation operation(Begin begin, Duration timeout = 20s) {
    return {"test",
            CallKind::kRingAllReduce,
            timeout,
            {unicast(Rank(0), Rank(1), 7)},
            std::make_shared<FunctionSteps>(std::move(begin))};
  }
};
using VirtualPlace = StepPlace<VirtualStepHost>;

}  // namespace

TEST_CASE("composite operations run one after the other, all steps with the number of their call") {
  VirtualPlace place;
  const auto first = place.start(two_steps);
  const auto second = place.start(two_steps);
  for (std::uint32_t i = 0; i < 4; ++i) {
    const auto calls = place.host.calls();
    CHECK(calls.size() == i + 1);
    CHECK(calls.back().number == i / 2);
    CHECK(calls.back().kind == CallKind::kRingAllReduce);
    CHECK(first->is_done() == (i >= 2));
    place.host.finish(OperationId(i), Status::ok());
  }
  CHECK(first->wait() == Status::ok());
  CHECK(second->wait() == Status::ok());
  CHECK(place.host.failures().empty());
}

TEST_CASE("an operation waits for steps whose end brings nothing, and has their failure") {
  VirtualPlace place;
  const auto work = place.start([](CompositeRun& run) {
    run.begin(empty_step());
    run.finish(Status::ok());
  });
  place.host.pass(1s);
  CHECK(!work->is_done());
  place.host.finish(OperationId(0), unavailable("the link died"));
  CHECK(work->is_done());
  CHECK(work->wait().message() == "the link died");
  CHECK(place.host.failures().size() == 1);
}

TEST_CASE("the steps' own failure is told to the group before they are cancelled") {
  VirtualPlace place;
  const auto work = place.start([](CompositeRun& run) {
    run.begin(empty_step(), [] { FAIL("the operation has failed"); });
    run.finish(invalid_argument("the members differ"));
  });
  CHECK(work->wait().message() == "the members differ");
  REQUIRE(place.host.failures().size() == 1);
  CHECK(place.host.failures().front().message() == "the members differ");
  const auto later = place.calls->start(VirtualPlace::operation(two_steps));
  CHECK(later.status().code() == StatusCode::kFailedPrecondition);
}

TEST_CASE("a step that fails ends the others") {
  VirtualPlace place;
  const auto work = place.start([](CompositeRun& run) {
    for (int i = 0; i < 3; ++i) run.begin(empty_step(), [] { FAIL("the operation has failed"); });
  });
  place.host.finish(OperationId(1), unavailable("node \"b\" is gone"));
  CHECK(work->is_done());
  CHECK(work->wait() == unavailable("node \"b\" is gone"));
}

TEST_CASE("cancelling ends the step under way, or what waits") {
  VirtualPlace place;
  const auto running = place.start(two_steps);
  const auto waiting = place.start(two_steps);
  waiting->cancel();
  CHECK(waiting->is_done());
  CHECK(waiting->wait().message() == "test was cancelled");
  CHECK(!running->is_done());
  running->cancel();
  CHECK(running->is_done());
  CHECK(running->wait().message() == "the step was cancelled");
}

TEST_CASE("arithmetic follows its step, and is waited for by who cancels") {
  VirtualPlace place;
  int added = 0;
  const auto work = place.start([&](CompositeRun& run) {
    run.begin(empty_step(), [&] {
      run.work(
          8, [&] { return ++added, Status::ok(); }, [&] { run.finish(Status::ok()); });
    });
  });
  CHECK(place.host.tasks.empty());
  place.host.finish(OperationId(0), Status::ok());
  REQUIRE(place.host.tasks.size() == 1);
  work->cancel();
  place.host.pass(2 * DataPlane::kDrainTime);
  CHECK(!work->is_done());  // it may still write to the program's memory
  place.host.tasks.front()();
  CHECK(added == 1);
  REQUIRE(work->is_done());
  CHECK(work->wait().message() == "test was cancelled");
  CHECK(place.host.failures().size() == 1);
}

TEST_CASE("arithmetic that fails, or that a node drops, is the operation's failure") {
  for (const bool is_dropped : {false, true}) {
    VirtualPlace place;
    const auto work = place.start([](CompositeRun& run) {
      run.work(
          8, [] { return data_loss("not a number"); }, [] { FAIL("it has failed"); });
    });
    if (!is_dropped) place.host.tasks.front()();
    place.host.tasks.clear();
    REQUIRE(work->is_done());
    CHECK(work->wait().message() == (is_dropped ? "test was ended with its node" : "not a number"));
  }
}

TEST_CASE("one timeout holds for all steps, also behind another operation") {
  VirtualPlace place;
  place.host.is_deaf = true;
  const auto running = place.start(two_steps);
  const auto waiting = place.start(two_steps, 30ms);
  place.host.pass(29ms);
  CHECK(!waiting->is_done());
  place.host.pass(1ms);
  REQUIRE(waiting->is_done());
  CHECK(waiting->wait().message() == "test was not over after 0.0 s");
  CHECK(!running->is_done());
  place.host.finish(OperationId(0), Status::ok());
  // The failure of the one is the group's.
  CHECK(running->wait().code() == StatusCode::kDeadlineExceeded);
}

TEST_CASE("a step that does not end is given up a second after the timeout, or after the cancel") {
  for (const bool is_cancelled : {false, true}) {
    CAPTURE(is_cancelled);
    VirtualPlace place;
    place.host.is_deaf = true;
    const auto scratch = std::make_shared<int>(0);
    const std::weak_ptr<int> kept = scratch;
    const auto work = place.start([scratch](CompositeRun& run) { two_steps(run); }, 10s);
    if (is_cancelled) work->cancel();
    place.host.pass((is_cancelled ? 0s : 10s) + DataPlane::kDrainTime - 1ms);
    CHECK(!work->is_done());
    place.host.pass(1ms);
    REQUIRE(work->is_done());
    CHECK(work->wait().code() == (is_cancelled ? StatusCode::kCancelled : StatusCode::kDeadlineExceeded));
    CHECK(work->wait().message().find("a step did not end") != std::string::npos);
    CHECK(place.host.failures().size() == 1);
    CHECK(kept.use_count() > 1);  // the step may still read it
    place.host.finish(OperationId(0), Status::ok());
    CHECK(kept.use_count() == 1);
  }
}

TEST_CASE("the end of the communicator ends what waits at once, and what runs within a second") {
  for (const bool is_deaf : {false, true}) {
    VirtualPlace place;
    place.host.is_deaf = is_deaf;
    const auto running = place.start(two_steps);
    const auto waiting = place.start(two_steps);
    place.calls.reset();
    CHECK(place.host.failures().size() == 2);  // both are told of before
    REQUIRE(waiting->is_done());
    CHECK(waiting->wait().message() == "test was ended with its communicator");
    CHECK(running->is_done() == !is_deaf);
    place.host.pass(DataPlane::kDrainTime);
    REQUIRE(running->is_done());
    CHECK(running->wait().message() == "test was ended with its communicator");
    CHECK(place.host.failures().size() == 2);
    CHECK(place.host.calls().size() == 1);
  }
}

TEST_CASE("who is told of an end may let go of the communicator") {
  VirtualPlace place;
  const auto running = place.start(two_steps);
  const auto waiting = place.start(two_steps);
  bool was_told = false;
  running->on_done([&] {
    place.calls.reset();
    was_told = true;
    CHECK(waiting->is_done());
  });
  place.host.finish(OperationId(0), aborted("first"));
  CHECK(was_told);
  CHECK(running->wait() == aborted("first"));
}

TEST_CASE("the node may go once its communicator was let go of by who waits behind another operation") {
  auto place = std::make_unique<VirtualPlace>();
  place->host.is_deaf = true;
  const auto running = place->start(two_steps);
  const auto waiting = place->start(two_steps);
  waiting->on_done([&] {
    place->calls.reset();
    place.reset();  // which drops the step
  });
  waiting->cancel();
  CHECK(place == nullptr);
  REQUIRE(running->is_done());
  CHECK(running->wait().code() == StatusCode::kCancelled);
}

TEST_CASE("steps that throw fail their operation only") {
  for (const bool is_memory : {false, true}) {
    for (const bool is_later : {false, true}) {
      VirtualPlace place;
      const auto throws = [is_memory] {
        if (is_memory) throw std::bad_alloc();
        throw std::runtime_error("no such thing");
      };
      const auto work = place.start([&](CompositeRun& run) {
        run.begin(empty_step(), throws);
        if (!is_later) throws();
      });
      place.host.finish(OperationId(0), Status::ok());
      const Status outcome = work->wait();
      CHECK(outcome.code() == (is_memory ? StatusCode::kResourceExhausted : StatusCode::kInternal));
      CHECK(outcome.message().starts_with("test: "));
      CHECK(place.host.failures().size() == 1);
    }
  }
}

TEST_CASE(
    "calls, cancels, timeouts and the end of the communicator at random moments leave nothing waiting") {
  using ThreadedPlace = StepPlace<StepHost>;
  const char* given = std::getenv("SQUARE_SEED");
  const std::uint64_t seed = given == nullptr ? 1 : std::strtoull(given, nullptr, 10);
  for (std::uint64_t round = seed; round < seed + (given == nullptr ? 60 : 1); ++round) {
    CAPTURE(round);
    std::mt19937_64 random(round);
    const auto upto = [](auto& from, std::uint64_t end) { return from() % (end + 1); };
    ThreadedPlace place;
    std::mutex mutex;
    std::vector<std::shared_ptr<Work>> works;
    std::atomic<std::size_t> notices = 0;
    std::vector<std::thread> threads;
    std::atomic<bool> is_over = false;
    for (int caller = 0; caller < 3; ++caller) {
      threads.emplace_back([&, own = std::mt19937_64(random())]() mutable {
        for (int i = 0; i < 8; ++i) {
          const Duration timeout =
              upto(own, 3) == 0 ? Duration(std::chrono::microseconds(upto(own, 2'000))) : Duration(20s);
          auto work = place.calls->start(ThreadedPlace::operation(two_steps, timeout));
          if (!work.is_ok()) return;  // the group has failed
          (*work)->on_done([&] { ++notices; });
          const std::lock_guard lock(mutex);
          works.push_back(*work);
          if (upto(own, 7) == 0) works[upto(own, works.size() - 1)]->cancel();
        }
      });
    }
    // The node: it ends steps, sometimes badly.
    std::thread node([&, own = std::mt19937_64(random())]() mutable {
      for (std::uint64_t next = 0; !is_over; next = (next + 1) % 48) {
        place.host.finish(OperationId(next), upto(own, 100) == 0 ? unavailable("lost") : Status::ok());
        std::this_thread::yield();
      }
    });
    for (auto& thread : threads) thread.join();
    std::this_thread::sleep_for(std::chrono::microseconds(upto(random, 500)));
    place.calls.reset();
    for (const auto& work : works) CHECK_MESSAGE(work->wait_for(20s), "rerun with SQUARE_SEED=", round);
    is_over = true;
    node.join();
    CHECK(notices == works.size());
  }
}

TEST_CASE("a call beyond the bound is refused, and does not count") {
  constexpr std::size_t kMaxWaiting = 1'024;
  VirtualPlace place;
  place.calls.emplace(place.group, kMaxWaiting);
  const auto running = place.start(two_steps);
  std::vector<std::shared_ptr<Work>> waiting;
  for (std::size_t i = 0; i < kMaxWaiting; ++i) waiting.push_back(place.start(no_steps));
  const auto refused = place.calls->start(VirtualPlace::operation(two_steps));
  CHECK(refused.status().code() == StatusCode::kResourceExhausted);
  CHECK(refused.status().message().find("1024 operations of this communicator wait") != std::string::npos);
  place.host.finish(OperationId(0), Status::ok());
  place.host.finish(OperationId(1), Status::ok());
  for (const auto& work : waiting) CHECK(work->is_done());
  for (const auto& work : waiting) CHECK(work->wait() == Status::ok());
  place.start(two_steps);
  CHECK(place.host.calls().back().number == kMaxWaiting + 1);
}
