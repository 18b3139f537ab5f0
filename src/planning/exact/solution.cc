#include "planning/exact/solution.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "planning/exact/coded_streams.h"
#include "planning/exact/cut_form.h"
#include "planning/exact/few_trees.h"
#include "planning/exact/hubs.h"
#include "planning/exact/spanning_rates.h"
#include "planning/exact/stars.h"
#include "planning/exact/stream_limit.h"
#include "planning/exact/unicasts.h"
#include "planning/large/large_plan.h"

namespace square::planning {
namespace {

using Kind = Targets::Kind;

// A default gap is reached by solving to the solver's own tolerance; a wider one leaves half
// of it to the cuts that prove it.
constexpr double kSolverGap = 1e-9;
constexpr double kGapPart = 0.5;
// Rates that differ by less are the same.
constexpr double kSameRate = 1e-8;
// With more links than that, rates come from cuts where cuts say them, and streams from a search for few
// trees: a program over trees has as many of them as there are links, and takes longest where they are many.
constexpr std::size_t kManyLinks = 256;
// So many unicasts are planned by pairs of nodes.
constexpr std::size_t kManyUnicasts = 200;
// Sessions all of one direction are packed by the program where they are few: all of their rate in a second.
constexpr std::size_t kLargePacking = 8'192;  // links times sessions, of which so many at least count
constexpr std::size_t kSessions = 4;
// Trees carry what they were found to carry.
constexpr double kWhole = 1.0 - 1e-9;

std::optional<FieldKind> code_field(Coding coding) {
  switch (coding) {
    case Coding::kOff: break;
    case Coding::kExact: return FieldKind::kGf256;
    case Coding::kFloat32: return FieldKind::kFloat32;
  }
  return std::nullopt;
}

// Of collectives with one member each.
ExactSolution nothing_to_send(const Instance& instance, bool streams) {
  ExactSolution solution;
  solution.lp_rate.assign(instance.groups.size(), 0.0);
  solution.lp_share.resize(instance.groups.size());
  if (streams) solution.carried = Carried{};
  return solution;
}

class Fair {
 public:
  Fair(const Instance& instance, bool streams, ExactMemory* memory)
      : instance_(instance), streams_(streams), memory_(memory) {}

  Result<ExactSolution> run() {
    if (instance_.demands.empty()) return nothing_to_send(instance_, streams_);
    if (from_stars() || from_hubs()) return std::move(solution_);
    SQUARE_ASSIGN_OR_RETURN(const auto spanning, spanning_rates(instance_));
    if (spanning.has_value()) {
      SQUARE_RETURN_IF_ERROR(from_flows(*spanning));
      return std::move(solution_);
    }
    Result<bool> done = from_unicasts();
    if (done.is_ok() && !*done) done = from_cuts();
    // Too late for it: the first trees are a plan still.
    if (!done.is_ok() && done.status().code() != StatusCode::kDeadlineExceeded) return done.status();
    if (done.is_ok() && *done) return std::move(solution_);
    if (is_large(instance_)) return solve_large(instance_, streams_);
    SQUARE_RETURN_IF_ERROR(from_trees());
    return std::move(solution_);
  }

 private:
  // Whether that is all there is to do; so the next.
  bool from_stars() {
    std::optional<StarsAnswer> answer = carry_by_stars(instance_);
    if (!answer.has_value()) return false;
    std::vector<std::size_t> groups;
    for (std::size_t c = 0; c < instance_.groups.size(); ++c) {
      const Group& group = instance_.groups[c];
      if (!group.alternatives.empty()) groups.push_back(c);
      solution_.lp_rate.push_back(group.alternatives.empty() ? 0.0 : group.weight * answer->level);
    }
    solution_.levels = {plan_level(instance_, active_targets(instance_), answer->proof, groups)};
    solution_.lp_share = shares_of(instance_, answer->carried);
    if (streams_) solution_.carried = std::move(answer->carried);
    return true;
  }

  bool from_hubs() {
    std::optional<HubsAnswer> answer =
        carry_by_hubs(instance_, memory_ == nullptr ? nullptr : &memory_->hubs());
    if (!answer.has_value()) return false;
    set_levels(answer->levels.rate, answer->levels.levels);
    solution_.lp_share = shares_of(instance_, answer->carried);
    if (streams_) solution_.carried = std::move(answer->carried);
    return true;
  }

