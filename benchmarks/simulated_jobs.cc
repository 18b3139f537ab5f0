// Jobs whose collectives follow one another, over cuts of a measured network in simulation: how near each
// collective comes to what it has when it is planned alone, and how two jobs share.
//
//     build/dev/benchmarks/simulated_jobs links.csv [--cuts 20] [--first 0] [--sites 12] [--seconds 4]
//     [--total 600] [--seed 1] [--json]
//
// A cut is a draw of sites, every other cut with limits of nodes; capacities are scaled so that all together
// are --total Mbit/s, latencies stay. Two jobs are tried: all-gather and reduce-scatter in turn, as FSDP
// calls them, and a broadcast followed by all-reduces, as DDP does; each alone, then beside another tenant's
// over the same sites, in every third cut with twice its weight. Every node is what ships; time is virtual.
// Exit code 1 if a collective of a job alone has less than 0.95 of its best, planned or measured, or a job
// beside another less than 0.98 of its share: of what it measures alone, by weight.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <string_view>

#include "base/check.h"
#include "collective/simulated_group.h"
#include "square/topology.h"
#include "square/units.h"

namespace {

using namespace square;
using namespace square::test;

constexpr double kLeastPart = 0.95;
constexpr double kLeastShare = 0.98;
constexpr double kWarmBits = 1e6;  // of a call that has links come up, and the job's turns planned together
constexpr Duration kTimeout = std::chrono::seconds(500);
constexpr std::size_t kCalls = 6;  // of two jobs beside one another, once both have begun
// Of a region's machine, as clouds limit them: a part of what its links can carry together.
constexpr double kLimitPart = 0.2;

struct Options {
  std::string file;
  std::size_t first = 0;
  std::size_t cuts = 20;
  std::size_t sites = 12;
  double seconds = 4;
  double total_mbps = 600;
  std::uint64_t seed = 1;
  bool json = false;
};

std::optional<Options> parse(const std::vector<std::string_view>& arguments) {
  Options options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--json") {
      options.json = true;
    } else if (!arguments[i].starts_with("--")) {
      options.file = arguments[i];
    } else if (i + 1 == arguments.size()) {
      return std::nullopt;
    } else {
      const std::string_view name = arguments[i];
      const double value = std::atof(std::string(arguments[++i]).c_str());
      if (name == "--first" && value >= 0) {
        options.first = static_cast<std::size_t>(value);
        continue;
      }
      if (!(value > 0)) return std::nullopt;
      if (name == "--cuts") {
        options.cuts = static_cast<std::size_t>(value);
      } else if (name == "--sites") {
        options.sites = static_cast<std::size_t>(value);
      } else if (name == "--seconds") {
        options.seconds = value;
      } else if (name == "--total") {
        options.total_mbps = value;
      } else if (name == "--seed") {
        options.seed = static_cast<std::uint64_t>(value);
      } else {
        return std::nullopt;
      }
    }
  }
  if (options.file.empty() || options.sites < 2) return std::nullopt;
  return options;
}

