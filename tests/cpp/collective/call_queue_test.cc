// Calls beyond what may be under way wait in order, and end with their group.
#include "collective/call_queue.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <vector>

#include "square/simulation.h"

using namespace square;

namespace {

// Keeps what it is given, in virtual time.
class QueueHost final : public MemberHost {
 public:
  [[nodiscard]] const std::string& name() const override { return name_; }
  Result<GroupPart> join_group(const GroupSpec&, Rank, Duration) override { return cancelled(""); }
  Result<GroupRegistration> register_group(const GroupSpec&, Duration) override { return cancelled(""); }
  void set_members(CollectiveId, std::string, std::vector<Rank>) override {}
  [[nodiscard]] const Clock& clock() const override { return simulation.clock(); }
  void after(Duration delay, std::function<void()> then) override {
    executor->post_at(simulation.clock().now() + delay, std::move(then));
  }
  void post(MemberOperation operation) override {
    if (refuses) return operation.done(cancelled("the host refuses"));
    posted.push_back(std::move(operation));
  }
  void cancel(CollectiveId, OperationId operation) override { cancels.push_back(operation.value()); }
  void fail(CollectiveId, OperationId operation, Status cause) override {
    failures.emplace_back(operation.value(), std::move(cause));
  }
  void watch(CollectiveId, OperationId, Duration, std::function<void(Status)>) override {}

  // Operations of the collective, as they were posted.
  [[nodiscard]] std::vector<std::uint64_t> of(std::uint32_t collective) const {
    std::vector<std::uint64_t> numbers;
    for (const MemberOperation& one : posted) {
      if (one.collective == CollectiveId(collective)) numbers.push_back(one.operation.value());
    }
    return numbers;
  }
  void end(std::uint32_t collective, std::uint64_t operation, const Status& outcome = Status::ok()) {
    const auto found = std::ranges::find_if(posted, [&](const MemberOperation& one) {
      return one.collective == CollectiveId(collective) && one.operation == OperationId(operation) &&
             one.done;
    });
    REQUIRE(found != posted.end());
    std::exchange(found->done, nullptr)(outcome);
  }
  void pass(Duration time) {
    const TimePoint end = simulation.clock().now() + time;
    bool is_over = false;
    executor->post_at(end, [&] { is_over = true; });
    simulation.run_until([&] { return is_over; }, end);
  }

  Simulation simulation{1};
  std::unique_ptr<Executor> executor = simulation.make_executor();
  bool refuses = false;
  std::vector<MemberOperation> posted;
  std::vector<std::uint64_t> cancels;
  std::vector<std::pair<std::uint64_t, Status>> failures;

 private:
  const std::string name_ = "a";
};

struct QueuePlace {
  explicit QueuePlace(CallLimits limits = {.calls = 3, .operations = 4, .messages = 2, .waiting = 5})
      : queue(std::make_shared<CallQueue>(host, limits)) {}

  QueuedOperation operation(std::uint32_t collective, Duration timeout = std::chrono::seconds(10)) {
    QueuedOperation one;
    one.operation.collective = CollectiveId(collective);
    one.operation.operation = OperationId(next[collective]++);
    one.operation.timeout = timeout;
    one.work = std::make_shared<PostedWork>(
        nullptr, [this, id = one.operation.collective, number = one.operation.operation] {
          queue->cancel(id, number);
        });
    works.push_back(one.work);
    return one;
  }
  void call(std::size_t parts = 1, Duration timeout = std::chrono::seconds(10)) {
    std::vector<QueuedOperation> operations;
    for (std::uint32_t part = 0; part < parts; ++part) operations.push_back(operation(part, timeout));
    queue->add_call(order++, std::move(operations));
    queue->post_ready();
  }
  void message(std::uint32_t collective) {
    queue->add_message(operation(collective));
    queue->post_ready();
  }

  QueueHost host;
  std::shared_ptr<CallQueue> queue;
  std::uint64_t order = 0;
  std::map<std::uint32_t, std::uint64_t> next;
  std::vector<std::shared_ptr<PostedWork>> works;
};

using OperationNumbers = std::vector<std::uint64_t>;

}  // namespace

TEST_CASE("calls of the group go as far as their limit ahead of the oldest, and in order") {
  QueuePlace place;
  for (int i = 0; i < 6; ++i) place.call();
  CHECK(place.host.of(0) == OperationNumbers{0, 1, 2});
  place.host.end(0, 1);
  CHECK(place.host.of(0) == OperationNumbers{0, 1, 2});  // the oldest is not over
  place.host.end(0, 0);
  CHECK(place.host.of(0) == OperationNumbers{0, 1, 2, 3, 4});
  place.host.end(0, 2);
  CHECK(place.host.of(0) == OperationNumbers{0, 1, 2, 3, 4, 5});
  CHECK(place.works[2]->is_done());
  CHECK_FALSE(place.works[5]->is_done());
}

TEST_CASE("a call of many operations begins once they have room, and the oldest whatever it takes") {
  QueuePlace place;
  place.call(6);
  place.call(3);
  CHECK(place.host.posted.size() == 6);
  for (std::uint32_t part = 0; part < 5; ++part) place.host.end(part, 0);
  CHECK(place.host.posted.size() == 9);
  place.call(2);
  CHECK(place.host.posted.size() == 9);
  place.host.end(5, 0);
  CHECK(place.host.posted.size() == 9);
  place.host.end(0, 1);
  CHECK(place.host.posted.size() == 11);
}

