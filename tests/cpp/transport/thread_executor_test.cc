#include "square/thread_executor.h"

#include <doctest/doctest.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace square;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t kMuch = std::size_t{1} << 20U;  // more than the strand does itself

std::string thread_name() {
  char name[16] = {};
  pthread_getname_np(pthread_self(), name, sizeof(name));
  return name;
}

// Runs `task` on the strand and waits for it.
void run_on_strand(ThreadExecutor& executor, const std::function<void()>& task) {
  std::promise<void> done;
  executor.post([&] {
    task();
    done.set_value();
  });
  done.get_future().wait();
}

}  // namespace

TEST_CASE("the strand runs one task at a time, in the order of each poster") {
  constexpr int kPosters = 4;
  constexpr int kTasks = 5000;
  ThreadExecutor executor(2);
  std::vector<int> last(kPosters, -1);  // the strand's alone: a race here is the failure
  bool in_order = true;
  int inside = 0;
  std::vector<std::thread> posters;
  for (int poster = 0; poster < kPosters; ++poster) {
    posters.emplace_back([&, poster] {
      for (int i = 0; i < kTasks; ++i) {
        executor.post([&, poster, i] {
          in_order = in_order && ++inside == 1 && last[static_cast<std::size_t>(poster)] == i - 1;
          last[static_cast<std::size_t>(poster)] = i;
          --inside;
        });
      }
    });
  }
  for (auto& poster : posters) poster.join();
  executor.stop();
  CHECK(in_order);
  CHECK(std::all_of(last.begin(), last.end(), [](int value) { return value == kTasks - 1; }));
}

TEST_CASE("timers run on the strand in the order of their times") {
  ThreadExecutor executor;
  std::vector<int> order;
  std::string name;
  std::promise<void> done;
  const TimePoint now = steady_clock().now();
  executor.post_at(now + 60ms, [&] { done.set_value(); });
  executor.post_at(now + 30ms, [&] { order.push_back(3); });
  executor.post_at(now + 10ms, [&] { order.push_back(1); });
  executor.post_at(now + 20ms, [&] {
    order.push_back(2);
    name = thread_name();
  });
  executor.post_at(now - 1s, [&] { order.push_back(0); });
  done.get_future().wait();
  CHECK(order == std::vector<int>{0, 1, 2, 3});
  CHECK(name == "square-strand");
  CHECK(steady_clock().now() - now >= 60ms);
}

TEST_CASE("a timer never runs early and does not drift") {
  ThreadExecutor executor;
  constexpr int kTicks = 200;
  const TimePoint start = steady_clock().now() + 1ms;
  std::vector<Duration> late;
  std::promise<void> done;
  std::function<void(int)> tick = [&](int i) {
    late.push_back(steady_clock().now() - (start + i * 1ms));
    if (i + 1 == kTicks) return done.set_value();
    executor.post_at(start + (i + 1) * 1ms, [&, i] { tick(i + 1); });
  };
  executor.post_at(start, [&] { tick(0); });
  done.get_future().wait();
  executor.stop();
  std::sort(late.begin(), late.end());
  MESSAGE("median lateness " << late[kTicks / 2].count() << " ns");
  CHECK(late.front() >= 0ns);
  CHECK(late[kTicks / 2] < 1ms);  // some 10 microseconds on an idle machine
}

TEST_CASE("a cancelled timer does not run") {
  ThreadExecutor executor;
  std::atomic<bool> ran = false;
  auto token = std::make_shared<int>(0);
  run_on_strand(executor, [&] {
    const auto timer = executor.post_at(steady_clock().now() + 10ms, [&ran, token] { ran = true; });
    CHECK(timer != 0);
    CHECK(token.use_count() == 2);
    executor.cancel(timer);
    CHECK(token.use_count() == 1);
    executor.cancel(timer);  // unknown by now
    executor.cancel(0);
    const auto due = executor.post_at(steady_clock().now() - 1s, [&ran] { ran = true; });
    executor.cancel(due);  // due, but not run: cancel still wins
  });
  std::this_thread::sleep_for(40ms);
  run_on_strand(executor, [&] { CHECK_FALSE(ran.load()); });
}

