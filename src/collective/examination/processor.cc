#include "collective/examination/processor.h"

#include <sched.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>

#include "collective/examination/system_files.h"

namespace square::examination {
namespace {

using BurnClock = std::chrono::steady_clock;

// Longer than the turn that a scheduler gives: a burst that others interrupt shows it.
constexpr double kBurstSeconds = 0.015;
constexpr std::chrono::milliseconds kLongestBurst{700};

double clock_seconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Of all threads, in nanoseconds in the second column.
double waited_seconds() {
  double waited = 0;
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
    const auto words = read_words(task.path().string() + "/schedstat");
    if (words.size() >= 2) waited += to_number(words[1]).value_or(0);
  }
  return 1e-9 * waited;
}

double throttled_seconds() {
  double throttled = 0;
  for (const std::string& group : control_groups()) {
    throttled += read_field(group + "/cpu.stat", "throttled_usec").value_or(0);
  }
  return 1e-6 * throttled;
}

// Processors that the control groups allow in all; none: no limit.
std::optional<double> quota() {
  std::optional<double> least;
  const auto allow = [&least](double processors) {
    least = std::min(least.value_or(processors), processors);
  };
  for (const std::string& group : control_groups()) {
    const auto words = read_words(group + "/cpu.max");
    if (words.size() < 2) continue;
    const auto time = to_number(words[0]);
    const auto period = to_number(words[1]);
    if (time && period && *period > 0) allow(*time / *period);
  }
  // Version 1.
  const auto time = to_number(read_text("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"));
  const auto period = to_number(read_text("/sys/fs/cgroup/cpu/cpu.cfs_period_us"));
  if (time && period && *time > 0 && *period > 0) allow(*time / *period);
  return least;
}

// This thread is one of them.
double running_now() { return read_field("/proc/stat", "procs_running").value_or(1); }

Json number_or_null(const std::optional<double>& number) { return number ? Json(*number) : Json(nullptr); }

}  // namespace

ProcessorWatch::Sample ProcessorWatch::look() {
  return {BurnClock::now(), clock_seconds(CLOCK_PROCESS_CPUTIME_ID), waited_seconds(), throttled_seconds()};
}

ProcessorWatch::ProcessorWatch() : begin_(look()) {}

void ProcessorWatch::burn() {
  running_ = std::max(running_, running_now());
  const auto begin = BurnClock::now();
  const double used_before = clock_seconds(CLOCK_THREAD_CPUTIME_ID);
  double used = 0;
  while (used < kBurstSeconds && BurnClock::now() - begin < kLongestBurst) {
    used = clock_seconds(CLOCK_THREAD_CPUTIME_ID) - used_before;
  }
  shares_.push_back(std::min(1.0, used / to_seconds(BurnClock::now() - begin)));
  running_ = std::max(running_, running_now());
}

Json ProcessorWatch::end() const {
  const Sample now = look();
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  const bool is_known = sched_getaffinity(0, sizeof(allowed), &allowed) == 0;
  Json found;
  found["count"] = sysconf(_SC_NPROCESSORS_ONLN);
  found["allowed"] = is_known ? Json(CPU_COUNT(&allowed)) : Json();
  found["quota"] = number_or_null(quota());
  const auto load = read_words("/proc/loadavg");
  found["load"] = load.empty() ? Json() : number_or_null(to_number(load[0]));
  found["running"] = running_;
  found["nice"] = getpriority(PRIO_PROCESS, 0);
  found["share"] = shares_.empty() ? Json() : Json(*std::ranges::max_element(shares_));
  found["seconds"] = to_seconds(now.at - begin_.at);
  found["used_seconds"] = now.used_seconds - begin_.used_seconds;
  found["waited_seconds"] = std::max(0.0, now.waited_seconds - begin_.waited_seconds);
  found["throttled_seconds"] = std::max(0.0, now.throttled_seconds - begin_.throttled_seconds);
  return found;
}

}  // namespace square::examination