  Status from_flows(const SpanningAnswer& answer) {
    FairRates rates{answer.rate, {}, {}, false, {}};
    const std::size_t links = instance_.link_count();
    if (streams_ && links > kManyLinks &&
        links * std::max(instance_.demands.size(), kSessions) > kLargePacking)
      solution_.carried = carry_by_few_trees(instance_, demand_rates(instance_, answer.rate, {}));
    if (streams_ && !solution_.carried.has_value()) {
      SQUARE_ASSIGN_OR_RETURN(const double packed, pack(answer.rate));
      for (double& rate : rates.rate) rate *= packed;
    }
    solution_.lp_rate = rates.rate;
    solution_.lp_share.resize(rates.rate.size());
    for (const SpanningLevel& level : answer.levels) {
      FairLevel& out = rates.levels.emplace_back(FairLevel{level.level, {}, {}, {}});
      for (const int group : level.groups) out.groups.push_back(static_cast<std::size_t>(group));
    }
    const std::vector<Targets> targets = level_targets(instance_, rates);
    for (std::size_t k = 0; k < targets.size(); ++k) {
      const Proof proof = cut_proof(answer.levels[k], targets[k]);
      solution_.levels.push_back(plan_level(instance_, targets[k], proof, rates.levels[k].groups));
    }
    return Status::ok();
  }

  // Whether there are rates by cuts, and few trees for them.
  Result<bool> from_cuts() {
    if (instance_.link_count() <= kManyLinks) return false;
    SQUARE_ASSIGN_OR_RETURN(const std::optional<CutFormAnswer> answer, cut_form_rates(instance_));
    if (!answer.has_value()) return false;
    if (streams_) {
      solution_.carried = carry_by_few_trees(instance_, demand_rates(instance_, answer->rate, answer->share));
      if (!solution_.carried.has_value()) return false;
    }
    set_levels(answer->rate, answer->levels);
    solution_.lp_share = answer->share;
    return true;
  }

  // Whether there are only unicasts, and many.
  Result<bool> from_unicasts() {
    if (instance_.demands.size() < kManyUnicasts) return false;
    SQUARE_ASSIGN_OR_RETURN(std::optional<UnicastsAnswer> answer, plan_unicasts(instance_));
    if (!answer.has_value()) return false;
    set_levels(answer->rate, answer->levels);
    if (streams_) solution_.carried = std::move(answer->carried);
    return true;
  }

  void set_levels(const std::vector<double>& rate, const std::vector<ProvenLevel>& levels) {
    solution_.lp_rate = rate;
    solution_.lp_share.resize(rate.size());
    FairRates rates{rate, {}, {}, false, {}};
    for (const ProvenLevel& level : levels)
      rates.levels.push_back(FairLevel{level.level, level.groups, {}, {}});
    const std::vector<Targets> targets = level_targets(instance_, rates);
    for (std::size_t k = 0; k < targets.size(); ++k)
      solution_.levels.push_back(plan_level(instance_, targets[k], levels[k].proof, levels[k].groups));
  }

  // Everything that crosses into the tight set costs one.
  [[nodiscard]] Proof cut_proof(const SpanningLevel& level, const Targets& targets) const {
    std::vector<bool> inside(instance_.node_count(), false);
    for (const int node : level.far_side) inside[static_cast<std::size_t>(node)] = true;
    Proof proof;
    proof.duals.link.assign(instance_.link_count(), 0.0);
    proof.duals.egress.assign(instance_.node_count(), 0.0);
    proof.duals.ingress.assign(instance_.node_count(), 0.0);
    const DemandGraph& graph = *instance_.demands.front().graph;
    for (std::size_t a = 0; a < graph.link.size(); ++a) {
      const Digraph::Arc& arc = graph.graph.arcs[a];
      const bool enters =
          !inside[static_cast<std::size_t>(arc.from)] && inside[static_cast<std::size_t>(arc.to)];
      if (enters) proof.duals.link[static_cast<std::size_t>(graph.link[a])] = 1.0;
    }
    proof.packings.resize(instance_.demands.size());
    for (std::size_t i = 0; i < instance_.demands.size(); ++i) {
      if (inside[static_cast<std::size_t>(instance_.demands[i].root)]) continue;
      proof.packings[i] = {{{level.far_side, 1.0}}, 1.0};
    }
    proof.bound = proven_bound(instance_, targets, proof);
    return proof;
  }

