#include "planning/exact/fairness.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace square::planning {
namespace {

using Kind = Targets::Kind;

// A master is solved again in better units when t is as many times its unit.
constexpr double kUnitRange = 64.0;
constexpr int kMaxUnits = 40;

class Levels {
 public:
  Levels(Generation& generation, const ExactMemory* memory)
      : generation_(generation),
        instance_(generation.instance()),
        memory_(memory),
        targets_(active_targets(instance_)) {
    rates_.rate.assign(instance_.groups.size(), 0.0);
  }

  Result<FairRates> run(std::optional<double> unit) {
    if (!any_active()) return std::move(rates_);
    if (memory_ != nullptr) {
      targets_.unit = generation_.seed_missing(targets_);
    } else {
      targets_.unit = unit.has_value() ? *unit : generation_.seed(targets_);
    }
    if (targets_.unit <= 0.0) return failed_precondition("no tree was found that keeps the latency bounds");
    while (any_active()) {
      Result<GenerationAnswer> solved = solve();
      if (solved.status().code() == StatusCode::kDeadlineExceeded) {
        if (rates_.levels.empty() && generation_.seeded().empty()) return solved.status();
        if (rates_.levels.empty()) use_seeds();
        stop_all();
        break;
      }
      if (!solved.is_ok()) return solved.status();
      GenerationAnswer answer = std::move(solved).value();
      const double level = answer.master.objective;
      if (level <= 0.0) return internal_error("the level of the active collectives is not positive");
      FairLevel& out = rates_.levels.emplace_back(
          FairLevel{level, {}, std::move(answer.duals), std::move(answer.demand_cost)});
      rates_.programs.push_back({stopped_, std::move(answer.basis)});
      stop(answer, out);
      rates_.late = rates_.late || answer.late;
      rates_.flows = std::move(answer.master);
      targets_.unit = level;
    }
    return std::move(rates_);
  }

 private:
  [[nodiscard]] bool any_active() const {
    return std::find(targets_.kind.begin(), targets_.kind.end(), Kind::kActive) != targets_.kind.end();
  }

  Result<GenerationAnswer> solve() {
    // Without a basis of the same program the dual method is sooner done from nothing than
    // the primal one from the level before.
    Basis basis = memory_ == nullptr ? Basis{} : memory_->level_start(instance_, stopped_);
    for (int tries = 0; tries < kMaxUnits; ++tries) {
      Result<GenerationAnswer> answer = generation_.run(targets_, basis, std::nullopt);
      if (!answer.is_ok()) {
        return answer.status().with_context(fmt::format("level {} of the plan", rates_.levels.size() + 1));
      }
      if (answer->master.objective <= kUnitRange * targets_.unit) return answer;
      targets_.unit = answer->master.objective;
      basis = std::move(answer->basis);
    }
    return internal_error("the level of the active collectives has no limit");
  }

  void stop(const GenerationAnswer& answer, FairLevel& out) {
    const std::vector<double> all(targets_.kind.size(), 1.0);
    out.groups = stop_binding(answer.late ? all : answer.binding, out.level, targets_);
    for (const std::size_t c : out.groups) {
      rates_.rate[c] = targets_.rate[c];
      stopped_.push_back(instance_.problem->scenario->collectives[c].id);
    }
    std::sort(stopped_.begin(), stopped_.end());
  }

  // Not even the first program was solved in time: the seeds alone are a plan, and their
  // lengths prove a bound.
  void use_seeds() {
    rates_.levels.push_back(
        {targets_.unit, {}, *generation_.centre(), std::vector<double>(instance_.demands.size(), 0.0)});
    rates_.programs.push_back({});
    rates_.flows.rate = generation_.seeded();
  }

  // At the last level, which all of them have.
  void stop_all() {
    FairLevel& last = rates_.levels.back();
    for (std::size_t c = 0; c < targets_.kind.size(); ++c) {
      if (targets_.kind[c] != Kind::kActive) continue;
      rates_.rate[c] = targets_.weight[c] * last.level;
      last.groups.push_back(c);
    }
    std::sort(last.groups.begin(), last.groups.end());
    rates_.late = true;
  }

  Generation& generation_;
  const Instance& instance_;
  const ExactMemory* memory_;
  Targets targets_;
  std::vector<CollectiveId> stopped_;  // so far, sorted
  FairRates rates_;
};

}  // namespace

Result<FairRates> fair_rates(Generation& generation, std::optional<double> unit, const ExactMemory* memory) {
  return Levels(generation, memory).run(unit);
}

}  // namespace square::planning
