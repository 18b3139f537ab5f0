#include "planning/large/ladder.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/spending.h"

namespace square::planning {
namespace {

using Kind = Targets::Kind;

// Where the first level starts, and where others do, whose ways are known: such a part of the last steepness.
constexpr double kFirstPart = 0.2;
constexpr double kNextPart = 0.5;
// Lengths may get steeper by this when they have done what they can: when the fullest resource is within
// kSettled / steepness of the least that it can be.
constexpr double kSettleSteeper = 1.6;
constexpr double kSettled = 3.0;
constexpr int kSettleRounds = 40;
constexpr int kSettlePasses = 20;
// A level is found when the next step would change it by less.
constexpr double kFound = 0.004;
constexpr int kLevelSteps = 16;
constexpr double kLargestStep = 1.5;
// Lengths that charge the active groups less than this part of all are about the others: the level may rise
// by so much.
constexpr double kCharged = 0.05;
constexpr double kFreeStep = 1.1;
// Where ways that are quickly found leave more than this to what is proven, it is done again thoroughly.
constexpr double kTrusted = 0.01;
// Lengths that charge the active groups less than this part of all prove nothing about them.
constexpr double kSaying = 1e-3;
// Under such lengths everybody is charged.
constexpr double kFlat = 2.0;
// Who is charged less than this part of what another is does not stop yet.
constexpr double kBinding = 0.02;

class Climb {
 public:
  Climb(const Instance& instance, Mixture& mixture, const std::vector<double>& have,
        const ClimbOptions& options, std::vector<ProvenLevel> known)
      : instance_(instance),
        mixture_(mixture),
        have_(have),
        options_(options),
        targets_(active_targets(instance)) {
    ladder_.rate = have;
    ladder_.levels = std::move(known);
    for (const ProvenLevel& level : ladder_.levels) {
      for (const std::size_t c : level.groups) fix(c, have[c]);
    }
  }

  Ladder run() {
    const Phase phase("looking for better trees");
    mixture_.set_steepness(kFirstPart * options_.steepness);
    while (any_active()) {
      double level = find_level(false);
      Proof proof = prove_here();
      if (!is_late() && proof.bound > level * (1.0 + kTrusted)) {
        ladder_.thorough = true;
        level = find_level(true);
        proof = prove_here();
      }
      const bool is_found = !is_late() && charges(proof, level);
      if (!is_found && !ladder_.levels.empty()) break;
      // Lengths that are not those of an optimum yet may charge nobody.
      if (!is_found) {
        mixture_.set_steepness(kFlat);
        proof = prove_here();
      }
      // The room that the others made is not there.
      level = std::min(level, proof.bound);
      ProvenLevel& out = ladder_.levels.emplace_back(ProvenLevel{level, {}, std::move(proof)});
      if (!is_found) break;
      stop_charged(out);
      mixture_.set_steepness(kNextPart * options_.steepness);
    }
    if (any_active()) stop_all();
    return std::move(ladder_);
  }

 private:
  [[nodiscard]] bool is_active(std::size_t c) const { return targets_.kind[c] == Kind::kActive; }
  [[nodiscard]] bool any_active() const {
    return std::find(targets_.kind.begin(), targets_.kind.end(), Kind::kActive) != targets_.kind.end();
  }

  [[nodiscard]] bool is_late() const { return steady_clock().now() >= options_.until; }

  void fix(std::size_t c, double rate) {
    targets_.kind[c] = Kind::kFixed;
    targets_.rate[c] = ladder_.rate[c] = rate;
  }

  void ask_for(double level) {
    std::vector<double> rates(targets_.kind.size(), 0.0);
    for (std::size_t c = 0; c < rates.size(); ++c) {
      if (is_active(c)) rates[c] = targets_.weight[c] * level;
      if (targets_.kind[c] == Kind::kFixed) rates[c] = targets_.rate[c] * (1.0 - options_.room);
    }
    mixture_.set_rates(rates);
  }

  // The level that the active groups reach, a little below what the lengths then prove.
  double find_level(bool thorough) {
    double level = kUnreachable;
    for (std::size_t c = 0; c < have_.size(); ++c) {
      if (is_active(c)) level = std::min(level, have_[c] / targets_.weight[c]);
    }
    level = std::max(level, reached_);
    for (int step = 0; step < kLevelSteps; ++step) {
      ask_for(level);
      settle(mixture_, options_.steepness, options_.until, thorough);
      if (is_late()) break;
      const double next = std::min(next_level(level), kLargestStep * level);
      if (std::abs(next - level) <= kFound * level) break;
      level = next;
    }
    reached_ = std::max(reached_, level / std::max(1.0, mixture_.fullest()));
    return reached_;
  }

