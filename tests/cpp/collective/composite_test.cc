// The thread of operations of several steps: order, bounds, timeouts, cancelling, the end.
#include <doctest/doctest.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <random>
#include <stdexcept>

#include "base/check.h"
#include "collective/composite_thread.h"
#include "collective/real_group.h"

using namespace square;
using namespace square::test;

namespace {

// Keeps what is posted until it is told how it ends, as a node does with slow links.
class KeepingHost final : public MemberHost {
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
    changed_.notify_all();
  }
  void cancel(CollectiveId, OperationId operation) override {
    if (is_deaf) return;
    finish(operation, cancelled("the step was cancelled"));
  }
  void fail(CollectiveId, OperationId, Status cause) override {
    const std::lock_guard lock(mutex_);
    failures_.push_back(std::move(cause));
  }
  void after(Duration, std::function<void()>) override {}
  void watch(CollectiveId, OperationId, Duration, std::function<void(Status)>) override {}

  // Blocks until so many steps were posted.
  std::vector<GroupCall> wait_for_steps(std::size_t count) {
    std::unique_lock lock(mutex_);
    CHECK(changed_.wait_for(lock, kLimit, [&] { return posted_.size() >= count; }));
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

 private:
  const std::string name_ = "a";
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<MemberOperation> posted_;
  std::vector<Status> failures_;
};

struct Place {
  KeepingHost host;
  std::shared_ptr<GroupCalls> group =
      std::make_shared<GroupCalls>(host, GroupSpec{"g", "alice", {"a", "a"}, {}}, Rank(0));
  std::optional<CompositeThread> thread{std::in_place, group};

  std::shared_ptr<Work> start(std::function<Status(CompositeRun&)> body, Duration timeout = kLimit) {
    auto work = thread->start(operation(std::move(body), timeout));
    REQUIRE_MESSAGE(work.is_ok(), work.status().to_string());
    return *work;
  }
  static CompositeOperation operation(std::function<Status(CompositeRun&)> body, Duration timeout = kLimit) {
    return {"test", CallKind::kRingAllReduce, timeout, {unicast(Rank(0), Rank(1), 7)}, std::move(body)};
  }
};

Part step() { return unicast_source(Rank(0), Rank(1), {}, 7); }

Status two_steps(CompositeRun& run) {
  for (int i = 0; i < 2; ++i) {
    SQUARE_ASSIGN_OR_RETURN(const auto work, run.begin({step()}));
    SQUARE_RETURN_IF_ERROR(run.wait(work));
  }
  return Status::ok();
}

}  // namespace

TEST_CASE("composite operations run one after the other, all steps with the number of their call") {
  Place place;
  const auto first = place.start(two_steps);
  const auto second = place.start(two_steps);
  for (std::uint32_t i = 0; i < 4; ++i) {
    const auto calls = place.host.wait_for_steps(i + 1);
    CHECK(calls.size() == i + 1);
    CHECK(calls.back().number == i / 2);
    CHECK(calls.back().kind == CallKind::kRingAllReduce);
    CHECK(first->is_done() == (i >= 2));
    place.host.finish(OperationId(i), Status::ok());
    if (i == 1) CHECK(first->wait() == Status::ok());
  }
  CHECK(second->wait() == Status::ok());
  CHECK(place.host.failures().empty());
}

TEST_CASE("an operation waits for steps that its body did not wait for, and has their failure") {
  Place place;
  const auto work = place.start([](CompositeRun& run) { return run.begin({step()}).status(); });
  place.host.wait_for_steps(1);
  CHECK(!work->wait_for(std::chrono::milliseconds(20)));
  std::atomic<bool> was_told = false;
  work->on_done([&] { was_told = true; });
  place.host.finish(OperationId(0), unavailable("the link died"));
  CHECK(work->wait().message() == "the link died");
  CHECK(place.host.failures().size() == 1);
  place.thread.reset();
  CHECK(was_told);
}

TEST_CASE("a body's own failure is told to the group before its steps are cancelled") {
  Place place;
  const auto work = place.start([](CompositeRun& run) -> Status {
    SQUARE_RETURN_IF_ERROR(run.begin({step()}).status());
    return invalid_argument("the members differ");
  });
  CHECK(work->wait().message() == "the members differ");
  REQUIRE(place.host.failures().size() == 1);
  CHECK(place.host.failures().front().message() == "the members differ");
  const auto later = place.thread->start(Place::operation(two_steps));
  CHECK(later.status().code() == StatusCode::kFailedPrecondition);
}

TEST_CASE("cancelling ends the step under way, or what waits") {
  Place place;
  const auto running = place.start(two_steps);
  const auto waiting = place.start(two_steps);
  place.host.wait_for_steps(1);
  waiting->cancel();
  CHECK(waiting->wait().code() == StatusCode::kCancelled);
  CHECK(!running->is_done());
  running->cancel();
  CHECK(running->wait().message() == "the step was cancelled");
}

TEST_CASE("one timeout holds for all steps, also behind another operation") {
  Place place;
  place.host.is_deaf = true;
  const auto running = place.start(two_steps);
  place.host.wait_for_steps(1);
  const auto waiting = place.start(two_steps, std::chrono::milliseconds(30));
  CHECK(waiting->wait().code() == StatusCode::kDeadlineExceeded);
  CHECK(!running->is_done());
  place.host.finish(OperationId(0), Status::ok());
  // The failure of the one is the group's.
  CHECK(running->wait().code() == StatusCode::kDeadlineExceeded);
}

