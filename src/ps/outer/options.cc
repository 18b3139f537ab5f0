#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "square/outer_optimizer.h"

namespace square::ps {
namespace {

template <typename Value>
Status refuse_option(std::string_view field, Value value, std::string_view what_may_be) {
  return invalid_argument(fmt::format("an outer optimizer's {} of {}: use {}", field, value, what_may_be));
}

// False for NaNs, too.
bool is_positive(double value) { return std::isfinite(value) && value > 0; }

Status check_ewma(const Ewma& penalty) {
  if (!(penalty.alpha > 0 && penalty.alpha <= 1))
    return refuse_option("penalty alpha", penalty.alpha, "one above 0, at most 1");
  if (!is_positive(penalty.beta)) return refuse_option("penalty beta", penalty.beta, "a finite one above 0");
  if (penalty.warmup < 1 || penalty.warmup > Ewma::kLongestWarmup)
    return refuse_option("penalty warmup", penalty.warmup, fmt::format("1 to {}", Ewma::kLongestWarmup));
  if (penalty.window < 1 || penalty.window > Ewma::kLargestWindow)
    return refuse_option("penalty window", penalty.window, fmt::format("1 to {}", Ewma::kLargestWindow));
  return Status::ok();
}

}  // namespace

Status check(const Nesterov& outer) {
  if (!is_positive(outer.lr)) return refuse_option("lr", outer.lr, "a finite one above 0");
  if (!(outer.momentum >= 0 && outer.momentum < 1))
    return refuse_option("momentum", outer.momentum, "one from 0 on, below 1");
  if (outer.delay < 1 || outer.delay > Nesterov::kLongestDelay)
    return refuse_option("delay", outer.delay, fmt::format("1 to {}", Nesterov::kLongestDelay));
  if (!(outer.delay_share >= 0 && outer.delay_share <= 1.0 / outer.delay)) {
    return refuse_option("delay_share", outer.delay_share,
                         fmt::format("0 to 1/{}, as the delay is {}", outer.delay, outer.delay));
  }
  return Status::ok();
}

Status check(const OuterOptions& options) {
  SQUARE_RETURN_IF_ERROR(check(options.outer));
  if (options.clip && !is_positive(*options.clip))
    return refuse_option("clip", *options.clip, "a finite one above 0, or none");
  if (options.clip_scope != ClipScope::kGlobal && options.clip_scope != ClipScope::kShard)
    return refuse_option("clip_scope", static_cast<unsigned>(options.clip_scope), "global or shard");
  if (options.norms != NormAggregation::kRootOfSquares && options.norms != NormAggregation::kSum)
    return refuse_option("norms", static_cast<unsigned>(options.norms), "root of squares or sum");
  return options.penalty ? check_ewma(*options.penalty) : Status::ok();
}

std::string_view to_string(Decision decision) {
  switch (decision) {
    case Decision::kTaken: return "taken";
    case Decision::kOutlier: return "outlier";
    case Decision::kNonFinite: return "non-finite";
    case Decision::kNoTokens: return "no-tokens";
  }
  return "unknown";
}

double live_share(const OuterOptions& options, std::size_t taken, std::size_t live) {
  if (!options.divide_by_live_workers || taken >= live) return 1.0;
  return static_cast<double>(taken) / static_cast<double>(live);
}

double clip_factor(const OuterOptions& options, std::span<const double> squared_norms, std::size_t shard,
                   double share) {
  SQUARE_CHECK(shard < squared_norms.size(), "no such shard");
  const double squared = options.clip_scope == ClipScope::kShard
                             ? squared_norms[shard]
                             : std::accumulate(squared_norms.begin(), squared_norms.end(), 0.0);
  if (!std::isfinite(squared)) return 0.0;
  if (!options.clip || squared <= 0) return share;
  return std::min(share, *options.clip / std::sqrt(squared));
}

}  // namespace square::ps
