// A planned all-reduce over the links of a simulated mesh, against the rate of its plan.
//
//     build/dev/benchmarks/simulated_all_reduce [--sites 32] [--mb 64] [--seed 1] [--latency-ms 10] [--json]
//
// Every node is what ships; time is virtual, so the figures are the same everywhere. Links have N(10, 3)
// Mbit/s, 1 at least, and pace what they carry, answers and headers included. Exit code 1 if the operation
// reaches less than 0.9 of the planned rate, or its sums are wrong.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <random>
#include <string>
#include <string_view>

#include "base/check.h"
#include "node/sums.h"
#include "square/planner.h"

namespace {

using namespace square;
using namespace square::test;

constexpr double kLeastPart = 0.9;
constexpr double kMeanMbps = 10;
constexpr double kDeviationMbps = 3;
constexpr double kLeastMbps = 1;

struct Options {
  std::size_t sites = 32;
  double mb = 64;
  std::uint64_t seed = 1;
  double latency_ms = 10;
  bool json = false;
};

std::optional<Options> parse(const std::vector<std::string_view>& arguments) {
  Options options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--json") {
      options.json = true;
      continue;
    }
    if (i + 1 == arguments.size()) return std::nullopt;
    const double value = std::atof(std::string(arguments[i + 1]).c_str());
    if (arguments[i] == "--sites" && value >= 2) {
      options.sites = static_cast<std::size_t>(value);
    } else if (arguments[i] == "--mb" && value > 0) {
      options.mb = value;
    } else if (arguments[i] == "--seed" && value >= 0) {
      options.seed = static_cast<std::uint64_t>(value);
    } else if (arguments[i] == "--latency-ms" && value >= 0) {
      options.latency_ms = value;
    } else {
      return std::nullopt;
    }
    ++i;
  }
  return options;
}

Duration latency_of(const Options& options) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double, std::milli>(options.latency_ms));
}

std::size_t elements_of(const Options& options) {
  return static_cast<std::size_t>(options.mb * 1e6 / sizeof(float));
}

Result<Scenario> mesh(const Options& options, std::mt19937_64& random) {
  Scenario scenario;
  scenario.tenants.push_back({"tenant", 1});
  CollectiveSpec sum;
  sum.tenant = "tenant";
  sum.op = CollectiveOp::kAllReduce;
  sum.size_bytes = elements_of(options) * sizeof(float);
  for (std::size_t site = 0; site < options.sites; ++site) {
    TopologyNode node;
    node.name = node_name(site);
    SQUARE_ASSIGN_OR_RETURN(const NodeId id, scenario.topology.add_node(std::move(node)));
    sum.members.push_back(id);
  }
  std::normal_distribution<double> draw(kMeanMbps, kDeviationMbps);
  for (const NodeId from : sum.members) {
    for (const NodeId to : sum.members) {
      if (from == to) continue;
      LinkProperties link;
      link.capacity_bps = std::max(kLeastMbps, draw(random)) * kMbps;
      link.latency = latency_of(options);
      SQUARE_RETURN_IF_ERROR(scenario.topology.add_link(from, to, link).status());
    }
  }
  scenario.collectives.push_back(std::move(sum));
  return scenario;
}

struct Figures {
  double rate_bps = 0;
  double lp_rate_bps = 0;
  double streams_per_session = 0;
  double ideal_seconds = 0;
  double seconds = 0;
  bool is_right = false;
};

Result<Figures> measure(const Options& options) {
  std::mt19937_64 random(options.seed);
  SQUARE_ASSIGN_OR_RETURN(const Scenario scenario, mesh(options, random));
  SQUARE_ASSIGN_OR_RETURN(PlanResult made, make_plan(scenario));
  made.plan.epoch = Epoch(1);
  const auto plan = std::make_shared<const Plan>(std::move(made.plan));
  Figures figures;
  figures.rate_bps = plan->collectives.front().rate_bps;
  figures.lp_rate_bps = plan->collectives.front().lp_rate_bps;
  for (const PlanSession& session : plan->sessions)
    figures.streams_per_session += static_cast<double>(session.streams.size());
  figures.streams_per_session /= static_cast<double>(plan->sessions.size());

  Overlay overlay(options.seed, options.sites);
  LinkConditions line;
  line.delay = latency_of(options);
  overlay.simulation.set_default_conditions(line);
  if (!overlay.publish(plan)) return deadline_exceeded("the plan was not installed");
  std::vector<std::uint32_t> ranks(options.sites);
  std::iota(ranks.begin(), ranks.end(), 0U);
  const CollectiveId collective = plan->collectives.front().id;
  overlay.set_members(collective, ranks);
  std::vector<std::vector<float>> values;
  for (std::size_t site = 0; site < options.sites; ++site)
    values.push_back(whole_floats(random, elements_of(options)));
  Sum sum(collective, ranks, std::move(values));
  pass(overlay, std::chrono::seconds(2));  // links come up
  const TimePoint begin = overlay.simulation.clock().now();
  sum.post_all(overlay);
  overlay.run([&] { return sum.is_over(); });
  figures.seconds = to_seconds(overlay.simulation.clock().now() - begin);
  figures.is_right = sum.is_right();
  const double bits = kBitsPerByte * static_cast<double>(elements_of(options) * sizeof(float));
  figures.ideal_seconds = bits / figures.rate_bps;
  return figures;
}

void show(const Options& options, const Figures& figures) {
  const double part = figures.ideal_seconds / figures.seconds;
  if (options.json) {
    fmt::print(
        R"({{"sites": {}, "mb": {}, "seed": {}, "rate_bps": {}, "lp_rate_bps": {}, "streams_per_session": {}, )"
        R"("seconds": {}, "part_of_rate": {}, "right": {}}})"
        "\n",
        options.sites, options.mb, options.seed, figures.rate_bps, figures.lp_rate_bps,
        figures.streams_per_session, figures.seconds, part, figures.is_right);
    return;
  }
  fmt::print(
      "{} sites, {} MB, seed {}: planned {:.2f} Mbit/s ({:.3f} of the optimum), {:.1f} streams a session\n",
      options.sites, options.mb, options.seed, figures.rate_bps / kMbps,
      figures.rate_bps / figures.lp_rate_bps, figures.streams_per_session);
  fmt::print("{:.3f} s where the plan's rate allows {:.3f}: {:.3f} of it (asked: {}); sums {}\n",
             figures.seconds, figures.ideal_seconds, part, kLeastPart, figures.is_right ? "right" : "WRONG");
}

}  // namespace

int main(int argc, char** argv) {
  const std::optional<Options> options = parse({argv + 1, argv + argc});
  if (!options) {
    fmt::print(
        stderr,
        "usage: simulated_all_reduce [--sites 32] [--mb 64] [--seed 1] [--latency-ms 10] [--json]\n"
        "A planned all-reduce over a simulated mesh of N(10, 3) Mbit/s, against the rate of its plan.\n");
    return 2;
  }
  const Result<Figures> figures = measure(*options);
  if (!figures.is_ok()) {
    fmt::print(stderr, "simulated_all_reduce: {}\n", figures.status().message());
    return 2;
  }
  show(*options, *figures);
  return figures->is_right && figures->ideal_seconds >= kLeastPart * figures->seconds ? 0 : 1;
}
