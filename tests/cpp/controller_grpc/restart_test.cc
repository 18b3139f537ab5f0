// A controller that is started again, with its store and without: what runs goes on, nothing is given twice.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <thread>

#include "controller/coordinator_thread.h"
#include "controller/recorded_line.h"
#include "controller_grpc/fixture.h"

using namespace square;
using namespace square::test;
using controller::Answer;
using controller::Coordinator;
using controller::CoordinatorThread;

namespace {

// A directory for a store, which goes with its owner.
class StoreDirectory {
 public:
  StoreDirectory() {
    std::string pattern = std::filesystem::temp_directory_path() / "square-restart-XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~StoreDirectory() { std::filesystem::remove_all(path_); }
  [[nodiscard]] std::string file() const { return path_ / "store"; }

 private:
  std::filesystem::path path_;
};

// A controller that can be started again at its address.
class Restarted {
 public:
  Restarted(Scenario scenario, const std::string& store) : scenario_(std::move(scenario)) {
    options_.store = store;
    again();
    options_.bind_address = now->address();
  }
  void again() {
    if (now) now->stop();
    now.reset();
    now = start(scenario_, options_);
  }
  std::unique_ptr<Controller> now;

 private:
  const Scenario scenario_;
  ControllerOptions options_;
};

std::vector<SessionId> sessions_of(const Plan& plan, CollectiveId collective) {
  const PlanCollective* const found = plan.find_collective(collective);
  return found == nullptr ? std::vector<SessionId>() : found->sessions;
}

GroupSpec all_reduce_group(const std::string& name, const std::vector<std::string>& nodes) {
  return {name, "alice", nodes, {{CollectiveOp::kAllReduce, Rank(0), 1.0, 1'000'000}}};
}

bool has_newer_plan_with(const Controller& controller, const Plan& before, CollectiveId collective) {
  const auto plan = controller.plan();
  return plan && plan->epoch > before.epoch && plan->find_collective(collective) != nullptr;
}

std::vector<std::string> names_of(const Plan& plan) {
  std::vector<std::string> names;
  for (const PlanNode& node : plan.nodes) names.push_back(node.name);
  return names;
}

// A group of nodes a and b, which a has registered.
struct Job {
  explicit Job(const std::string& store) : controller(mesh({"a", "b"}), store) {
    auto registered = a->client().register_group(group, kPatience);
    REQUIRE_MESSAGE(registered.is_ok(), registered.status().to_string());
    made = *registered;
  }
  // The next controller, once it has taken the group over.
  void restart() {
    const auto before = controller.now->plan();
    REQUIRE(b->wait_for_active(before->epoch));
    controller.again();
    REQUIRE(
        eventually([&] { return has_newer_plan_with(*controller.now, *before, made.collectives.front()); }));
  }

