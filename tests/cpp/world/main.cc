// Runs simulated worlds, each from a seed, and ends with 1 if an oracle found something:
//   world [--seeds FIRST..LAST] [--part K/N] [--bug NAME|all] [--verbose] [--log]
// Of the seeds, 1..1000 or 1..SQUARE_SEEDS by default, it runs every N-th from the K-th on. One in a hundred
// is run twice, and must go the same way.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/planted.h"
#include "square/log.h"
#include "world/world.h"

using square::Bug;
using namespace square::test;

namespace {

constexpr std::uint64_t kUsualSeeds = 1'000;
constexpr std::uint64_t kTwiceOneIn = 100;

struct Options {
  std::uint64_t first = 1;
  std::uint64_t last = kUsualSeeds;
  std::uint64_t part = 1;
  std::uint64_t parts = 1;
  bool is_verbose = false;
  bool wants_log = false;
  std::vector<Bug> bugs;
};

std::uint64_t number(std::string_view text) { return std::strtoull(std::string(text).c_str(), nullptr, 10); }

std::vector<Bug> bugs_named(std::string_view name) {
  std::vector<Bug> bugs;
  for (const auto& [bug, known] : square::kBugs) {
    if (name == "all" || name == known) bugs.push_back(bug);
  }
  return bugs;
}

std::optional<Options> parse(int count, char** arguments) {
  Options options;
  if (const char* seeds = std::getenv("SQUARE_SEEDS")) options.last = number(seeds);
  for (int i = 1; i < count; ++i) {
    const std::string_view argument = arguments[i];
    const std::string_view value = i + 1 < count ? arguments[i + 1] : "";
    if (argument == "--verbose") {
      options.is_verbose = true;
    } else if (argument == "--log") {
      options.wants_log = true;
    } else if (argument == "--bug" && !bugs_named(value).empty()) {
      for (const Bug bug : bugs_named(value)) options.bugs.push_back(bug);
      ++i;
    } else if (argument == "--seeds" && !value.empty()) {
      const std::size_t dots = value.find("..");
      options.first = number(value.substr(0, dots));
      options.last = dots == std::string_view::npos ? options.first : number(value.substr(dots + 2));
      ++i;
    } else if (argument == "--part" && value.find('/') != std::string_view::npos) {
      options.part = number(value.substr(0, value.find('/')));
      options.parts = number(value.substr(value.find('/') + 1));
      ++i;
    } else {
      return std::nullopt;
    }
  }
  return options;
}

Verdict run(std::uint64_t seed, const Options& options) {
  World world(seed);
  if (options.wants_log) {
    square::set_log_sink(
        [&world](square::LogLevel, const square::LogFields& fields, std::string_view message) {
          fmt::print("    {:.3f} {}: {}\n", square::to_seconds(world.now().time_since_epoch()),
                     fields.component, message);
        });
  }
  Verdict verdict = world.run();
  square::set_log_sink(nullptr);
  return verdict;
}

std::string_view name_of(Bug planted) {
  for (const auto& [bug, name] : square::kBugs) {
    if (bug == planted) return name;
  }
  return "none";
}

// How many seeds it took; 0: it was not found.
std::uint64_t find_bug(Bug bug, const Options& options) {
  square::planted_bug = bug;
  std::uint64_t seeds = 0;
  for (std::uint64_t seed = options.first; seed <= options.last; ++seed) {
    ++seeds;
    const Verdict verdict = run(seed, options);
    if (verdict.complaints.empty()) continue;
    fmt::print("{}: found by seed {}, after {} seeds: {}\n", name_of(bug), seed, seeds,
               verdict.complaints.front());
    return seeds;
  }
  fmt::print("{}: not found by {} seeds\n", name_of(bug), seeds);
  return 0;
}

int find_bugs(const Options& options) {
  bool all_found = true;
  for (std::size_t i = options.part - 1; i < options.bugs.size(); i += options.parts) {
    all_found = find_bug(options.bugs[i], options) > 0 && all_found;
    std::fflush(stdout);
  }
  return all_found ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  const std::optional<Options> options = parse(count, arguments);
  if (!options || options->parts == 0) {
    fmt::print("usage: world [--seeds FIRST..LAST] [--part K/N] [--bug NAME|all] [--verbose] [--log]\n");
    return 2;
  }
  if (!options->bugs.empty()) return find_bugs(*options);
  std::uint64_t seeds = 0;
  std::uint64_t wrong = 0;
  for (std::uint64_t seed = options->first + options->part - 1; seed <= options->last;
       seed += options->parts) {
    const auto begun = std::chrono::steady_clock::now();
    Verdict verdict = run(seed, *options);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begun;
    if (seed % kTwiceOneIn < options->parts && run(seed, *options).trace != verdict.trace)
      verdict.complaints.emplace_back("another trace when it is run again");
    ++seeds;
    if (options->is_verbose)
      fmt::print("seed {}: {:.0f} ms, {:.1f} virtual s, trace {:016x}\n", seed, took.count(),
                 verdict.virtual_seconds, verdict.trace);
    if (verdict.complaints.empty()) continue;
    ++wrong;
    fmt::print("world --log --seeds {}\n", seed);
    for (const std::string& fault : verdict.faults) fmt::print("  {}\n", fault);
    for (const std::string& complaint : verdict.complaints) fmt::print("  * {}\n", complaint);
    std::fflush(stdout);
  }
  fmt::print("{} of {} seeds found something\n", wrong, seeds);
  return wrong == 0 ? 0 : 1;
}