TEST_CASE("an earlier timer wakes a strand that waits for a later one") {
  ThreadExecutor executor;
  executor.post_at(steady_clock().now() + 1h, [] {});
  std::this_thread::sleep_for(5ms);
  std::promise<void> done;
  executor.post_at(steady_clock().now() + 5ms, [&] { done.set_value(); });
  CHECK(done.get_future().wait_for(10s) == std::future_status::ready);
}

TEST_CASE("timers that are always due do not starve tasks") {
  ThreadExecutor executor;
  std::atomic<bool> stop = false;
  std::function<void()> again = [&] {
    if (!stop) executor.post_at(steady_clock().now(), again);
  };
  executor.post_at(steady_clock().now(), again);
  for (int i = 0; i < 100; ++i) run_on_strand(executor, [] {});
  stop = true;
  executor.stop();
}

TEST_CASE("payload work runs beside the strand") {
  ThreadExecutor executor(2);
  std::promise<void> first, second, strand_ran;
  std::atomic<int> named = 0;
  const auto strand_future = strand_ran.get_future().share();
  for (std::promise<void>* done : {&first, &second}) {
    executor.work(kMuch, [&, done] {
      if (thread_name().starts_with("square-work-")) ++named;
      strand_future.wait();  // two of them wait: both threads are at work, and the strand still runs
      done->set_value();
    });
  }
  executor.post([&] { strand_ran.set_value(); });
  first.get_future().wait();
  second.get_future().wait();
  CHECK(named == 2);
}

TEST_CASE("stop runs what was posted before, drops the rest, and nothing runs after it") {
  for (int round = 0; round < 50; ++round) {
    ThreadExecutor executor(2);
    std::atomic<int> ran = 0;
    std::atomic<bool> stopped = false;
    std::atomic<bool> ran_late = false;
    const auto task = [&] {
      ran_late = ran_late || stopped;
      ++ran;
    };
    std::atomic<bool> go_on = true;
    std::thread poster([&] {
      while (go_on) {
        executor.post([&] { ran_late = ran_late || stopped; });
        executor.work(kMuch, [&] { ran_late = ran_late || stopped; });
        executor.post_at(steady_clock().now(), [&] { ran_late = ran_late || stopped; });
      }
    });
    for (int i = 0; i < 20; ++i) {
      executor.post(task);
      executor.work(kMuch, task);
    }
    auto token = std::make_shared<int>(0);
    executor.post_at(steady_clock().now() + 1h, [token] { FAIL("a dropped timer ran"); });
    executor.stop();
    stopped = true;
    CHECK(ran == 40);
    CHECK(token.use_count() == 1);
    executor.post([token] {});
    executor.work(kMuch, [token] {});
    executor.post_at(steady_clock().now(), [token] {});
    executor.stop();
    go_on = false;
    poster.join();
    CHECK_FALSE(ran_late.load());
    CHECK(token.use_count() == 1);
  }
}

namespace {

// A thread that waits to be woken, or until the strand's next timer.
class Host final : public StrandHost {
 public:
  explicit Host(ThreadExecutor& executor) : executor_(executor) {
    executor_.lend_to(*this);
    thread_ = std::thread([this] { run(); });
  }
  ~Host() override {
    executor_.take_back();
    stop_ = true;
    wake();
    thread_.join();
  }

  void wake() override {
    const std::lock_guard lock(mutex_);
    ++wakes;
    woken_ = true;
    changed_.notify_one();
  }

  std::thread::id thread() const { return thread_.get_id(); }
  std::atomic<int> wakes = 0;

 private:
  void run() {
    while (!stop_) {
      const TimePoint until = executor_.run_ready();
      std::unique_lock lock(mutex_);
      const auto is_woken = [this] { return std::exchange(woken_, false); };
      if (until == TimePoint::max()) {
        changed_.wait(lock, is_woken);
      } else {
        changed_.wait_until(lock, std::chrono::steady_clock::time_point(until.time_since_epoch()), is_woken);
      }
    }
  }

