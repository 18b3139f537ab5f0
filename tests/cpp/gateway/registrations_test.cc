// One registration for all ranks that ask for the same collectives, and a bound on those that run.
#include "gateway/registrations.h"

#include <doctest/doctest.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <future>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "square/gateway.h"

using namespace square;
using namespace square::gateway;

namespace {

// Every call waits until open() lets it.
class GatedHost final : public MemberHost {
 public:
  [[nodiscard]] const std::string& name() const override { return name_; }
  Result<GroupPart> join_group(const GroupSpec&, Rank rank, Duration) override {
    {
      const std::lock_guard lock(mutex_);
      joined_.insert(rank);
    }
    is_open_.wait(false);
    return GroupPart{};
  }
  Result<GroupRegistration> register_group(const GroupSpec& group, Duration timeout) override {
    ++registered;
    is_open_.wait(false);
    if (timeout < std::chrono::seconds(1)) return deadline_exceeded("late");
    if (group.name == "bad") return invalid_argument("no such");
    return GroupRegistration{};
  }
  void set_members(CollectiveId, std::string, std::vector<Rank>) override {}
  void post(MemberOperation) override {}
  void cancel(CollectiveId, OperationId) override {}
  void fail(CollectiveId, OperationId, Status) override {}
  void after(Duration, std::function<void()>) override {}
  void watch(CollectiveId, OperationId, Duration, std::function<void(Status)>) override {}
  void open() {
    is_open_ = true;
    is_open_.notify_all();
  }
  [[nodiscard]] std::size_t joined() const {
    const std::lock_guard lock(mutex_);
    return joined_.size();
  }

  std::atomic<std::size_t> registered = 0;

 private:
  const std::string name_ = "a";
  mutable std::mutex mutex_;
  std::set<Rank> joined_;
  std::atomic<bool> is_open_ = false;
};

// The group that it is asked about never comes: it answers when its time is over.
class IdleHost final : public MemberHost {
 public:
  [[nodiscard]] const std::string& name() const override { return name_; }
  Result<GroupPart> join_group(const GroupSpec& group, Rank, Duration timeout) override {
    return register_group(group, timeout).status();
  }
  Result<GroupRegistration> register_group(const GroupSpec& group, Duration timeout) override {
    std::unique_lock lock(mutex_);
    ++asked_[group.name];
    longest_ = std::max(longest_, timeout);
    over_.wait_for(lock, timeout, [this] { return is_over_; });
    return deadline_exceeded("it never comes");
  }
  void set_members(CollectiveId, std::string, std::vector<Rank>) override {}
  void post(MemberOperation) override {}
  void cancel(CollectiveId, OperationId) override {}
  void fail(CollectiveId, OperationId, Status) override {}
  void after(Duration, std::function<void()>) override {}
  void watch(CollectiveId, OperationId, Duration, std::function<void(Status)>) override {}
  void open() {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    over_.notify_all();
  }
  [[nodiscard]] std::size_t asked(const std::string& group) const {
    const std::lock_guard lock(mutex_);
    const auto found = asked_.find(group);
    return found == asked_.end() ? 0 : found->second;
  }
  [[nodiscard]] Duration longest() const {
    const std::lock_guard lock(mutex_);
    return longest_;
  }

 private:
  const std::string name_ = "a";
  mutable std::mutex mutex_;
  std::condition_variable over_;
  std::map<std::string, std::size_t> asked_;
  Duration longest_{0};
  bool is_over_ = false;
};

template <typename Host = GatedHost>
struct RegistrationPlace {
  explicit RegistrationPlace(Duration turn = kRegistrationTurn)
      : registrations(std::make_shared<Registrations>(host, loop, turn)) {
    REQUIRE(loop->start("test", std::chrono::milliseconds(20), [] {}).is_ok());
  }
  ~RegistrationPlace() {
    host.open();
    loop->stop();
    registrations.reset();
  }

  template <typename Task>
  auto on_loop(Task task) {
    std::promise<decltype(task())> answer;
    loop->post([&] { answer.set_value(task()); });
    return answer.get_future().get();
  }
  void begin(AttachmentId attachment, const std::string& group, std::uint32_t channel,
             std::optional<Rank> joins = std::nullopt, Duration timeout = std::chrono::seconds(60),
             std::uint32_t user = geteuid()) {
    GroupCollective collective;
    collective.channel = channel;
    GroupSpec spec{group, "alice", {"a", "a"}, {collective}};
    on_loop([&] {
      registrations->begin({attachment, user}, spec, joins, timeout, [this](const Result<GroupPart>& result) {
        const std::lock_guard lock(mutex);
        ++outcomes[result.status().code()];
      });
      return 0;
    });
  }
  std::size_t ended(StatusCode code) {
    const std::lock_guard lock(mutex);
    return outcomes[code];
  }
  template <typename Condition>
  bool comes(Condition condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!condition() && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return condition();
  }