  Restarted controller;
  std::unique_ptr<FakeNode> a = FakeNode::join(*controller.now, "a");
  std::unique_ptr<FakeNode> b = FakeNode::join(*controller.now, "b");
  const GroupSpec group = all_reduce_group("job", {"a", "b"});
  GroupRegistration made;
};

// Two controllers one after the other, and what nodes a and b ran under the first.
void check_goes_on(Restarted& controller) {
  const auto a = FakeNode::join(*controller.now, "a");
  const auto b = FakeNode::join(*controller.now, "b");
  const auto group = all_reduce_group("job", {"a", "b"});
  const auto made = a->client().register_group(group, kPatience);
  REQUIRE_MESSAGE(made.is_ok(), made.status().to_string());
  REQUIRE(b->client().register_group(group, kPatience).is_ok());
  const CollectiveId collective = made->collectives.front();
  const auto before = controller.now->plan();
  const auto names = names_of(*before);
  const auto sessions = sessions_of(*before, collective);
  REQUIRE_FALSE(sessions.empty());

  controller.again();
  // Both bring the group, and both get a plan that is newer than what they had.
  REQUIRE(eventually([&] { return has_newer_plan_with(*controller.now, *before, collective); }));
  const Epoch epoch = controller.now->plan()->epoch;
  CHECK(a->wait_for_active(epoch));
  CHECK(b->wait_for_active(epoch));
  const auto after = controller.now->plan();
  CHECK(after->origin != before->origin);
  CHECK(sessions_of(*after, collective) == sessions);
  auto kept = names_of(*after);
  kept.resize(names.size());
  CHECK(kept == names);

  // The same group is the same, another gets other numbers.
  const auto same = b->client().register_group(group, kPatience);
  REQUIRE_MESSAGE(same.is_ok(), same.status().to_string());
  CHECK(same->collectives == made->collectives);
  const auto other = a->client().register_group(all_reduce_group("other", {"b", "a"}), kPatience);
  REQUIRE_MESSAGE(other.is_ok(), other.status().to_string());
  CHECK(other->collectives.front() != collective);
  const auto latest = controller.now->plan();
  std::set<SessionId> all;
  for (const PlanSession& session : latest->sessions) all.insert(session.id);
  CHECK(all.size() == latest->sessions.size());
}

}  // namespace

namespace {

// A store that takes nothing while it is `full`, and is another's once it is `lost`.
class MoodyStore final : public store::Store {
 public:
  struct Mood {
    std::atomic<bool> full = false;
    std::atomic<bool> lost = false;
  };
  explicit MoodyStore(Mood& mood) : mood_(mood) {}
  [[nodiscard]] store::StoreId id() const override { return 5; }
  [[nodiscard]] std::uint64_t term() const override { return 1; }
  Result<std::map<std::string, std::string>> read() override { return inner_->read(); }
  Status write(const std::vector<store::Write>& writes) override {
    if (mood_.lost) return failed_precondition("another controller has taken over the store");
    if (mood_.full) return resource_exhausted("the disk is full");
    return inner_->write(writes);
  }

 private:
  Mood& mood_;
  std::unique_ptr<store::Store> inner_ = store::make_memory_store();
};

struct Waiting {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Result<Answer>> answer;

