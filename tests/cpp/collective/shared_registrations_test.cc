// One registration with the controller for all ranks of a node that ask for the same at once.
#include "collective/shared_registrations.h"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>

using namespace square;

namespace {

GroupSpec spec_of(std::uint32_t channel) {
  GroupSpec spec{"g", "alice", {"a", "a"}, {}};
  GroupCollective collective;
  collective.channel = channel;
  spec.collectives = {collective};
  return spec;
}

}  // namespace

TEST_CASE("ranks that ask for the same while one does share its registration and its outcome") {
  SharedRegistrations shared;
  std::atomic<int> asked = 0;
  std::atomic<bool> is_over = false;
  const auto registers = [&](Duration) -> Result<GroupRegistration> {
    ++asked;
    is_over.wait(false);
    GroupRegistration made;
    made.number = 7;
    return made;
  };
  std::vector<std::thread> ranks;
  std::atomic<int> right = 0;
  for (int rank = 0; rank < 40; ++rank) {
    ranks.emplace_back([&] {
      const auto made = shared.get(spec_of(0), false, std::chrono::seconds(20), registers);
      if (made.is_ok() && made->number == 7) ++right;
    });
  }
  // Others than these, and those that join, ask themselves.
  ranks.emplace_back(
      [&] { static_cast<void>(shared.get(spec_of(1), false, std::chrono::seconds(20), registers)); });
  ranks.emplace_back(
      [&] { static_cast<void>(shared.get(spec_of(0), true, std::chrono::seconds(20), registers)); });
  while (asked < 3) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  is_over = true;
  is_over.notify_all();
  for (auto& rank : ranks) rank.join();
  CHECK(right == 40);
  CHECK(asked <= 4);  // a rank may come when the others are through
}

TEST_CASE("a rank with more time asks again where the one that asked was late") {
  SharedRegistrations shared;
  std::atomic<int> asked = 0;
  const auto registers = [&](Duration left) -> Result<GroupRegistration> {
    ++asked;
    if (left > std::chrono::seconds(1)) return GroupRegistration{};
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    return deadline_exceeded("late");
  };
  std::thread first([&] {
    CHECK(shared.get(spec_of(0), false, std::chrono::milliseconds(50), registers).status().code() ==
          StatusCode::kDeadlineExceeded);
  });
  while (asked == 0) std::this_thread::yield();
  CHECK(shared.get(spec_of(0), false, std::chrono::seconds(20), registers).is_ok());
  first.join();
  CHECK(asked == 2);
}