// Sites of the network, drawn at random, named as a simulated overlay names its nodes.
Result<Topology> cut_of(const Topology& network, const Options& options, std::size_t number) {
  std::mt19937_64 random(options.seed * 1000 + number);
  std::vector<std::uint32_t> chosen(network.node_count());
  std::iota(chosen.begin(), chosen.end(), 0U);
  std::ranges::shuffle(chosen, random);
  chosen.resize(std::min(options.sites, chosen.size()));
  struct Line {
    std::size_t from;
    std::size_t to;
    LinkProperties properties;
  };
  std::vector<Line> lines;
  std::vector<double> egress(chosen.size());
  std::vector<double> ingress(chosen.size());
  double whole = 0;
  for (std::size_t from = 0; from < chosen.size(); ++from) {
    for (std::size_t to = 0; to < chosen.size(); ++to) {
      const auto link = network.find_link(NodeId(chosen[from]), NodeId(chosen[to]));
      if (!link) continue;
      lines.push_back({from, to, network.link(*link).properties});
      whole += lines.back().properties.capacity_bps;
      egress[from] += lines.back().properties.capacity_bps;
      ingress[to] += lines.back().properties.capacity_bps;
    }
  }
  const double scale = options.total_mbps * kMbps / whole;
  Topology cut;
  for (std::size_t site = 0; site < chosen.size(); ++site) {
    TopologyNode node;
    node.name = node_name(site);
    if (number % 2 == 1) {
      node.egress_bps = scale * kLimitPart * egress[site];
      node.ingress_bps = scale * kLimitPart * ingress[site];
    }
    SQUARE_RETURN_IF_ERROR(cut.add_node(std::move(node)).status());
  }
  for (Line& line : lines) {
    line.properties.capacity_bps *= scale;
    SQUARE_RETURN_IF_ERROR(cut.add_link(NodeId(static_cast<std::uint32_t>(line.from)),
                                        NodeId(static_cast<std::uint32_t>(line.to)), line.properties)
                               .status());
  }
  return cut;
}

// A simulated overlay of the cut with all that communicators need.
struct World {
  explicit World(const Topology& topology, std::uint64_t seed)
      : overlay(seed, topology.node_count()), controller(overlay, topology) {
    for (std::uint32_t e = 0; e < topology.link_count(); ++e) {
      const TopologyLink& link = topology.link(LinkId(e));
      LinkConditions line;
      line.delay = link.properties.latency;
      overlay.simulation.set_conditions(node_name(link.from.index()), node_name(link.to.index()), line);
    }
    for (std::size_t site = 0; site < topology.node_count(); ++site)
      hosts.push_back(std::make_unique<SimulatedHost>(controller, overlay.node(site)));
  }
  Overlay overlay;
  SimulatedController controller;
  std::vector<std::unique_ptr<SimulatedHost>> hosts;
};

struct Kind {
  std::string_view name;
  std::vector<CollectiveOp> turns;
  std::size_t again;  // after the last turn comes this one

  [[nodiscard]] std::size_t turn_of(std::size_t call) const {
    return call < turns.size() ? call : again + (call - turns.size()) % (turns.size() - again);
  }
};

// A group of one rank a site that calls its operations over and over.
class Job {
 public:
  Job(std::string tenant, double weight, Kind kind)
      : tenant_(std::move(tenant)), weight_(weight), kind_(std::move(kind)) {}

  Status join(World& world) {
    world.controller.add_tenant(tenant_, weight_);
    GroupSpec spec;
    spec.name = "job of " + tenant_;
    spec.tenant = tenant_;
    for (std::size_t site = 0; site < world.hosts.size(); ++site) spec.nodes.push_back(node_name(site));
    for (std::uint32_t rank = 0; rank < spec.nodes.size(); ++rank) {
      SQUARE_ASSIGN_OR_RETURN(ranks_.emplace_back().member,
                              Communicator::create(*world.hosts[rank], spec, Rank(rank), kTimeout));
    }
    return Status::ok();
  }

  void set_size(double bits) {
    own_floats_ = static_cast<std::size_t>(bits / kBitsPerByte) / sizeof(float) / ranks_.size();
    for (One& one : ranks_) {
      one.whole.assign(own_floats_ * ranks_.size(), 0.0F);
      one.own.assign(own_floats_, 0.0F);
    }
  }
  [[nodiscard]] double bits() const {
    return kBitsPerByte * static_cast<double>(own_floats_ * ranks_.size() * sizeof(float));
  }
  [[nodiscard]] std::size_t finished() const {
    return std::ranges::min_element(ranks_, {}, &One::finished)->finished;
  }
  [[nodiscard]] const Status& trouble() const { return trouble_; }

