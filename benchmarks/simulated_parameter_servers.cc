// Many workers and servers of a large model in virtual time: where a worker's time goes, as in Table 2 of
// Di-PS.
//
//     build/dev/benchmarks/simulated_parameter_servers [--workers 100] [--servers 16] [--mb 200] [--mbps
//     1000]
//         [--steps 64] [--step-seconds 1] [--pushes 4] [--seed 1] [--json]
//
// Master, servers and workers decide as those that ship. Every host has a link of `--mbps` each way, which
// its transfers share in equal parts; an element of the simulated model stands for many of the real one.
// Steps are one to one and a half times `--step-seconds`, the same for all steps of a worker. Exit code 1 if
// a chunk is not counted once, or the model is no replay of the log.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "ps/cluster/cluster.h"

namespace {

using namespace square;
using namespace square::test;

constexpr double kSlowest = 1.5;  // times the fastest step
constexpr std::size_t kRowsShown = 8;

struct Options {
  double workers = 100;
  double servers = 16;
  double mb = 200;
  double mbps = 1000;
  double steps = 64;
  double step_seconds = 1;
  double pushes = 4;  // of each worker
  double seed = 1;
  bool json = false;
};

std::optional<Options> parse(const std::vector<std::string_view>& arguments) {
  Options options;
  const std::map<std::string_view, double*> numbers = {
      {"--workers", &options.workers}, {"--servers", &options.servers},
      {"--mb", &options.mb},           {"--mbps", &options.mbps},
      {"--steps", &options.steps},     {"--step-seconds", &options.step_seconds},
      {"--pushes", &options.pushes},   {"--seed", &options.seed}};
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--json") {
      options.json = true;
      continue;
    }
    const auto number = numbers.find(arguments[i]);
    if (number == numbers.end() || i + 1 == arguments.size()) return std::nullopt;
    *number->second = std::atof(std::string(arguments[++i]).c_str());
    if (*number->second <= 0) return std::nullopt;
  }
  return options;
}

// One chunk is a step's.
std::size_t chunks_of(const Options& options) {
  return static_cast<std::size_t>(options.workers * options.steps * options.pushes);
}

ClusterShape shape_of(const Options& options) {
  ClusterShape shape;
  shape.workers = static_cast<std::size_t>(options.workers);
  shape.servers = static_cast<std::size_t>(options.servers);
  shape.chunks = chunks_of(options);
  shape.settings.servers = static_cast<std::uint32_t>(shape.servers);
  shape.settings.chunks = shape.chunks;
  shape.settings.outer.penalty.reset();
  shape.pace = {from_seconds(options.step_seconds), from_seconds(kSlowest * options.step_seconds),
                static_cast<int>(options.steps), from_seconds(options.step_seconds / 20)};
  const double models_per_second = options.mbps * 1e6 / 8 / (options.mb * 1e6);
  shape.shared_link = models_per_second * static_cast<double>(shape.chunks);
  return shape;
}

struct Row {
  std::string worker;
  double step = 0;
  double push = 0;
  double pull = 0;
  double wait = 0;
  double interval = 0;
  std::uint64_t pushes = 0;
  std::uint64_t skipped = 0;
  std::uint64_t behind = 0;
};

std::vector<Row> rows_of(const Cluster& cluster) {
  std::vector<Row> rows;
  const v1::PsAnswer status = cluster.status();
  for (const v1::PsMember& member : status.members()) {
    if (member.is_server()) continue;
    const std::size_t index = std::stoul(member.name().substr(6));
    rows.push_back({member.name(), to_seconds(cluster.worker(index)->step()), member.push_seconds(),
                    member.pull_seconds(), member.wait_seconds(), member.interval_seconds(), member.pushes(),
                    member.skipped(), member.staleness()});
  }
  std::ranges::sort(rows, {}, &Row::step);
  return rows;
}

double mean(const std::vector<Row>& rows, double Row::*field) {
  double sum = 0;
  for (const Row& row : rows) sum += row.*field;
  return sum / static_cast<double>(rows.size());
}

// Of the time of all workers: what they train.
double training_share(const Cluster& cluster, double seconds) {
  double trained = 0;
  for (std::size_t i = 0; i < cluster.workers(); ++i) {
    trained += static_cast<double>(cluster.log(i).steps) * to_seconds(cluster.worker(i)->step());
  }
  return trained / seconds / static_cast<double>(cluster.workers());
}

void print(const Options& options, const Cluster& cluster, double seconds) {
  const std::vector<Row> rows = rows_of(cluster);
  const std::size_t versions = cluster.versions().size();
  const double part = training_share(cluster, seconds);
  const double moved = 2 * options.workers * options.pushes * options.mb * 8 / options.mbps / options.servers;
  if (options.json) {
    fmt::print(
        "{{\"seconds\": {:.1f}, \"versions\": {}, \"training_share\": {:.4f}, \"push_seconds\": {:.3f}, "
        "\"pull_seconds\": {:.3f}, \"wait_seconds\": {:.3f}, \"links_seconds\": {:.1f}}}\n",
        seconds, versions, part, mean(rows, &Row::push), mean(rows, &Row::pull), mean(rows, &Row::wait),
        moved);
    return;
  }
  fmt::print("{:<12} {:>7} {:>8} {:>8} {:>8} {:>10} {:>6} {:>7} {:>7}\n", "worker", "step s", "push s",
             "pull s", "wait s", "interval s", "pushes", "skipped", "behind");
  const std::size_t stride = std::max<std::size_t>(1, rows.size() / kRowsShown);
  for (std::size_t i = 0; i < rows.size(); i += stride) {
    const Row& row = rows[i];
    fmt::print("{:<12} {:>7.2f} {:>8.2f} {:>8.2f} {:>8.2f} {:>10.1f} {:>6} {:>7} {:>7}\n", row.worker,
               row.step, row.push, row.pull, row.wait, row.interval, row.pushes, row.skipped, row.behind);
  }
  fmt::print("{:<12} {:>7.2f} {:>8.2f} {:>8.2f} {:>8.2f} {:>10.1f}\n", "mean", mean(rows, &Row::step),
             mean(rows, &Row::push), mean(rows, &Row::pull), mean(rows, &Row::wait),
             mean(rows, &Row::interval));
  fmt::print(
      "{} versions in {:.0f} s; the servers' links are busy for {:.0f} s of it each way, taken together; the "
      "workers train in {:.3f} of their time\n",
      versions, seconds, moved, part);
}

}  // namespace

int main(int argc, char** argv) {
  const auto options = parse({argv + 1, argv + argc});
  if (!options) {
    fmt::print(stderr,
               "usage: simulated_parameter_servers [--workers N] [--servers N] [--mb M] [--mbps R] "
               "[--steps N] [--step-seconds S] [--pushes N] [--seed N] [--json]\n");
    return 2;
  }
  Cluster cluster(static_cast<std::uint64_t>(options->seed), shape_of(*options));
  const double begin = to_seconds(cluster.now().time_since_epoch());
  const bool is_done = cluster.run(std::chrono::hours(24));
  const double seconds = to_seconds(cluster.now().time_since_epoch()) - begin;
  if (!is_done) {
    fmt::print(stderr, "not done after {:.0f} s: {}\n", seconds, cluster.trouble());
    return 1;
  }
  print(*options, cluster, seconds);
  const auto complaints = cluster.complaints();
  for (const std::string& complaint : complaints) fmt::print(stderr, "{}\n", complaint);
  return complaints.empty() ? 0 : 1;
}