  // Trees for rates that are known to fit: all of them, or the part that was found before the
  // deadline, which is returned.
  Result<double> pack(const std::vector<double>& rate) {
    Generation generation(instance_, generation_options(instance_));
    Targets targets;
    targets.rate.assign(rate.size(), 0.0);
    targets.weight = rate;
    for (const double bps : rate) targets.kind.push_back(bps > 0.0 ? Kind::kActive : Kind::kAbsent);
    targets.unit = generation.seed(targets);
    if (targets.unit <= 0.0) return internal_error("no tree was found for a rate that fits");
    const Result<GenerationAnswer> answer = generation.run(targets, {}, kWhole);
    const bool only_seeds = answer.status().code() == StatusCode::kDeadlineExceeded;
    if (!answer.is_ok() && !only_seeds) return answer.status();
    const double reached = std::min(only_seeds ? targets.unit : answer->master.objective, 1.0);
    std::vector<double> fits = rate;
    for (double& bps : fits) bps *= reached;
    if (only_seeds || answer->late) {
      const std::vector<double>& flows = only_seeds ? generation.seeded() : answer->master.rate;
      solution_.carried = carry_as_is(instance_, generation.pool(), flows, fits);
    } else {
      Result<Carried> carried = carry(instance_, generation.pool(), fits);
      solution_.carried = carried.is_ok()
                              ? std::move(carried).value()
                              : carry_as_is(instance_, generation.pool(), answer->master.rate, fits);
    }
    return reached >= kWhole ? 1.0 : reached;
  }

  Status from_trees() {
    GenerationOptions options = generation_options(instance_);
    Generation trees(instance_, options);
    const bool warm = memory_ != nullptr && memory_->recall(instance_, trees.pool());
    SQUARE_ASSIGN_OR_RETURN(FairRates rates, fair_rates(trees, std::nullopt, warm ? memory_ : nullptr));
    const bool open = certify(trees, rates);
    solution_.lp_rate = rates.rate;
    solution_.lp_share = rates.flows.share;
    Basis basis = memory_ == nullptr ? Basis{} : memory_->carry_start(instance_);
    if (rates.late) {
      solution_.carried = carry_as_is(instance_, trees.pool(), rates.flows.rate, rates.rate);
    } else if (streams_) {
      Result<Carried> carried = carry(instance_, trees.pool(), rates.rate, {}, &basis);
      // The level's own flows are as good, only not with the least traffic.
      solution_.carried = carried.is_ok()
                              ? std::move(carried).value()
                              : carry_as_is(instance_, trees.pool(), rates.flows.rate, rates.rate);
    }
    if (solution_.carried.has_value()) solution_.lp_share = shares_of(instance_, *solution_.carried);
    if (!streams_) solution_.carried.reset();
    if (memory_ != nullptr && !rates.levels.empty() && !rates.late) {
      memory_->keep(instance_, trees.pool(), std::move(rates.programs), std::move(basis));
    }
    // Trees may carry less than coding would: the butterfly. Only the program with coded
    // subgraphs tells.
    return open && !rates.late ? with_coding(trees, rates) : Status::ok();
  }

  // The levels of the solution; whether some proof falls short of what its program found.
  bool certify(Generation& generation, const FairRates& rates) {
    const double gap = instance_.problem->scenario->policy.gap;
    const std::vector<Targets> targets = level_targets(instance_, rates);
    bool open = false;
    solution_.levels.clear();
    for (std::size_t k = 0; k < targets.size(); ++k) {
      const FairLevel& level = rates.levels[k];
      // After the deadline there is no time for more than dual ascent.
      const double enough = rates.late ? kUnreachable : std::max(gap * kGapPart, kSolverGap);
      Proof proof = prove(generation, targets[k], level.duals, level.demand_cost, enough);
      if (proof.bound > level.level * (1.0 + gap) && !rates.late) improve(targets[k], proof);
      open = open || proof.bound > level.level * (1.0 + gap);
      solution_.levels.push_back(plan_level(instance_, targets[k], proof, level.groups));
    }
    return open;
  }

  // Duals that are right for trees bounded in time price links that unbounded cuts pass by. Those
  // of the same program without the bounds on time prove more.
  void improve(const Targets& targets, Proof& proof) {
    if (!unbounded_.has_value()) {
      unbounded_.emplace(instance_);
      bool bounded = false;
      for (Demand& demand : unbounded_->demands) {
        bounded = bounded || !demand.max_latency.empty();
        demand.max_latency.clear();
      }
      if (bounded) without_bounds_.emplace(*unbounded_, generation_options(instance_));
    }
    if (!without_bounds_.has_value() || without_bounds_->seed(targets) <= 0.0) return;
    const Result<GenerationAnswer> answer = without_bounds_->run(targets);
    if (!answer.is_ok()) return;
    Proof other = prove(*without_bounds_, targets, answer->duals, answer->demand_cost, kSolverGap);
    if (other.bound < proof.bound) proof = std::move(other);
  }