  // Each rank whose call is over makes the next one, until it has made so many.
  void advance(std::size_t calls) {
    for (std::uint32_t rank = 0; rank < ranks_.size() && trouble_.is_ok(); ++rank) {
      One& one = ranks_[rank];
      if (one.work != nullptr) {
        if (!one.work->is_done()) continue;
        trouble_ = one.work->wait();
        one.work.reset();
        ++one.finished;
      }
      if (one.finished >= calls || !trouble_.is_ok()) continue;
      Result<std::shared_ptr<Work>> begun = begin(one, kind_.turns[kind_.turn_of(one.finished)]);
      if (begun.is_ok())
        one.work = *std::move(begun);
      else
        trouble_ = begun.status();
    }
  }

 private:
  struct One {
    std::unique_ptr<Communicator> member;
    std::vector<float> whole;
    std::vector<float> own;  // the rank's part of it
    std::shared_ptr<Work> work;
    std::size_t finished = 0;
  };

  Result<std::shared_ptr<Work>> begin(One& one, CollectiveOp op) const {
    constexpr Reduction kSum{ElementType::kFloat32, ReduceOp::kSum};
    const auto whole = std::as_writable_bytes(std::span(one.whole));
    const auto own = std::as_writable_bytes(std::span(one.own));
    std::vector<std::span<std::byte>> parts;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      parts.push_back(whole.subspan(rank * own.size(), own.size()));
    switch (op) {
      case CollectiveOp::kBroadcast: return one.member->broadcast_async(whole, Rank(0), kTimeout);
      case CollectiveOp::kAllReduce: return one.member->all_reduce_async(whole, whole, kSum, kTimeout);
      case CollectiveOp::kAllGather: return one.member->all_gather_async(own, parts, kTimeout);
      case CollectiveOp::kReduceScatter:
        return one.member->reduce_scatter_async({parts.begin(), parts.end()}, own, kSum, kTimeout);
      default: return internal_error("no job calls that");
    }
  }

  const std::string tenant_;
  const double weight_;
  const Kind kind_;
  std::vector<One> ranks_;
  std::size_t own_floats_ = 0;
  Status trouble_;
};

// Until every job has made so many calls more; who is done rests. `look` is called as time goes on.
Status run(
    World& world, std::vector<Job*> jobs, std::size_t calls, const std::function<void()>& look = [] {}) {
  std::vector<std::size_t> until;
  for (const Job* job : jobs) until.push_back(job->finished() + calls);
  const auto is_over = [&] {
    bool over = true;
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      jobs[j]->advance(until[j]);
      if (!jobs[j]->trouble().is_ok()) return true;
      over = over && jobs[j]->finished() >= until[j];
    }
    look();
    return over;
  };
  if (!world.overlay.run(is_over)) return deadline_exceeded("a job takes longer than ten minutes");
  for (const Job* job : jobs) SQUARE_RETURN_IF_ERROR(job->trouble());
  return Status::ok();
}

struct TurnFigures {
  std::string name;
  double best_bps = 0;           // planned, when there is nothing else
  double planned_bps = 0;        // in the job
  double best_measured_bps = 0;  // as planned by itself
  double measured_bps = 0;       // in the job
  double seconds = 0;            // of the call that measured it
};

double seconds_of(World& world, TimePoint begin) {
  return to_seconds(world.overlay.simulation.clock().now() - begin);
}

// Bits per second of each turn of the job, with nothing beside it; all carry as many bytes.
Result<std::vector<double>> measured(const Topology& cut, const Options& options, const Kind& kind,
                                     double bits) {
  World world(cut, options.seed);
  Job job("a", 1, {kind.name, kind.turns, 0});
  SQUARE_RETURN_IF_ERROR(job.join(world));
  job.set_size(kWarmBits);
  SQUARE_RETURN_IF_ERROR(run(world, {&job}, kind.turns.size()));
  job.set_size(bits);
  std::vector<double> rates;
  for (std::size_t turn = 0; turn < kind.turns.size(); ++turn) {
    const TimePoint begin = world.overlay.simulation.clock().now();
    SQUARE_RETURN_IF_ERROR(run(world, {&job}, 1));
    rates.push_back(job.bits() / seconds_of(world, begin));
  }
  return rates;
}

