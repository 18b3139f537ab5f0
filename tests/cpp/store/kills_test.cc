// What a store has acknowledged outlives a process that is killed at any moment: in a file, and in a
// database.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <thread>

#include "store/database_server.h"
#include "store/store.h"

using namespace square;
using namespace square::test;

namespace {

constexpr int kKeys = 3;  // that every write changes together

std::uint64_t kills_to_do() {
  const char* const given = std::getenv("SQUARE_KILLS");
  return given == nullptr ? 100 : std::strtoull(given, nullptr, 10);
}

// Writes numbers from `first` on, and reports each that was acknowledged, until it is killed.
[[noreturn]] void write_on(const std::string& place, std::uint64_t first, int report) {
  auto opened = store::open_store(place);
  if (!opened.is_ok()) ::_exit(2);
  for (std::uint64_t number = first;; ++number) {
    std::vector<store::Write> writes;
    for (int key = 0; key < kKeys; ++key) writes.push_back({fmt::format("k{}", key), std::to_string(number)});
    if (!(*opened)->write(writes).is_ok()) ::_exit(3);
    if (::write(report, &number, sizeof number) != sizeof number) ::_exit(4);
  }
}

// The last number that a process which was killed after `delay` had acknowledged.
std::uint64_t killed_after(const std::string& place, std::uint64_t first, std::chrono::microseconds delay) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t process = ::fork();
  if (process == 0) {
    ::close(ends[0]);
    write_on(place, first, ends[1]);
  }
  ::close(ends[1]);
  std::uint64_t last = 0;
  REQUIRE(::read(ends[0], &last, sizeof last) == sizeof last);  // it writes
  std::this_thread::sleep_for(delay);
  ::kill(process, SIGKILL);
  while (::read(ends[0], &last, sizeof last) == sizeof last) {
  }
  ::close(ends[0]);
  ::waitpid(process, nullptr, 0);
  return last;
}

void kill_many(const std::string& place) {
  std::random_device device;
  const char* const given = std::getenv("SQUARE_SEED");
  const std::uint64_t seed = given == nullptr ? device() : std::strtoull(given, nullptr, 10);
  INFO("SQUARE_SEED=", seed);
  std::mt19937_64 random(seed);
  std::uint64_t number = 0;
  for (std::uint64_t kill = 0; kill < kills_to_do(); ++kill) {
    const std::uint64_t acknowledged =
        killed_after(place, number + 1, std::chrono::microseconds(random() % 20'000));
    auto opened = store::open_store(place);
    REQUIRE_MESSAGE(opened.is_ok(), opened.status().to_string());
    auto records = (*opened)->read();
    REQUIRE(records.is_ok());
    REQUIRE(records->size() == kKeys);
    number = std::stoull(records->at("k0"));
    // The one that was under way is there as a whole, or not at all.
    for (const auto& [key, value] : *records) REQUIRE(value == std::to_string(number));
    REQUIRE(number >= acknowledged);
    REQUIRE(number <= acknowledged + 1);
  }
}

}  // namespace

// 100 kills each; SQUARE_KILLS does more.
TEST_CASE("a file keeps what it acknowledged through kills at any moment") {
  std::string pattern = std::filesystem::temp_directory_path() / "square-store-XXXXXX";
  const std::filesystem::path folder = ::mkdtemp(pattern.data());
  kill_many(folder / "store");
  std::filesystem::remove_all(folder);
}

TEST_CASE("a database keeps what it acknowledged through kills at any moment") {
  const DatabaseServer server;
  kill_many(server.address());
}