  Host host;
  std::shared_ptr<EventLoop> loop = *EventLoop::make();
  std::shared_ptr<Registrations> registrations;
  std::mutex mutex;
  std::map<StatusCode, std::size_t> outcomes;
};

}  // namespace

TEST_CASE("ranks that ask for the same collectives share one registration, and all hear its outcome") {
  RegistrationPlace<> place;
  for (AttachmentId rank = 1; rank <= 300; ++rank) place.begin(rank, "g", 7);
  for (AttachmentId rank = 1; rank <= 300; ++rank) place.begin(rank, "bad", 7);
  CHECK(place.comes([&] { return place.host.registered == 2; }));
  place.host.open();
  CHECK(place.comes([&] { return place.ended(StatusCode::kOk) == 300; }));
  CHECK(place.comes([&] { return place.ended(StatusCode::kInvalidArgument) == 300; }));
  CHECK(place.host.registered == 2);
}

TEST_CASE("as many registrations run as may, and the others wait") {
  RegistrationPlace<> place;
  for (std::uint32_t channel = 0; channel < 100; ++channel) place.begin(channel, "g", channel);
  CHECK(place.comes([&] { return place.host.registered == Gateway::kMaxRegistrations; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(place.host.registered == Gateway::kMaxRegistrations);
  place.host.open();
  CHECK(place.comes([&] { return place.ended(StatusCode::kOk) == 100; }));
  CHECK(place.host.registered == 100);
}

TEST_CASE("all ranks that join a group ask at once: one may wait for what another does then") {
  RegistrationPlace<> place;
  for (std::uint32_t rank = 0; rank < 300; ++rank) place.begin(rank, "g", 7, Rank(rank));
  CHECK(place.comes([&] { return place.host.joined() == 300; }));
  for (std::uint32_t rank = 300; rank < 600; ++rank) place.begin(rank, "g", 7, Rank(rank));
  CHECK(place.comes([&] { return place.host.joined() == kMaxRegroups; }));
  place.host.open();
  CHECK(place.comes([&] { return place.ended(StatusCode::kOk) == 600; }));
}

TEST_CASE("a process has so many registrations that run or wait, and then room again") {
  RegistrationPlace<> place;
  const auto check = [&](AttachmentId attachment) {
    return place.on_loop([&] { return place.registrations->check(attachment); });
  };
  for (std::uint32_t i = 0; i < kMaxRegistrationsOfOne; ++i) {
    REQUIRE(check(1).is_ok());
    place.begin(1, "g", i);
  }
  CHECK(check(1).code() == StatusCode::kResourceExhausted);
  CHECK(check(2).is_ok());
  place.host.open();
  CHECK(place.comes([&] { return place.ended(StatusCode::kOk) == kMaxRegistrationsOfOne; }));
  CHECK(check(1).is_ok());
}

TEST_CASE("a rank that came later, with more time, is not late with the first") {
  RegistrationPlace<> place;
  place.begin(1, "g", 7, std::nullopt, std::chrono::milliseconds(100));
  CHECK(place.comes([&] { return place.host.registered == 1; }));
  place.begin(2, "g", 7);
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  place.host.open();
  CHECK(place.comes([&] { return place.ended(StatusCode::kDeadlineExceeded) == 1; }));
  CHECK(place.comes([&] { return place.ended(StatusCode::kOk) == 1; }));
}

TEST_CASE("users share the registrations that may run, and the gateway's own may have all that are left") {
  RegistrationPlace<> place;
  const std::uint32_t one = geteuid() + 1;
  const std::uint32_t other = geteuid() + 2;
  constexpr Duration kTime = std::chrono::seconds(60);
  for (std::uint32_t channel = 0; channel < 20; ++channel)
    place.begin(channel, "g", channel, std::nullopt, kTime, one);
  CHECK(place.comes([&] { return place.host.registered == kMaxRegistrationsOfUser; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(place.host.registered == kMaxRegistrationsOfUser);
  place.begin(100, "h", 1, std::nullopt, kTime, other);
  CHECK(place.comes([&] { return place.host.registered == kMaxRegistrationsOfUser + 1; }));
  for (std::uint32_t channel = 0; channel < 40; ++channel) place.begin(200 + channel, "i", channel);
  CHECK(place.comes([&] { return place.host.registered == Gateway::kMaxRegistrations; }));
  place.host.open();
  CHECK(place.comes([&] { return place.ended(StatusCode::kOk) == 61; }));
}

TEST_CASE("users share the places for members that join groups") {
  RegistrationPlace<> place;
  constexpr Duration kTime = std::chrono::seconds(60);
  for (std::uint32_t rank = 0; rank < 200; ++rank)
    place.begin(rank, "g", 7, Rank(rank), kTime, geteuid() + 1);
  CHECK(place.comes([&] { return place.host.joined() == kMaxJoinsOfUser; }));
  place.begin(1'000, "g", 7, Rank(1'000), kTime, geteuid() + 2);
  place.begin(1'001, "h", 7, Rank(1'001), kTime);
  CHECK(place.comes([&] { return place.host.joined() == kMaxJoinsOfUser + 2; }));
  place.host.open();
  CHECK(place.comes([&] { return place.ended(StatusCode::kOk) == 202; }));
}

TEST_CASE("a process that is gone gives the places of its registrations back") {
  RegistrationPlace<IdleHost> place(std::chrono::milliseconds(100));
  const std::uint32_t user = geteuid() + 1;
  constexpr Duration kTime = std::chrono::hours(1);
  for (std::uint32_t i = 0; i < 20; ++i)
    place.begin(1, "g" + std::to_string(i), 7, std::nullopt, kTime, user);
  for (std::uint32_t rank = 0; rank < 150; ++rank) place.begin(2, "joined", 7, Rank(rank), kTime, user);
  place.begin(3, "adds next", 7, std::nullopt, kTime, user);
  place.begin(3, "joins next", 8, Rank(0), kTime, user);
  CHECK(place.comes([&] { return place.host.asked("g0") > 0 && place.host.asked("joined") > 0; }));
  CHECK(place.host.asked("adds next") == 0);
  place.on_loop([&] {
    place.registrations->forget(1);
    place.registrations->forget(2);
    return 0;
  });
  CHECK(place.comes([&] { return place.host.asked("adds next") > 0 && place.host.asked("joins next") > 0; }));
  CHECK(place.host.asked("g19") == 0);  // it waited
  const std::size_t asked = place.host.asked("g0");
  CHECK(place.comes([&] { return place.host.asked("adds next") > 3; }));
  CHECK(place.host.asked("g0") == asked);
  CHECK(place.ended(StatusCode::kDeadlineExceeded) == 0);
  CHECK(place.on_loop([&] { return place.registrations->check(1); }).is_ok());
  place.host.open();
}

TEST_CASE("a node is asked again until the time of a registration is over, which is a day at most") {
  RegistrationPlace<IdleHost> place(std::chrono::milliseconds(20));
  place.begin(1, "g", 7, std::nullopt, std::chrono::milliseconds(500));
  place.begin(1, "g", 8, Rank(0), std::chrono::milliseconds(500));
  CHECK(place.comes([&] { return place.ended(StatusCode::kDeadlineExceeded) == 2; }));
  CHECK(place.host.asked("g") > 4);
  CHECK(place.host.longest() < std::chrono::milliseconds(500));
  place.host.open();

  RegistrationPlace<IdleHost> slow(std::chrono::hours(24 * 365));
  slow.begin(1, "g", 7, std::nullopt, Duration::max());
  slow.begin(1, "g", 8, Rank(0), Duration::max());
  CHECK(slow.comes([&] { return slow.host.asked("g") == 2; }));
  CHECK(slow.host.longest() <= kMaxRegistrationWait);
}

TEST_CASE("without another thread a registration is refused, and so is a loop") {
  RegistrationPlace<> place;
  const auto unstarted = *EventLoop::make();
  pthread_attr_t before;
  pthread_attr_t huge;
  REQUIRE(pthread_getattr_default_np(&before) == 0);
  REQUIRE(pthread_attr_init(&huge) == 0);
  REQUIRE(pthread_attr_setstacksize(&huge, std::size_t{1} << 50U) == 0);
  REQUIRE(pthread_setattr_default_np(&huge) == 0);
  place.begin(1, "g", 7);
  place.begin(1, "g", 8, Rank(0));
  CHECK(place.comes([&] { return place.ended(StatusCode::kResourceExhausted) == 2; }));
  CHECK(unstarted->start("test", std::chrono::seconds(1), [] {}).code() == StatusCode::kResourceExhausted);
  REQUIRE(pthread_setattr_default_np(&before) == 0);
  place.begin(1, "g", 7);
  place.host.open();
  CHECK(place.comes([&] { return place.ended(StatusCode::kOk) == 1; }));
  pthread_attr_destroy(&before);
  pthread_attr_destroy(&huge);
}
