#include "controller/visitors.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <set>
#include <vector>

using namespace square::controller;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr std::uint64_t kMessageBytes = std::uint64_t{4} << 20U;
const Visitors::Time kStart{};

// A server's door, with a key for every connection.
struct Door {
  Visitors visitors{kMessageBytes};
  std::set<int> there{};
  std::set<int> idle{};
  int last = 0;

  int come(const std::string& host, Visitors::Time now = kStart) {
    const int key = ++last;
    there.insert(key);
    go(visitors.come(key, fmt::format("{}:{}", host, key), now));
    return key;
  }
  void speak(int key, Visitors::Time now = kStart) {
    if (there.contains(key)) go(visitors.speak(key, now, [this](int of) { return idle.contains(of); }));
  }
  int greet(const std::string& host, Visitors::Time now = kStart) {
    const int key = come(host, now);
    speak(key, now);
    return key;
  }
  void go(std::optional<int> key) {
    if (!key) return;
    visitors.leave(*key);
    there.erase(*key);
  }
  [[nodiscard]] bool has(int key) const { return there.contains(key); }
};

}  // namespace

TEST_CASE("a flood from one address pushes out its own connections") {
  Door door;
  const int silent = door.come("10.0.0.1");
  const int stranger = door.greet("10.0.0.2");
  for (int i = 0; i < 5'000; ++i) door.greet("10.9.9.9");
  for (int i = 0; i < 5'000; ++i) door.come("10.9.9.9");
  CHECK(door.has(silent));
  CHECK(door.has(stranger));
  CHECK(door.there.size() == Visitors::kMaxSilent + Visitors::kMaxStrangers);
}

TEST_CASE("so does one from many addresses, as long as each has several") {
  Door door;
  const int stranger = door.greet("10.0.0.2");
  for (int i = 0; i < 10'000; ++i) door.greet(fmt::format("10.9.9.{}", i % 64));
  CHECK(door.has(stranger));
}

TEST_CASE("who speaks at once gets in beside those of its address that say nothing") {
  Door door;
  std::vector<int> honest;
  for (int i = 0; i < 5'000; ++i) {
    door.come("10.0.0.1");
    if (i % 80 == 0) honest.push_back(door.greet("10.0.0.1"));
  }
  for (const int key : honest) CHECK(door.has(key));
}

TEST_CASE("where many come at once, those get in that are nearly through") {
  Door door;
  const auto at = [](int i) { return kStart + milliseconds(i); };
  const auto host = [](int i) { return fmt::format("10.1.{}.{}", i / 250, i % 250); };
  std::vector<int> known;
  // A thousand a second, and each takes 600 ms.
  std::map<int, int> under_way;  // by when they are through
  for (int i = 0; i < 3'000; ++i) {
    under_way[i + 600] = door.greet(host(i), at(i));
    const auto through = under_way.find(i);
    if (through == under_way.end() || !door.has(through->second)) continue;
    REQUIRE(door.visitors.know(fmt::format("{}:{}", host(i - 600), through->second), ""));
    known.push_back(through->second);
  }
  CHECK(known.size() > 800);
  // Who stays and says nothing more goes for others after a while.
  const int late = door.greet("10.2.0.1", kStart + seconds(7));
  for (int i = 0; i < 200; ++i) door.greet(fmt::format("10.3.0.{}", i), kStart + seconds(7));
  CHECK(door.has(late));
}

TEST_CASE("of one address those go first that keep the server waiting") {
  Door door;
  std::vector<int> others;
  for (std::size_t i = 0; i < Visitors::kMaxStrangers; ++i) others.push_back(door.greet("10.0.0.1"));
  CHECK_FALSE(door.has(door.greet("10.0.0.1")));
  door.idle = {others[100], others[7]};
  CHECK(door.has(door.greet("10.0.0.1")));
  CHECK_FALSE(door.has(others[7]));
  CHECK(door.there.size() == Visitors::kMaxStrangers);
  CHECK(door.has(door.greet("10.0.0.1")));
  CHECK_FALSE(door.has(others[100]));
}

TEST_CASE("addresses of known connections have places of their own") {
  Door door;
  REQUIRE(door.visitors.know(fmt::format("10.0.0.1:{}", door.greet("10.0.0.1")), "node/a"));
  // More addresses than there are places: among these everyone may be the next to go.
  for (int i = 0; i < 1'000; ++i) door.greet(fmt::format("10.9.{}.{}", i / 250, i % 250));
  const int again = door.greet("10.0.0.1");
  for (int i = 1'000; i < 2'000; ++i) door.greet(fmt::format("10.9.{}.{}", i / 250, i % 250));
  CHECK(door.has(again));
}

TEST_CASE("hosts of one IPv6 network are one address, those of two are two") {
  Door door;
  const int other = door.greet("[2001:db8:0:2::7]");
  for (int i = 1; i < 2'000; ++i) door.greet(fmt::format("[2001:db8:0:1::{:x}]", i));
  CHECK(door.has(other));
}

TEST_CASE("a caller has few connections, and another one when one of them has ended") {
  Door door;
  std::vector<int> keys;
  const auto know = [&](int key) { return door.visitors.know(fmt::format("10.0.0.1:{}", key), "tenant/t"); };
  for (std::size_t i = 0; i < Visitors::kMaxOfCaller; ++i) {
    keys.push_back(door.greet("10.0.0.1"));
    CHECK(know(keys.back()));
    CHECK(know(keys.back()));  // once for each connection
  }
  const int more = door.greet("10.0.0.1");
  CHECK_FALSE(know(more));
  CHECK_FALSE(door.visitors.is_known(more));
  door.go(keys.front());
  CHECK(know(more));
  CHECK(door.visitors.strangers() == 0);
}

TEST_CASE("who is silent or a stranger goes after a while, who is known stays") {
  Door door;
  const int known = door.greet("10.0.0.1");
  const int silent = door.come("10.0.0.1", kStart + seconds(1));
  REQUIRE(door.visitors.know(fmt::format("10.0.0.1:{}", known), ""));
  CHECK(door.visitors.next_late() == kStart + seconds(1) + Visitors::kStrangerTime);
  CHECK(door.visitors.late(kStart + Visitors::kStrangerTime).empty());
  CHECK(door.visitors.late(kStart + seconds(1) + Visitors::kStrangerTime) == std::vector{silent});
  door.go(silent);
  CHECK_FALSE(door.visitors.next_late().has_value());
}

TEST_CASE("bytes are explained by messages and by time, and nothing is saved up") {
  Door door;
  const int key = door.greet("10.0.0.1");
  const std::string peer = fmt::format("10.0.0.1:{}", key);
  CHECK_FALSE(door.visitors.exceeds(key, Visitors::kUnexplainedBytes, kStart));
  CHECK(door.visitors.exceeds(key, Visitors::kUnexplainedBytes + 1, kStart));
  CHECK(door.visitors.begin_line(peer));
  CHECK_FALSE(door.visitors.exceeds(key, kMessageBytes, kStart));
  CHECK(door.visitors.exceeds(key, 2 * kMessageBytes, kStart));
  REQUIRE(door.visitors.know(peer, ""));
  door.visitors.hear(peer, kMessageBytes);
  CHECK_FALSE(door.visitors.exceeds(key, 2 * kMessageBytes, kStart));
  CHECK(door.visitors.exceeds(key, 3 * kMessageBytes, kStart));
  // A line that lives for a day, with a heartbeat a second, has no more to spend at its end.
  std::uint64_t received = 3 * kMessageBytes;
  for (int second = 1; second < 3'600; ++second) {
    received += 100;
    door.visitors.hear(peer, 50);
    door.visitors.exceeds(key, received, kStart + seconds(second));
  }
  CHECK(door.visitors.exceeds(key, received + 3 * kMessageBytes, kStart + seconds(90'000)));
  for (std::size_t line = 0; line < Visitors::kMaxLines; ++line) CHECK(door.visitors.begin_line(peer));
  CHECK_FALSE(door.visitors.begin_line(peer));
}