  // What the lengths of the moment allow at most, over the ways that are known.
  [[nodiscard]] double next_level(double level) const {
    const std::vector<double> least = mixture_.shortest();
    const std::vector<double> lengths = mixture_.lengths();
    double left = 0.0;
    for (std::size_t r = 0; r < lengths.size(); ++r) {
      if (lengths[r] > 0.0) left += lengths[r] * mixture_.resources().limit(r);
    }
    const double all = left;
    double charged = 0.0;
    for (std::size_t c = 0; c < least.size(); ++c) {
      if (is_active(c)) charged += targets_.weight[c] * least[c];
      if (targets_.kind[c] == Kind::kFixed) left -= mixture_.rates()[c] * least[c];
    }
    return charged * level > kCharged * all ? std::max(left / charged, reached_) : kFreeStep * level;
  }

  Proof prove_here() {
    Proof proof{mixture_.resources().duals(mixture_.lengths()), {}, 0.0};
    const std::vector<double> cost = proof.duals.link_cost(instance_);
    for (std::size_t i = 0; i < instance_.demands.size(); ++i) {
      look_at_budget();
      proof.packings.push_back(mixture_.bound(i, cost));
    }
    proof.bound = proven_bound(instance_, targets_, proof);
    return proof;
  }

  // By group: what a proof has it pay, of the active ones.
  [[nodiscard]] std::vector<double> charge_of(const Proof& proof) const {
    std::vector<double> lengths;
    for (const CutPacking& packing : proof.packings) lengths.push_back(packing.length);
    std::vector<double> charge(targets_.kind.size(), 0.0);
    for (std::size_t c = 0; c < charge.size(); ++c) {
      if (is_active(c)) charge[c] = targets_.weight[c] * group_cost(instance_.groups[c], lengths);
    }
    return charge;
  }

  // Whether the proof says anything about the active ones.
  [[nodiscard]] bool charges(const Proof& proof, double level) const {
    const std::vector<double> charge = charge_of(proof);
    const double all = std::accumulate(charge.begin(), charge.end(), 0.0);
    return all * level > kSaying * proof.duals.worth(instance_);
  }

  void stop_charged(ProvenLevel& level) {
    const std::vector<double> charge = charge_of(level.proof);
    const double most = *std::max_element(charge.begin(), charge.end());
    for (std::size_t c = 0; c < charge.size(); ++c) {
      if (!is_active(c) || charge[c] <= kBinding * most) continue;
      fix(c, targets_.weight[c] * level.level);
      level.groups.push_back(c);
    }
  }

  // In the last level, with what they had before if that is more.
  void stop_all() {
    ProvenLevel& last = ladder_.levels.back();
    for (std::size_t c = 0; c < targets_.kind.size(); ++c) {
      if (!is_active(c)) continue;
      ladder_.rate[c] = std::max(have_[c], targets_.weight[c] * last.level);
      last.groups.push_back(c);
    }
    std::sort(last.groups.begin(), last.groups.end());
    ladder_.late = true;
  }

  const Instance& instance_;
  Mixture& mixture_;
  const std::vector<double>& have_;
  const ClimbOptions options_;
  Targets targets_;
  double reached_ = 0.0;  // level
  Ladder ladder_;
};

}  // namespace

void settle(Mixture& mixture, double steepness, TimePoint until, bool thorough) {
  for (int round = 0; round < kSettleRounds && steady_clock().now() < until; ++round) {
    mixture.find_ways(thorough);
    mixture.even_out(kSettlePasses);
    if (mixture.fullest() - mixture.least_fullest() > kSettled / mixture.steepness() * mixture.fullest())
      continue;
    if (mixture.steepness() >= steepness) return;
    mixture.set_steepness(std::min(steepness, mixture.steepness() * kSettleSteeper));
  }
}

Ladder climb(const Instance& instance, Mixture& mixture, const std::vector<double>& have,
             const ClimbOptions& options, std::vector<ProvenLevel> known) {
  return Climb(instance, mixture, have, options, std::move(known)).run();
}

}  // namespace square::planning
