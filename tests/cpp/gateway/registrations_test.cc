// One registration for all ranks that ask for the same collectives, and a bound on those that run.
#include "gateway/registrations.h"

#include <doctest/doctest.h>

#include <atomic>
#include <future>
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

struct RegistrationPlace {
  RegistrationPlace() {
    loop->start("test", std::chrono::milliseconds(20), [] {});
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
             std::optional<Rank> joins = std::nullopt, Duration timeout = std::chrono::seconds(60)) {
    GroupCollective collective;
    collective.channel = channel;
    GroupSpec spec{group, "alice", {"a", "a"}, {collective}};
    on_loop([&] {
      registrations->begin(attachment, spec, joins, timeout, [this](const Result<GroupPart>& result) {
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

  GatedHost host;
  std::shared_ptr<EventLoop> loop = *EventLoop::make();
  std::shared_ptr<Registrations> registrations = std::make_shared<Registrations>(host, loop);
  std::mutex mutex;
  std::map<StatusCode, std::size_t> outcomes;
};

}  // namespace

TEST_CASE("ranks that ask for the same collectives share one registration, and all hear its outcome") {
  RegistrationPlace place;
  for (AttachmentId rank = 1; rank <= 300; ++rank) place.begin(rank, "g", 7);
  for (AttachmentId rank = 1; rank <= 300; ++rank) place.begin(rank, "bad", 7);
  CHECK(place.comes([&] { return place.host.registered == 2; }));
  place.host.open();
  CHECK(place.comes([&] { return place.ended(StatusCode::kOk) == 300; }));
  CHECK(place.comes([&] { return place.ended(StatusCode::kInvalidArgument) == 300; }));
  CHECK(place.host.registered == 2);
}

TEST_CASE("as many registrations run as may, and the others wait") {
  RegistrationPlace place;
  for (std::uint32_t channel = 0; channel < 100; ++channel) place.begin(channel, "g", channel);
  CHECK(place.comes([&] { return place.host.registered == Gateway::kMaxRegistrations; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(place.host.registered == Gateway::kMaxRegistrations);
  place.host.open();
  CHECK(place.comes([&] { return place.ended(StatusCode::kOk) == 100; }));
  CHECK(place.host.registered == 100);
}

TEST_CASE("all ranks that join a group ask at once: one may wait for what another does then") {
  RegistrationPlace place;
  for (std::uint32_t rank = 0; rank < 300; ++rank) place.begin(rank, "g", 7, Rank(rank));
  CHECK(place.comes([&] { return place.host.joined() == 300; }));
  for (std::uint32_t rank = 300; rank < 600; ++rank) place.begin(rank, "g", 7, Rank(rank));
  CHECK(place.comes([&] { return place.host.joined() == kMaxRegroups; }));
  place.host.open();
  CHECK(place.comes([&] { return place.ended(StatusCode::kOk) == 600; }));
}

TEST_CASE("a process has so many registrations that run or wait, and then room again") {
  RegistrationPlace place;
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
  RegistrationPlace place;
  place.begin(1, "g", 7, std::nullopt, std::chrono::milliseconds(100));
  CHECK(place.comes([&] { return place.host.registered == 1; }));
  place.begin(2, "g", 7);
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  place.host.open();
  CHECK(place.comes([&] { return place.ended(StatusCode::kDeadlineExceeded) == 1; }));
  CHECK(place.comes([&] { return place.ended(StatusCode::kOk) == 1; }));
}