  Status with_coding(Generation& trees, const FairRates& by_trees) {
    GenerationOptions options = trees.options();
    options.coded = true;
    Generation coded(instance_, options);
    for (const Column& column : trees.pool().columns()) coded.pool().add(column);
    const Result<FairRates> rates = fair_rates(coded, by_trees.levels.front().level);
    // Too large a program for the relaxation, or too late: the gap that is proven stays.
    const bool gave_up = rates.status().code() == StatusCode::kResourceExhausted ||
                         rates.status().code() == StatusCode::kDeadlineExceeded;
    if (gave_up || (rates.is_ok() && rates->late)) return Status::ok();
    if (!rates.is_ok()) return rates.status();
    certify(coded, *rates);
    const std::vector<double> tree_rate = std::exchange(solution_.lp_rate, rates->rate);
    bool more = false;
    for (std::size_t c = 0; c < tree_rate.size(); ++c)
      more = more || rates->rate[c] > tree_rate[c] * (1.0 + kSameRate);
    if (!more) return Status::ok();
    SQUARE_RETURN_IF_ERROR(carry_codes(trees, coded, *rates));
    solution_.lp_share = rates->flows.share;
    for (std::size_t k = 0; k < rates->flows.rate.size(); ++k) {
      const double rate = rates->flows.rate[k];
      if (rate > 0.0) solution_.flows.emplace_back(coded.pool().columns()[k], rate);
    }
    fit_flows();
    // Redundancy has codes, and no conceptual flows beside which those of others could be shown.
    const auto has_no_flows = [](const auto& flow) {
      return !flow.first.is_tree() && flow.first.paths.empty();
    };
    if (solution_.carried.has_value() && std::ranges::any_of(solution_.flows, has_no_flows))
      claim_what_is_carried(instance_, solution_);
    return Status::ok();
  }

  // Conceptual flows keep capacities exactly, and rates are no more than they carry.
  void fit_flows() {
    const std::vector<double> carried = clip(instance_, solution_.flows);
    for (std::size_t c = 0; c < instance_.groups.size(); ++c) {
      const std::vector<Alternative>& alternatives = instance_.groups[c].alternatives;
      double whole = 0.0;
      for (std::size_t a = 0; a < alternatives.size(); ++a) {
        double most = kUnreachable;
        for (std::size_t k = 0; k < alternatives[a].demands.size(); ++k)
          most = std::min(most, carried[alternatives[a].demands[k]] / alternatives[a].fractions[k]);
        if (alternatives.size() > 1)
          most = solution_.lp_share[c][a] = std::min(solution_.lp_share[c][a], most);
        whole += most;
      }
      if (!alternatives.empty()) solution_.lp_rate[c] = std::min(solution_.lp_rate[c], whole);
    }
  }

  // Trees and codes together, as what one uses the other cannot: levels and streams anew over both.
  Status carry_codes(const Generation& trees, const Generation& coded, const FairRates& by_flows) {
    const PolicySpec& policy = instance_.problem->scenario->policy;
    const std::optional<FieldKind> field = code_field(policy.coding);
    if (!streams_ || !field || policy.max_streams > 0) return Status::ok();
    SQUARE_ASSIGN_OR_RETURN(std::vector<Column> codes, coded_columns(coded, by_flows, *field));
    if (codes.empty()) return Status::ok();
    Generation both(instance_, trees.options());
    for (const Column& column : trees.pool().columns()) both.pool().add(column);
    for (Column& column : codes) both.pool().add(std::move(column));
    const Result<FairRates> rates = fair_rates(both, by_flows.levels.front().level);
    // Too late for it: the trees alone are a plan.
    if (rates.status().code() == StatusCode::kDeadlineExceeded || (rates.is_ok() && rates->late))
      return Status::ok();
    if (!rates.is_ok()) return rates.status();
    Result<Carried> carried = carry(instance_, both.pool(), rates->rate);
    solution_.carried = carried.is_ok() ? std::move(carried).value()
                                        : carry_as_is(instance_, both.pool(), rates->flows.rate, rates->rate);
    return Status::ok();
  }