// What the plan gives each turn of the job where there is nothing else.
Result<std::vector<double>> planned(const Topology& cut, const Kind& kind) {
  Scenario scenario;
  scenario.topology = cut;
  scenario.policy.name = "exact";
  scenario.tenants.push_back({"a", 1});
  for (const CollectiveOp op : kind.turns) {
    CollectiveSpec& spec = scenario.collectives.emplace_back();
    spec.id = CollectiveId(static_cast<std::uint32_t>(scenario.collectives.size() - 1));
    spec.tenant = "a";
    spec.group = "job";
    spec.op = op;
    for (std::uint32_t node = 0; node < cut.node_count(); ++node) spec.members.emplace_back(node);
    spec.size_bytes = std::size_t{1} << 20U;
  }
  SQUARE_ASSIGN_OR_RETURN(const PlanResult made, make_plan(scenario));
  std::vector<double> rates;
  for (const PlanCollective& collective : made.plan.collectives) rates.push_back(collective.rate_bps);
  return rates;
}

// Every turn of the job, against the same in a job that calls nothing else.
Result<std::vector<TurnFigures>> alone(const Topology& cut, const Options& options, const Kind& kind) {
  SQUARE_ASSIGN_OR_RETURN(const std::vector<double> in_job, planned(cut, kind));
  const double bits = options.seconds * *std::ranges::max_element(in_job);
  SQUARE_ASSIGN_OR_RETURN(const std::vector<double> rates, measured(cut, options, kind, bits));
  std::vector<TurnFigures> figures;
  for (std::size_t turn = 0; turn < in_job.size(); ++turn) {
    const Kind only{kind.name, {kind.turns[turn]}, 0};
    TurnFigures& one = figures.emplace_back(TurnFigures{std::string(to_string(kind.turns[turn]))});
    one.planned_bps = in_job[turn];
    one.measured_bps = rates[turn];
    one.seconds = bits / rates[turn];
    SQUARE_ASSIGN_OR_RETURN(const std::vector<double> best, planned(cut, only));
    one.best_bps = best.front();
    SQUARE_ASSIGN_OR_RETURN(const std::vector<double> best_rates, measured(cut, options, only, bits));
    one.best_measured_bps = best_rates.front();
  }
  return figures;
}

// Two tenants' jobs of the same kind, the first with that weight, and as many bytes in all as the job alone
// carried: what each has of its share. More where the other leaves something.
Result<std::pair<double, double>> beside(const Topology& cut, const Options& options, const Kind& kind,
                                         const std::vector<TurnFigures>& alone, double weight) {
  World world(cut, options.seed);
  Job first("a", weight, kind);
  Job second("b", 1, kind);
  const std::size_t warm = kind.turns.size();
  for (Job* job : {&first, &second}) {
    SQUARE_RETURN_IF_ERROR(job->join(world));
    job->set_size(kWarmBits);
  }
  SQUARE_RETURN_IF_ERROR(run(world, {&first, &second}, warm));
  // Calls take as long in both.
  const double bits = alone.front().seconds * alone.front().measured_bps;
  first.set_size(bits * weight / (1 + weight));
  second.set_size(bits / (1 + weight));
  const TimePoint begin = world.overlay.simulation.clock().now();
  std::pair<double, double> seconds;
  const auto look = [&] {
    if (seconds.first == 0 && first.finished() >= warm + kCalls) seconds.first = seconds_of(world, begin);
    if (seconds.second == 0 && second.finished() >= warm + kCalls) seconds.second = seconds_of(world, begin);
  };
  SQUARE_RETURN_IF_ERROR(run(world, {&first, &second}, kCalls, look));
  double expected = 0;
  for (std::size_t call = warm; call < warm + kCalls; ++call) expected += alone[kind.turn_of(call)].seconds;
  return std::pair(expected / seconds.first, expected / seconds.second);
}

