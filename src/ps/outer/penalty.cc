#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "ps/outer/penalty_state.h"
#include "square/outer_optimizer.h"

namespace square::ps {
namespace {

// The least deviation that a score is measured by, as a part of the mean; and where that is 0, too.
constexpr double kLeastDeviation = 1e-3;
constexpr double kTiny = std::numeric_limits<double>::min();

// G. A NaN where no push of float32 can have it.
double norm_of_push(const std::vector<double>& squared_norms, NormAggregation aggregation) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  double sum = 0;
  for (const double squared : squared_norms) {
    if (!(squared >= 0)) return kNone;
    sum += aggregation == NormAggregation::kSum ? std::sqrt(squared) : squared;
  }
  const double norm = aggregation == NormAggregation::kSum ? sum : std::sqrt(sum);
  return norm <= kLargestNorm ? norm : kNone;
}

void weigh(std::span<const PushSummary> pushes, Judgement& judgement) {
  double tokens = 0;
  for (std::size_t i = 0; i < pushes.size(); ++i) {
    if (judgement.decisions[i] == Decision::kTaken) tokens += static_cast<double>(pushes[i].tokens);
  }
  for (std::size_t i = 0; i < pushes.size(); ++i) {
    const bool is_taken = judgement.decisions[i] == Decision::kTaken;
    judgement.weights.push_back(is_taken ? static_cast<double>(pushes[i].tokens) / tokens : 0.0);
  }
}

}  // namespace

Penalty::Penalty(OuterOptions options) : options_(std::move(options)) {
  SQUARE_CHECK(check(options_).is_ok(), "options that check() refuses");
}

Judgement Penalty::judge(std::span<const PushSummary> pushes) {
  Judgement judgement;
  const double most = limit();
  const Statistics start = newcomer();
  for (const PushSummary& push : pushes) {
    const double norm = norm_of_push(push.squared_norms, options_.norms);
    const Verdict found = verdict(push, norm, most, start);
    judgement.decisions.push_back(found.decision);
    judgement.norms.push_back(norm);
    judgement.scores.push_back(found.score);
  }
  weigh(pushes, judgement);
  return judgement;
}

void Penalty::forget(std::string_view worker) {
  const auto found = workers_.find(worker);
  if (found != workers_.end()) workers_.erase(found);
}

bool Penalty::is_warm(const Statistics& known) const {
  return options_.penalty && known.taken >= options_.penalty->warmup;
}

// The highest score that is no outlier's.
double Penalty::limit() const {
  if (!options_.penalty) return 0;
  double largest = 1;
  for (const double score : window_) largest = std::max(largest, score);
  return options_.penalty->beta * largest;
}

Penalty::Statistics Penalty::newcomer() const {
  double means = 0;
  double deviations = 0;
  double count = 0;
  for (const auto& [worker, known] : workers_) {
    if (!is_warm(known)) continue;
    means += known.mean;
    deviations += std::sqrt(known.variance);
    ++count;
  }
  if (count == 0) return {};
  const double deviation = deviations / count;
  return {options_.penalty->warmup, 0, means / count, deviation * deviation};
}

// Of a push that is taken. In the warm-up Welford's running mean and variance (of a population), then the
// moving ones of section 4.1, step 2, of Di-PS.
void Penalty::measure(Statistics& known, double norm) const {
  const double before = known.mean;
  if (!is_warm(known)) {
    const auto count = static_cast<double>(known.taken + 1);
    known.mean = before + (norm - before) / count;
    known.variance += ((norm - before) * (norm - known.mean) - known.variance) / count;
  } else {
    const double alpha = options_.penalty->alpha;
    known.mean = alpha * norm + (1 - alpha) * before;
    const double away = norm - known.mean;
    known.variance = (1 - alpha) * known.variance + alpha * away * away;
  }
  // Rounding may go below 0.
  known.variance = std::max(known.variance, 0.0);
  ++known.taken;
  known.excluded = 0;
}

Penalty::Verdict Penalty::examine(Statistics& known, double norm, double limit) {
  if (!is_warm(known)) {
    measure(known, norm);
    return {Decision::kTaken, 0};
  }
  const double deviation = std::max({std::sqrt(known.variance), kLeastDeviation * known.mean, kTiny});
  const double score = (norm - known.mean) / deviation;
  if (std::isfinite(score) && score <= limit) {
    measure(known, norm);
    keep_score(score);
    return {Decision::kTaken, score};
  }
  if (++known.excluded == Ewma::kExclusionsBeforeNewStart) known = {};
  return {Decision::kOutlier, score};
}

Penalty::Verdict Penalty::verdict(const PushSummary& push, double norm, double limit,
                                  const Statistics& newcomer) {
  if (!std::isfinite(norm)) return {Decision::kNonFinite, 0};
  if (push.tokens == 0) return {Decision::kNoTokens, 0};
  if (!options_.penalty) return {Decision::kTaken, 0};
  auto found = workers_.find(push.worker);
  if (found == workers_.end() && workers_.size() < kMostWorkers)
    found = workers_.emplace(push.worker, newcomer).first;
  if (found != workers_.end()) return examine(found->second, norm, limit);
  Statistics passing = newcomer;
  return examine(passing, norm, limit);
}

void Penalty::keep_score(double score) {
  window_.push_back(score);
  while (window_.size() > options_.penalty->window) window_.pop_front();
}

}  // namespace square::ps