  const Instance& instance_;
  const bool streams_;
  ExactMemory* memory_;
  std::optional<Instance> unbounded_;  // without bounds on latency, once it is asked for
  std::optional<Generation> without_bounds_;
  ExactSolution solution_;
};

std::string names_of(const Instance& instance, const std::vector<std::size_t>& groups) {
  std::vector<std::string> names;
  for (const std::size_t c : groups) names.push_back(describe(instance.problem->scenario->collectives[c]));
  return fmt::format("{}", fmt::join(names, ", "));
}

class Cost {
 public:
  Cost(const Instance& instance, bool streams)
      : instance_(instance), streams_(streams), generation_(instance, generation_options(instance)) {
    for (std::size_t c = 0; c < instance.groups.size(); ++c) {
      const bool sends = !instance.groups[c].alternatives.empty();
      targets_.kind.push_back(sends ? Kind::kActive : Kind::kAbsent);
      targets_.rate.push_back(sends ? instance.problem->scenario->collectives[c].required_bps.value_or(0.0)
                                    : 0.0);
    }
    targets_.weight = targets_.rate;
  }

  Result<ExactSolution> run() {
    if (instance_.demands.empty()) {
      ExactSolution free = nothing_to_send(instance_, streams_);
      free.cost_bound_usd_per_hour = 0.0;
      return free;
    }
    SQUARE_RETURN_IF_ERROR(find_room());
    for (Kind& kind : targets_.kind) {
      if (kind == Kind::kActive) kind = Kind::kFixed;
    }
    targets_.link_cost = instance_.price;
    SQUARE_ASSIGN_OR_RETURN(const GenerationAnswer answer, generation_.run(targets_));
    const double gap = instance_.problem->scenario->policy.gap;
    const Proof proof =
        prove(generation_, targets_, answer.duals, answer.demand_cost, std::max(gap * kGapPart, kSolverGap));
    ExactSolution solution;
    solution.lp_rate = targets_.rate;
    solution.lp_share = answer.master.share;
    solution.levels.push_back(plan_level(instance_, targets_, proof, {}));
    solution.cost_bound_usd_per_hour = std::max(proof.bound, 0.0);
    if (streams_) {
      SQUARE_ASSIGN_OR_RETURN(solution.carried,
                              carry(instance_, generation_.pool(), targets_.rate, instance_.price));
      solution.lp_share = shares_of(instance_, *solution.carried);
    }
    return solution;
  }

 private:
  // Columns with which all required rates fit together.
  Status find_room() {
    targets_.unit = generation_.seed(targets_);
    if (targets_.unit <= 0.0) return failed_precondition("no tree was found that keeps the latency bounds");
    if (targets_.unit >= 1.0) return Status::ok();  // the first trees have it
    const Result<GenerationAnswer> solved = generation_.run(targets_, {}, 1.0);
    const Status late =
        deadline_exceeded("no plan with the required rates was found in time; allow more time");
    if (solved.status().code() == StatusCode::kDeadlineExceeded) return late;
    if (!solved.is_ok()) return solved.status();
    const GenerationAnswer& answer = *solved;
    if (answer.master.objective >= kWhole) return Status::ok();
    if (answer.late) return late;
    std::vector<std::size_t> binding;
    for (std::size_t c = 0; c < targets_.kind.size(); ++c) {
      if (answer.binding[c] > 0.01) binding.push_back(c);
    }
    return failed_precondition(
        fmt::format("the required rates cannot be had together: at most {:.4g}% of each, because of {}; "
                    "lower required_mbps there or add capacity",
                    100.0 * answer.master.objective, names_of(instance_, binding)));
  }

  const Instance& instance_;
  const bool streams_;
  Generation generation_;
  Targets targets_;
};

}  // namespace

GenerationOptions generation_options(const Instance& instance) {
  const PolicySpec& policy = instance.problem->scenario->policy;
  GenerationOptions options;
  options.gap = policy.gap > kDefaultGap ? policy.gap * kGapPart : kSolverGap;
  options.deadline = instance.deadline;
  return options;
}

Result<ExactSolution> solve_fair(const Instance& instance, bool streams, ExactMemory* memory) {
  return Fair(instance, streams, memory).run();
}
Result<ExactSolution> solve_cost(const Instance& instance, bool streams) {
  return Cost(instance, streams).run();
}

}  // namespace square::planning