// Prints a line; whether it is as asked.
bool show(const Options& options, std::size_t number, const Kind& kind, const std::vector<TurnFigures>& turns,
          double weight, const std::pair<double, double>& shares) {
  bool is_well = std::min(shares.first, shares.second) >= kLeastShare;
  std::vector<std::string> parts;
  for (const TurnFigures& turn : turns) {
    const double planned = turn.planned_bps / turn.best_bps;
    const double measured = turn.measured_bps / turn.best_measured_bps;
    const double of_plan = turn.measured_bps / turn.planned_bps;
    is_well = is_well && planned >= kLeastPart && measured >= kLeastPart;
    constexpr std::string_view kJson =
        R"("{}": {{"planned": {:.4f}, "measured": {:.4f}, "of_plan": {:.4f}}})";
    constexpr std::string_view kText =
        "{}: {:.3f} of its best as planned, {:.3f} as measured, {:.3f} of the plan";
    parts.push_back(
        fmt::format(fmt::runtime(options.json ? kJson : kText), turn.name, planned, measured, of_plan));
  }
  const bool has_limits = number % 2 == 1;
  if (options.json) {
    fmt::print(R"({{"cut": {}, "limits": {}, "job": "{}", {}, "weight": {}, "of_share": [{:.4f}, {:.4f}]}})"
               "\n",
               number, has_limits, kind.name, fmt::join(parts, ", "), weight, shares.first, shares.second);
  } else {
    fmt::print("cut {:2}{} {:4}  {}; two, weights {} and 1: {:.3f} and {:.3f} of their shares\n", number,
               has_limits ? ", limits," : "", kind.name, fmt::join(parts, ", "), weight, shares.first,
               shares.second);
  }
  std::fflush(stdout);
  return is_well;
}

Result<bool> measure_cut(const Topology& network, const Options& options, std::size_t number) {
  const std::vector<Kind> kinds = {{"fsdp", {CollectiveOp::kAllGather, CollectiveOp::kReduceScatter}, 0},
                                   {"ddp", {CollectiveOp::kBroadcast, CollectiveOp::kAllReduce}, 1}};
  SQUARE_ASSIGN_OR_RETURN(const Topology cut, cut_of(network, options, number));
  bool is_well = true;
  for (const Kind& kind : kinds) {
    SQUARE_ASSIGN_OR_RETURN(const std::vector<TurnFigures> turns, alone(cut, options, kind));
    const double weight = number % 3 == 2 ? 2 : 1;
    SQUARE_ASSIGN_OR_RETURN(const auto shares, beside(cut, options, kind, turns, weight));
    is_well = show(options, number, kind, turns, weight, shares) && is_well;
  }
  return is_well;
}

}  // namespace

int main(int argc, char** argv) {
  const std::optional<Options> options = parse({argv + 1, argv + argc});
  if (!options) {
    fmt::print(
        stderr,
        "usage: simulated_jobs links.csv [--cuts 20] [--first 0] [--sites 12] [--seconds 4] [--total 600] "
        "[--seed 1] "
        "[--json]\nJobs whose collectives follow one another, over cuts of a network in simulation.\n");
    return 2;
  }
  const Result<Topology> network = read_topology(options->file);
  if (!network.is_ok()) {
    fmt::print(stderr, "simulated_jobs: {}\n", network.status().message());
    return 2;
  }
  bool is_well = true;
  for (std::size_t number = options->first; number < options->first + options->cuts; ++number) {
    const Result<bool> one = measure_cut(*network, *options, number);
    if (!one.is_ok()) fmt::print(stderr, "simulated_jobs: cut {}: {}\n", number, one.status().to_string());
    is_well = is_well && one.is_ok() && *one;
  }
  return is_well ? 0 : 1;
}