TEST_CASE("a step that does not end is given up after the timeout") {
  Place place;
  place.host.is_deaf = true;
  const auto scratch = std::make_shared<int>(0);
  const std::weak_ptr<int> kept = scratch;
  const auto work =
      place.start([scratch](CompositeRun& run) { return two_steps(run); }, std::chrono::milliseconds(10));
  CHECK(work->wait().code() == StatusCode::kDeadlineExceeded);
  CHECK(kept.use_count() > 1);  // the step may still read it
  place.host.finish(OperationId(0), Status::ok());
}

TEST_CASE("the end of the thread ends what runs and what waits") {
  for (const bool is_deaf : {false, true}) {
    Place place;
    place.host.is_deaf = is_deaf;
    const auto running = place.start(two_steps);
    const auto waiting = place.start(two_steps);
    place.host.wait_for_steps(1);
    place.thread.reset();
    CHECK(running->is_done());
    CHECK(running->wait().code() == StatusCode::kCancelled);
    CHECK(waiting->wait().code() == StatusCode::kCancelled);
  }
}

TEST_CASE("who is told of the end may end the thread") {
  Place place;
  const auto running = place.start(two_steps);
  const auto waiting = place.start(two_steps);
  place.host.wait_for_steps(1);
  std::atomic<bool> is_gone = false;
  running->on_done([&] {
    place.thread.reset();
    is_gone = true;
  });
  place.host.finish(OperationId(0), aborted("first"));
  CHECK(waiting->wait_for(kLimit));
  CHECK(running->wait() == aborted("first"));
  while (!is_gone) std::this_thread::yield();
}

TEST_CASE("the node may go once its communicator was let go of by who waits behind another operation") {
  // The one that runs is on its way out still, on the thread.
  auto place = std::make_unique<Place>();
  place->host.is_deaf = true;
  const auto running = place->start(two_steps);
  place->host.wait_for_steps(1);
  const auto waiting = place->start(two_steps, std::chrono::milliseconds(20));
  std::atomic<bool> is_gone = false;
  waiting->on_done([&] {
    place->thread.reset();
    CHECK(place->host.failures().size() == 2);  // both are told of before
    place->host.finish(OperationId(0), Status::ok());
    place.reset();
    is_gone = true;
  });
  CHECK(waiting->wait().code() == StatusCode::kDeadlineExceeded);
  while (!is_gone) std::this_thread::yield();
  CHECK(running->wait().code() == StatusCode::kCancelled);
}

TEST_CASE("a body that throws fails its operation only") {
  for (const bool is_memory : {false, true}) {
    Place place;
    const auto work = place.start([is_memory](CompositeRun& run) -> Status {
      SQUARE_RETURN_IF_ERROR(run.begin({step()}).status());
      if (is_memory) throw std::bad_alloc();
      throw std::runtime_error("no such thing");
    });
    const Status outcome = work->wait();
    CHECK(outcome.code() == (is_memory ? StatusCode::kResourceExhausted : StatusCode::kInternal));
    CHECK(outcome.message().starts_with("test: "));
    CHECK(place.host.failures().size() == 1);
  }
}

TEST_CASE("calls, cancels, timeouts and the end of the thread at random moments leave nothing waiting") {
  const char* given = std::getenv("SQUARE_SEED");
  const std::uint64_t seed = given == nullptr ? 1 : std::strtoull(given, nullptr, 10);
  for (std::uint64_t round = seed; round < seed + (given == nullptr ? 60 : 1); ++round) {
    CAPTURE(round);
    std::mt19937_64 random(round);
    const auto upto = [](auto& from, std::uint64_t end) { return from() % (end + 1); };
    Place place;
    std::mutex mutex;
    std::vector<std::shared_ptr<Work>> works;
    std::atomic<std::size_t> notices = 0;
    std::vector<std::thread> threads;
    std::atomic<bool> is_over = false;
    for (int caller = 0; caller < 3; ++caller) {
      threads.emplace_back([&, own = std::mt19937_64(random())]() mutable {
        for (int i = 0; i < 8; ++i) {
          const Duration timeout = upto(own, 3) == 0 ? std::chrono::microseconds(upto(own, 2'000)) : kLimit;
          auto work = place.thread->start(Place::operation(two_steps, timeout));
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
    place.thread.reset();
    for (const auto& work : works) CHECK_MESSAGE(work->is_done(), "rerun with SQUARE_SEED=", round);
    CHECK(notices == works.size());
    is_over = true;
    node.join();
  }
}

TEST_CASE("a call beyond the bound is refused, and does not count") {
  constexpr std::size_t kMaxWaiting = 1'024;
  Place place;
  place.thread.emplace(place.group, kMaxWaiting);
  const auto running = place.start(two_steps);
  place.host.wait_for_steps(1);
  std::vector<std::shared_ptr<Work>> waiting;
  for (std::size_t i = 0; i < kMaxWaiting; ++i)
    waiting.push_back(place.start([](CompositeRun&) { return Status::ok(); }));
  const auto refused = place.thread->start(Place::operation(two_steps));
  CHECK(refused.status().code() == StatusCode::kResourceExhausted);
  CHECK(refused.status().message().find("1024 operations of this communicator wait") != std::string::npos);
  place.host.finish(OperationId(0), Status::ok());
  place.host.wait_for_steps(2);
  place.host.finish(OperationId(1), Status::ok());
  for (const auto& work : waiting) CHECK(work->wait() == Status::ok());
  place.start(two_steps);
  CHECK(place.host.wait_for_steps(3).back().number == kMaxWaiting + 1);
}