  controller::Reply reply() {
    return [this](Result<Answer> result) {
      const std::lock_guard lock(mutex);
      answer = std::move(result);
      changed.notify_all();
    };
  }
  Result<Answer> wait() {
    std::unique_lock lock(mutex);
    REQUIRE(changed.wait_for(lock, kPatience, [this] { return answer.has_value(); }));
    return *std::exchange(answer, std::nullopt);
  }
};

}  // namespace

TEST_CASE("a controller with another policy starts without the groups that it cannot plan, and says which") {
  const StoreDirectory directory;
  ControllerOptions options;
  options.store = directory.file();
  options.install_timeout = 100ms;  // so long registrations wait for nodes that may come back
  Scenario scenario = mesh({"a", "b"});
  scenario.policy.name = "exact";
  {
    const auto first = start(scenario, options);
    REQUIRE(first->register_group(all_reduce_group("sums", {"a", "b"})).is_ok());
    REQUIRE(first->register_group(broadcast_group("copies", {"a", "b"})).is_ok());
  }
  scenario.policy.name = "square";  // which plans no all-reduce
  const auto next = start(scenario, options);
  REQUIRE(eventually([&] { return next->plan() != nullptr; }));
  CHECK(next->plan()->collectives.size() == 1);
  CHECK(next->register_group(broadcast_group("copies", {"a", "b"})).is_ok());
  CHECK(next->register_group(broadcast_group("more", {"a", "b"})).is_ok());
  const Status refused = next->register_group(all_reduce_group("sums", {"a", "b"})).status();
  CHECK(refused.code() == StatusCode::kFailedPrecondition);
  CHECK(refused.message().find("group \"sums\"") != std::string::npos);
}

TEST_CASE("a controller that is started again hears from its nodes what they run") {
  Restarted controller(mesh({"a", "b", "c"}), "");
  check_goes_on(controller);
}

TEST_CASE("a controller that is started again hears of nodes that no topology names") {
  Scenario open;
  open.policy.name = "exact";
  Restarted controller(open, "");
  check_goes_on(controller);
}

TEST_CASE("a controller that is started again with its store knows") {
  const StoreDirectory directory;
  Restarted controller(mesh({"a", "b", "c"}), directory.file());
  check_goes_on(controller);
}

TEST_CASE("an open overlay that is started again with its store knows, too") {
  const StoreDirectory directory;
  Scenario open;
  open.policy.name = "exact";
  Restarted controller(open, directory.file());
  check_goes_on(controller);
}

TEST_CASE("a store remembers groups whose nodes have not come back yet, and for how long it may wait") {
  const StoreDirectory directory;
  ControllerOptions options;
  options.store = directory.file();
  options.lease = 400ms;
  Scenario open;
  open.policy.name = "exact";
  std::vector<CollectiveId> given;
  {
    const auto first = start(open, options);
    const auto a = FakeNode::join(*first, "a");
    const auto b = FakeNode::join(*first, "b");
    const auto made = a->client().register_group(all_reduce_group("job", {"a", "b"}), kPatience);
    REQUIRE_MESSAGE(made.is_ok(), made.status().to_string());
    given = made->collectives;
    first->stop();
  }
  const auto second = start(open, options);
  REQUIRE(eventually([&] { return second->plan() != nullptr; }));
  CHECK(second->plan()->find_collective(given.front()) != nullptr);
  // Nobody comes: the nodes left, and with them the group.
  CHECK(eventually([&] { return second->plan()->collectives.empty(); }));
  // Other processes under the names have no part in it.
  const auto a = FakeNode::join(*second, "a");
  const auto b = FakeNode::join(*second, "b");
  const auto made = a->client().register_group(all_reduce_group("job", {"a", "b"}), kPatience);
  REQUIRE_MESSAGE(made.is_ok(), made.status().to_string());
  CHECK(made->collectives != given);
}

TEST_CASE("what was set while a controller ran holds for the next one that is started with the same") {
  const StoreDirectory directory;
  ControllerOptions options;
  options.store = directory.file();
  Scenario wider = mesh({"a", "b", "c"});
  for (std::size_t i = 0; i < wider.topology.link_count(); ++i) {
    REQUIRE(wider.topology.set_capacity(LinkId(static_cast<std::uint32_t>(i)), mbps_to_bps(300)).is_ok());
  }
  PolicySpec policy;
  policy.shots = 2;
  policy.avoid_links = {LinkId(1)};
  {
    const auto first = start(mesh({"a", "b"}), options);
    REQUIRE(first->set_topology(wider.topology).is_ok());
    REQUIRE(first->set_policy(policy).is_ok());
  }
  const std::vector<std::string> all{"a", "b", "c"};
  // Nodes that may come back are waited for.
  const auto next = [&](const Scenario& scenario) {
    auto controller = start(scenario, options);
    REQUIRE(eventually([&] { return controller->plan() != nullptr; }));
    return controller;
  };
  {
    const auto second = next(mesh({"a", "b"}));
    CHECK(names_of(*second->plan()) == all);
    REQUIRE(second->register_group(broadcast_group("g", {"a", "b", "c"})).is_ok());
    const auto plan = second->plan();
    for (const PlanLink& link : plan->links) CHECK(link.capacity_bps == mbps_to_bps(300));
    CHECK(std::ranges::count_if(plan->links, [](const PlanLink& link) { return link.avoided; }) == 1);
    policy.name = "mcf";
    policy.avoid_links.clear();
    REQUIRE(second->set_policy(policy).is_ok());
  }
  CHECK(next(mesh({"a", "b"}))->plan()->policy == "mcf");
  // Another file counts.
  const auto other = next(mesh({"a", "b", "c"}));
  CHECK(other->plan()->policy == "exact");
  CHECK(names_of(*other->plan()) == all);
}

TEST_CASE("a group that one node has closed ends with the others, also with the next controller") {
  for (const bool is_stored : {false, true}) {
    const StoreDirectory directory;
    Job job(is_stored ? directory.file() : "");
    REQUIRE(job.b->client().register_group(job.group, kPatience).is_ok());
    job.a->client().close_group("job", job.made.number);
    job.restart();
    job.b->client().close_group("job", job.made.number);
    CHECK(eventually([&] { return job.controller.now->plan()->collectives.empty(); }));
    // The name is free, and what it names next is another group.
    const auto next = job.b->client().register_group(job.group, kPatience);
    REQUIRE_MESSAGE(next.is_ok(), next.status().to_string());
    CHECK(next->number != job.made.number);
    CHECK(next->collectives != job.made.collectives);
  }
}

TEST_CASE("a member that has not registered yet does so with the next controller") {
  for (const bool is_stored : {false, true}) {
    const StoreDirectory directory;
    Job job(is_stored ? directory.file() : "");
    job.restart();
    const auto late = job.b->client().register_group(job.group, kPatience);
    REQUIRE_MESSAGE(late.is_ok(), late.status().to_string());
    CHECK(late->collectives == job.made.collectives);
    CHECK(late->number == job.made.number);
  }
}

TEST_CASE("a member that has closed a group is not put back into it by the next controller") {
  Job job("");
  REQUIRE(job.b->client().register_group(job.group, kPatience).is_ok());
  job.b->client().close_group("job", job.made.number);
  Result<GroupRegistration> again = internal_error("not called");
  std::thread caller([&] { again = job.b->client().register_group(job.group, kPatience); });
  job.restart();
  job.a->client().close_group("job", job.made.number);
  caller.join();
  REQUIRE_MESSAGE(again.is_ok(), again.status().to_string());
  CHECK(again->number != job.made.number);
  CHECK(again->collectives != job.made.collectives);
}

namespace {

// Of two nodes, a and b, that another controller had, and which both know.
v1::Past past_of_two() {
  v1::Past past;
  past.set_store(77);
  past.set_term(1);
  past.set_epoch(4);
  past.add_nodes("a");
  past.add_nodes("b");
  past.set_next_group(8);
  past.set_next_collective(3);
  return past;
}

void add_job(v1::Past& past) {
  v1::RunningGroup& running = *past.add_groups();
  *running.mutable_group() = controller::to_message(all_reduce_group("job", {"a", "b"}));
  running.add_collectives(2);
  running.set_number(7);
}

}  // namespace

TEST_CASE("a process that is new has no part in what the one before ran under another controller") {
  for (const bool is_first : {false, true}) {
    CAPTURE(is_first);
    auto made = CoordinatorThread::create(10s, 10s, mesh({"a", "b"}));
    REQUIRE(made.is_ok());
    Coordinator& coordinator = (*made)->coordinator();
    v1::Hello a = hello_of("a", 1, "a:1");
    *a.mutable_past() = past_of_two();
    add_job(*a.mutable_past());
    v1::Address& known = *a.mutable_past()->add_addresses();
    known.set_peer("b");
    known.set_address("b:1");
    known.set_incarnation(1);
    const v1::Hello b = hello_of("b", 2, "b:1");
    const auto to_a = std::make_shared<RecordedLine>();
    const auto to_b = std::make_shared<RecordedLine>();
    if (is_first) REQUIRE(coordinator.join(b, to_b).is_ok());
    REQUIRE(coordinator.join(a, to_a).is_ok());
    std::this_thread::sleep_for(20ms);  // what it brings is absorbed
    if (!is_first) REQUIRE(coordinator.join(b, to_b).is_ok());
    const auto has_group = [&] {
      for (std::uint32_t epoch = 5; epoch < 12; ++epoch) {
        coordinator.installed("a", to_a.get(), Epoch(epoch));
        coordinator.installed("b", to_b.get(), Epoch(epoch));
      }
      return coordinator.active()->plan->find_collective(CollectiveId(2)) != nullptr;
    };
    REQUIRE(eventually(has_group));
    v1::Closed closed;
    closed.set_group("job");
    closed.set_number(7);
    coordinator.closed("a", to_a.get(), closed);
    CHECK(eventually([&] { return !has_group(); }));
  }
}

TEST_CASE("what a node closed and registers anew ends, in whatever order the nodes come back") {
  auto made = CoordinatorThread::create(10s, 10s, mesh({"a", "b"}));
  REQUIRE(made.is_ok());
  Coordinator& coordinator = (*made)->coordinator();
  v1::Hello a = hello_of("a", 1, "a:1");
  *a.mutable_past() = past_of_two();
  a.mutable_past()->add_registering("job");
  v1::Hello b = hello_of("b", 1, "b:1");
  *b.mutable_past() = past_of_two();
  add_job(*b.mutable_past());
  const auto install = [&](const std::string& name, const RecordedLine& line) {
    for (std::uint32_t epoch = 5; epoch < 12; ++epoch) coordinator.installed(name, &line, Epoch(epoch));
  };
  const auto to_a = std::make_shared<RecordedLine>();
  const auto to_b = std::make_shared<RecordedLine>();
  REQUIRE(coordinator.join(a, to_a).is_ok());
  std::this_thread::sleep_for(20ms);  // what it brings is absorbed
  REQUIRE(coordinator.join(b, to_b).is_ok());
  const auto has_group = [&] {
    install("a", *to_a);
    install("b", *to_b);
    return coordinator.active()->plan->find_collective(CollectiveId(2)) != nullptr;
  };
  REQUIRE(eventually(has_group));
  GroupSpec anew = all_reduce_group("job", {"a", "b"});
  anew.registrant = "a";
  anew.closed_number = 7;
  Waiting waiting;
  coordinator.submit(anew, waiting.reply());
  CHECK(waiting.wait().status().code() == StatusCode::kAborted);
  v1::Closed closed;
  closed.set_group("job");
  closed.set_number(7);
  coordinator.closed("b", to_b.get(), closed);
  CHECK(eventually([&] { return !has_group(); }));
}

// It has a channel of its own, which may find the next controller first.
TEST_CASE("a registration that overtakes its node's line waits for what the line tells") {
  auto made = CoordinatorThread::create(10s, 10s, mesh({"a", "b"}));
  REQUIRE(made.is_ok());
  Coordinator& coordinator = (*made)->coordinator();
  GroupSpec group = all_reduce_group("job", {"a", "b"});
  group.registrant = "b";
  Waiting waiting;
  coordinator.submit(group, waiting.reply());
  std::this_thread::sleep_for(20ms);
  v1::Hello b = hello_of("b", 1, "b:1");
  *b.mutable_past() = past_of_two();
  b.mutable_past()->add_registering("job");
  const auto to_b = std::make_shared<RecordedLine>();
  REQUIRE(coordinator.join(b, to_b).is_ok());
  std::this_thread::sleep_for(20ms);
  v1::Hello a = hello_of("a", 1, "a:1");
  *a.mutable_past() = past_of_two();
  add_job(*a.mutable_past());
  const auto to_a = std::make_shared<RecordedLine>();
  const Status joined = coordinator.join(a, to_a);
  REQUIRE_MESSAGE(joined.is_ok(), joined.to_string());
  CHECK(eventually([&] {
    for (std::uint32_t epoch = 5; epoch < 12; ++epoch) {
      coordinator.installed("a", to_a.get(), Epoch(epoch));
      coordinator.installed("b", to_b.get(), Epoch(epoch));
    }
    const std::lock_guard lock(waiting.mutex);
    return waiting.answer.has_value();
  }));
  const auto answer = waiting.wait();
  REQUIRE_MESSAGE(answer.is_ok(), answer.status().to_string());
  CHECK(answer->collectives == std::vector{CollectiveId(2)});  // the one that runs
}

TEST_CASE("a registration whose controller dies is answered by the next") {
  Restarted controller(mesh({"a", "b"}), "");
  FakeNode::Options slow;
  slow.installs = false;
  const auto a = FakeNode::join(*controller.now, "a", slow);
  const auto b = FakeNode::join(*controller.now, "b");
  Result<GroupRegistration> made = internal_error("not called");
  std::thread caller([&] {
    made = b->client().register_group(all_reduce_group("job", {"a", "b"}), kPatience);
  });
  const auto has_group = [](const std::vector<FakeNode::Event>& events) {
    return std::ranges::any_of(
        events, [](const FakeNode::Event& event) { return event.plan && !event.plan->collectives.empty(); });
  };
  REQUIRE(a->wait_for(has_group));
  controller.again();
  std::atomic<bool> is_over = false;
  std::thread installer([&] {
    while (!is_over) {
      a->install();
      std::this_thread::sleep_for(5ms);
    }
  });
  caller.join();
  is_over = true;
  installer.join();
  REQUIRE_MESSAGE(made.is_ok(), made.status().to_string());
  CHECK(controller.now->plan()->find_collective(made->collectives.front()) != nullptr);
}

TEST_CASE("what the store cannot take is refused, and what runs stays as it is") {
  MoodyStore::Mood mood;
  auto made = CoordinatorThread::create(10s, 10s, mesh({"a", "b"}), std::make_unique<MoodyStore>(mood));
  REQUIRE(made.is_ok());
  Coordinator& coordinator = (*made)->coordinator();
  const auto line = std::make_shared<RecordedLine>();
  Waiting waiting;
  coordinator.submit(all_reduce_group("one", {"a", "b"}), waiting.reply());
  REQUIRE(waiting.wait().is_ok());
  const auto before = coordinator.active();

  mood.full = true;
  coordinator.submit(all_reduce_group("two", {"a", "b"}), waiting.reply());
  const auto refused = waiting.wait();
  CHECK(refused.status().code() == StatusCode::kResourceExhausted);
  CHECK(coordinator.active() == before);
  mood.full = false;
  coordinator.submit(all_reduce_group("two", {"a", "b"}), waiting.reply());
  const auto second = waiting.wait();
  REQUIRE(second.is_ok());
  CHECK(coordinator.active()->plan->epoch > before->plan->epoch);

  mood.lost = true;
  coordinator.submit(all_reduce_group("three", {"a", "b"}), waiting.reply());
  CHECK(waiting.wait().status().code() == StatusCode::kFailedPrecondition);
  // Another leads: this one gives up.
  CHECK(eventually(
      [&] { return coordinator.join(hello_of("a", 1, "a:1"), line).code() == StatusCode::kUnavailable; }));
}

TEST_CASE("a node whose numbers were given again is told so, and harms nobody") {
  auto made = CoordinatorThread::create(10s, 10s, mesh({"a", "b"}));
  REQUIRE(made.is_ok());
  Coordinator& coordinator = (*made)->coordinator();
  Waiting waiting;
  coordinator.submit(all_reduce_group("new", {"a", "b"}), waiting.reply());
  const auto given = waiting.wait();
  REQUIRE(given.is_ok());
  v1::Hello hello = hello_of("a", 1, "a:1");
  v1::Past& past = *hello.mutable_past();
  past.set_store(77);
  past.set_term(1);
  past.set_epoch(40);
  past.add_nodes("a");
  past.add_nodes("b");
  v1::RunningGroup& running = *past.add_groups();
  *running.mutable_group() = controller::to_message(all_reduce_group("old", {"b", "a"}));
  running.add_collectives(given->collectives.front().value());
  running.set_number(7);
  past.set_next_group(8);
  past.set_next_collective(given->collectives.front().value() + 10);
  past.set_next_session(100);
  const auto line = std::make_shared<RecordedLine>();
  const Status refused = coordinator.join(hello, line);
  CHECK(refused.code() == StatusCode::kFailedPrecondition);
  CHECK(refused.message().find("group \"old\"") != std::string::npos);

  // With a number of its own it comes in, and the next plan is newer than what it had.
  running.set_collectives(0, given->collectives.front().value() + 5);
  REQUIRE(coordinator.join(hello, line).is_ok());
  CHECK(eventually([&] {
    return coordinator.active()->plan->epoch == Epoch(41) || coordinator.active()->plan->epoch > Epoch(41) ||
           [&] {
             coordinator.installed("a", line.get(), Epoch(41));
             coordinator.installed("a", line.get(), Epoch(42));
             return false;
           }();
  }));
  CHECK(coordinator.active()->plan->find_collective(CollectiveId(given->collectives.front().value() + 5)) !=
        nullptr);
  // What cannot have been given is not believed.
  for (const auto& spoil : std::vector<std::function<void(v1::Past&)>>{
           [](v1::Past& told) { told.set_epoch(0xffffffffU); },
           [](v1::Past& told) { told.set_next_collective(0xffffffffU); },
           [](v1::Past& told) { told.set_next_session(0xffffffffU); },
           [](v1::Past& told) { told.mutable_groups(0)->set_number(told.next_group()); },
           [](v1::Past& told) { told.add_sessions()->set_id(told.next_session()); },
           [](v1::Past& told) {
             told.mutable_groups(0)->mutable_group()->set_name(std::string(5000, 'x'));
           }}) {
    v1::Hello wrong = hello_of("b", 1, "b:1");
    *wrong.mutable_past() = past;
    spoil(*wrong.mutable_past());
    CHECK_FALSE(coordinator.join(wrong, std::make_shared<RecordedLine>()).is_ok());
  }
  // A node numbered otherwise does not fit.
  v1::Hello other = hello_of("b", 1, "b:1");
  *other.mutable_past() = past;
  other.mutable_past()->set_nodes(0, "b");
  other.mutable_past()->set_nodes(1, "a");
  CHECK(coordinator.join(other, std::make_shared<RecordedLine>()).code() == StatusCode::kFailedPrecondition);
}
