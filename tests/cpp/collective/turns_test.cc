// Turns: one at a time, in order, on the threads that give them.
#include "collective/turns.h"

#include <doctest/doctest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

using namespace square;

TEST_CASE("a turn that a turn gives comes after it, and after those that wait") {
  const auto turns = std::make_shared<Turns>();
  std::vector<int> order;
  turns->run([&] {
    turns->run([&] { order.push_back(2); });
    turns->run([&] { order.push_back(3); });
    turns->run_now([&] { order.push_back(0); });
    order.push_back(1);
  });
  CHECK(order == std::vector<int>{0, 1, 2, 3});
}

TEST_CASE("turns of several threads run one at a time, and one that is asked for now is over then") {
  const auto turns = std::make_shared<Turns>();
  constexpr int kRounds = 2'000;
  int count = 0;  // in turns
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < kRounds; ++round) {
        if (i > 0) {
          turns->run([&] { ++count; });
          continue;
        }
        bool is_over = false;
        turns->run_now([&] {
          ++count;
          is_over = true;
        });
        CHECK(is_over);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  int seen = 0;
  turns->run_now([&] { seen = count; });
  CHECK(seen == 4 * kRounds);
}

TEST_CASE("a turn may hold the last reference to the turns") {
  auto turns = std::make_shared<Turns>();
  Turns* const alive = turns.get();
  bool was_run = false;
  alive->run([&was_run, held = std::move(turns)] { was_run = true; });
  CHECK(was_run);
}