  ThreadExecutor& executor_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace

TEST_CASE("a host's thread runs tasks and timers, and wakes once for many tasks") {
  ThreadExecutor executor;
  Host host(executor);
  std::thread::id ran_on;
  run_on_strand(executor, [&] { ran_on = std::this_thread::get_id(); });
  CHECK(ran_on == host.thread());
  std::promise<std::thread::id> timer;
  executor.post_at(steady_clock().now() + 5ms, [&] { timer.set_value(std::this_thread::get_id()); });
  CHECK(timer.get_future().get() == host.thread());
  std::this_thread::sleep_for(20ms);  // it waits by now
  const int before = host.wakes;
  std::promise<void> done;
  executor.post([&] {
    for (int i = 0; i < 100; ++i) executor.post([] {});
    executor.post([&] { done.set_value(); });
  });
  done.get_future().wait();
  CHECK(host.wakes - before == 1);
}

TEST_CASE("the strand goes from its thread to a host and back without losing or doubling a task") {
  constexpr int kPosters = 3;
  constexpr int kTasks = 3000;
  ThreadExecutor executor;
  std::vector<int> last(kPosters, -1);
  bool in_order = true;
  int inside = 0;
  std::vector<std::thread> posters;
  for (int poster = 0; poster < kPosters; ++poster) {
    posters.emplace_back([&, poster] {
      for (int i = 0; i < kTasks; ++i) {
        const auto task = [&, poster, i] {
          in_order = in_order && ++inside == 1 && last[static_cast<std::size_t>(poster)] == i - 1;
          last[static_cast<std::size_t>(poster)] = i;
          --inside;
        };
        executor.post(task);
        if (i % 100 == 0) executor.post_at(steady_clock().now(), [&] { in_order = in_order && inside == 0; });
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    const Host host(executor);
    std::this_thread::sleep_for(1ms);
  }
  for (auto& poster : posters) poster.join();
  executor.stop();
  CHECK(in_order);
  CHECK(std::all_of(last.begin(), last.end(), [](int value) { return value == kTasks - 1; }));
}

TEST_CASE("stop runs what was posted also while a host has the strand") {
  for (int round = 0; round < 50; ++round) {
    ThreadExecutor executor;
    Host host(executor);
    std::atomic<int> ran = 0;
    for (int i = 0; i < 200; ++i) executor.post([&] { ++ran; });
    executor.stop();
    CHECK(ran == 200);
    CHECK(executor.run_ready() == TimePoint::max());
  }
}

TEST_CASE("little work is done where it came up, on the strand, and much beside it") {
  ThreadExecutor executor;
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1000}, kMuch}) {
    std::string here;
    std::promise<std::string> there;
    bool was_at_once = false;
    run_on_strand(executor, [&] {
      here = thread_name();
      bool ran = false;
      if (bytes == kMuch) return executor.work(bytes, [&] { there.set_value(thread_name()); });
      executor.work(bytes, [&] {
        ran = true;
        there.set_value(thread_name());
      });
      was_at_once = ran;
    });
    CHECK((there.get_future().get() == here) == (bytes < kMuch));
    CHECK(was_at_once == (bytes < kMuch));
  }
  std::promise<std::string> there;
  executor.work(0, [&] { there.set_value(thread_name()); });  // not from the strand
  CHECK(there.get_future().get() != thread_name());
}

TEST_CASE("the executor knows its strand and its threads, also while a host has it") {
  ThreadExecutor executor;
  const auto ask = [&executor] {
    std::promise<bool> answer;
    executor.post([&] { answer.set_value(executor.is_on_strand() && executor.is_own_thread()); });
    return answer.get_future().get();
  };
  const auto ask_worker = [&executor] {
    std::promise<bool> answer;
    executor.work(kMuch, [&] { answer.set_value(executor.is_on_strand() || !executor.is_own_thread()); });
    return answer.get_future().get();
  };
  CHECK(ask());
  CHECK_FALSE(ask_worker());
  CHECK_FALSE(executor.is_own_thread());
  CHECK_FALSE(executor.is_on_strand());
  const Host host(executor);
  CHECK(ask());
  CHECK_FALSE(executor.is_on_strand());
}