TEST_CASE("messages wait for those of the same sender, receiver and tag alone") {
  QueuePlace place;
  for (int i = 0; i < 4; ++i) place.message(7);
  place.message(8);
  place.call();
  CHECK(place.host.of(7) == OperationNumbers{0, 1});
  CHECK(place.host.of(8) == OperationNumbers{0});
  CHECK(place.host.of(0) == OperationNumbers{0});
  place.host.end(7, 1);
  CHECK(place.host.of(7) == OperationNumbers{0, 1, 2});
}

TEST_CASE("a call of several steps holds those after it, and its steps do not wait") {
  QueuePlace place;
  CHECK(place.queue->begin_composite(place.order++, [] { FAIL("it was due at once"); }));
  for (int i = 0; i < 4; ++i) place.call();
  CHECK(place.host.of(0) == OperationNumbers{0, 1});
  for (int i = 0; i < 5; ++i) place.queue->add_step(place.operation(3));
  place.queue->post_ready();
  CHECK(place.host.of(3).size() == 5);
  place.queue->end_composite(0);
  CHECK(place.host.of(0) == OperationNumbers{0, 1, 2});
}

TEST_CASE("the steps of a call wait until it is near the oldest call, or the group fails") {
  QueuePlace place;
  std::vector<int> due;
  const auto begin = [&](int name) {
    return place.queue->begin_composite(place.order++, [&due, name] { due.push_back(name); });
  };
  place.call();
  place.call();
  CHECK(begin(2));
  CHECK_FALSE(begin(3));
  CHECK_FALSE(begin(4));
  CHECK_FALSE(begin(5));
  place.call();
  place.queue->end_composite(4);  // it was cancelled
  place.host.end(0, 1);
  CHECK(due.empty());
  place.host.end(0, 0);
  CHECK(due == std::vector<int>{3});
  place.queue->end_composite(2);
  CHECK(due == std::vector<int>{3, 5});
  CHECK(place.host.of(0) == OperationNumbers{0, 1});
  place.queue->end_composite(3);
  CHECK(place.host.of(0) == OperationNumbers{0, 1, 2});
  for (int name : {7, 8}) begin(name);
  CHECK_FALSE(begin(9));
  place.queue->fail(unavailable("a member is gone"));
  CHECK(due.back() == 9);
}

TEST_CASE("beyond what may wait a call is refused, and may be made again") {
  QueuePlace place;
  for (int i = 0; i < 8; ++i) {
    REQUIRE(place.queue->check_room().is_ok());
    place.call();
  }
  CHECK(place.queue->check_room().code() == StatusCode::kResourceExhausted);
  place.host.end(0, 0);
  CHECK(place.queue->check_room().is_ok());
  CHECK(place.queue->failure().is_ok());
}

TEST_CASE("a failure ends what waits with its cause, and the node tells others of one in each collective") {
  QueuePlace place;
  for (int i = 0; i < 5; ++i) place.call();
  for (int i = 0; i < 5; ++i) place.message(7);
  place.host.refuses = true;
  place.host.end(0, 1, unavailable("gone"));
  for (std::size_t i = 0; i < place.works.size(); ++i) {
    const bool was_posted = i == 0 || i == 2 || i == 5 || i == 6;
    CHECK_MESSAGE(place.works[i]->is_done() == !was_posted, i);
  }
  CHECK(place.works[4]->wait() == unavailable("gone"));
  CHECK(place.works[3]->wait() == cancelled("the host refuses"));  // it told the others
  CHECK(place.works[9]->wait() == unavailable("gone"));
  CHECK(place.queue->failure() == unavailable("gone"));
}

TEST_CASE("the timeout of a call counts from the call, and ends the group also while it waits") {
  QueuePlace place;
  for (int i = 0; i < 4; ++i) place.call();
  place.call(1, std::chrono::seconds(2));
  place.host.pass(std::chrono::milliseconds(1'900));
  CHECK_FALSE(place.works.back()->is_done());
  place.host.pass(std::chrono::milliseconds(200));
  CHECK(place.works.back()->wait().code() == StatusCode::kDeadlineExceeded);
  REQUIRE(place.host.failures.size() == 1);
  CHECK(place.host.failures.front().first == 4);
  CHECK(place.host.failures.front().second.message().find("3 are under way") != std::string::npos);

  QueuePlace later;
  for (int i = 0; i < 4; ++i) later.call();
  later.host.pass(std::chrono::seconds(3));
  later.host.end(0, 0);
  CHECK(later.host.posted.back().timeout == std::chrono::seconds(7));
}

TEST_CASE("a call that waits can be cancelled, and fails its group on every member") {
  QueuePlace place;
  for (int i = 0; i < 5; ++i) place.call();
  place.works[0]->cancel();
  CHECK(place.host.cancels == OperationNumbers{0});
  place.works[4]->cancel();
  CHECK(place.host.cancels == OperationNumbers{0});
  REQUIRE(place.host.failures.size() == 1);
  CHECK(place.host.failures.front().first == 4);
  CHECK(place.works[4]->wait().code() == StatusCode::kCancelled);
}

TEST_CASE("what a host drops as it goes ends with all that waits, and it is given nothing more") {
  QueuePlace place;
  for (int i = 0; i < 5; ++i) place.call();
  place.host.posted.clear();
  CHECK(place.host.posted.empty());
  for (const auto& work : place.works) CHECK(work->wait().code() == StatusCode::kCancelled);
}
