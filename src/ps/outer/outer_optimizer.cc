#include "square/outer_optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "ps/outer/block_threads.h"
#include "ps/outer/kernels.h"

namespace square::ps {

// A block of the model.
struct ModelBlock {
  std::size_t shard = 0;
  std::size_t first = 0;     // element of the shard
  std::size_t in_model = 0;  // the same element
  std::size_t count = 0;
};

namespace {

std::vector<ModelBlock> blocks_of_shards(const std::vector<std::size_t>& sizes) {
  std::vector<ModelBlock> blocks;
  std::size_t begin = 0;
  for (std::size_t shard = 0; shard < sizes.size(); ++shard) {
    for (std::size_t first = 0; first < sizes[shard]; first += kBlockElements)
      blocks.push_back({shard, first, begin + first, std::min(kBlockElements, sizes[shard] - first)});
    begin += sizes[shard];
  }
  return blocks;
}

Status check_shard_sizes(const std::vector<std::size_t>& sizes, std::size_t parameters) {
  if (parameters == 0) return invalid_argument("an outer optimizer of no parameters");
  std::size_t left = parameters;
  for (const std::size_t size : sizes) {
    if (size == 0 || size > left) {
      return invalid_argument(
          fmt::format("a shard of {} elements where {} of {} parameters are left: use sizes "
                      "above 0 that add up to all",
                      size, left, parameters));
    }
    left -= size;
  }
  if (left == 0) return Status::ok();
  return invalid_argument(fmt::format("shards of {} elements for {} parameters: use sizes that add up to all",
                                      parameters - left, parameters));
}

// The norm of every shard of one push, from those of its blocks.
std::vector<double> by_shard(const std::vector<ModelBlock>& blocks, std::span<const NormOf> norms,
                             std::size_t shards) {
  std::vector<double> squared(shards);
  for (std::size_t i = 0; i < blocks.size(); ++i) squared[blocks[i].shard] += norms[i].squared;
  return squared;
}

}  // namespace

class OuterOptimizer::Rounds {
 public:
  Rounds(OuterOptions options, std::vector<OuterShard> shards, const std::vector<std::size_t>& sizes,
         unsigned threads)
      : options_(options),
        penalty_(std::move(options)),
        shards_(std::move(shards)),
        blocks_(blocks_of_shards(sizes)),
        averages_(sizes.size()),
        threads_(threads, kMostThreads) {}

  RoundReport round(std::span<const Contribution> contributions, Basis basis, std::size_t live);
  [[nodiscard]] std::vector<float> all(std::span<const float> (OuterShard::*part)() const) const;
  [[nodiscard]] const OuterShard& first_shard() const { return shards_.front(); }
  [[nodiscard]] std::size_t size() const { return blocks_.back().in_model + blocks_.back().count; }
  Penalty& penalty() { return penalty_; }

 private:
  std::vector<PushSummary> summaries(std::span<const Contribution> contributions, Basis basis);
  // Into averages_. Returns the squared norms of the shards.
  std::vector<double> average(std::span<const Contribution> contributions, Basis basis,
                              const std::vector<double>& weights);
  void step(const std::vector<double>& factors);
  [[nodiscard]] std::span<const float> current(const ModelBlock& block) const {
    return shards_[block.shard].parameters().subspan(block.first, block.count);
  }
  std::span<float> average_of(const ModelBlock& block) {
    return std::span(averages_[block.shard]).subspan(block.first, block.count);
  }

  OuterOptions options_;
  Penalty penalty_;
  std::vector<OuterShard> shards_;
  std::vector<ModelBlock> blocks_;
  std::vector<std::vector<float>> averages_;  // one a shard; between rounds free memory
  BlockThreads threads_;
};

std::vector<PushSummary> OuterOptimizer::Rounds::summaries(std::span<const Contribution> contributions,
                                                           Basis basis) {
  const std::size_t blocks = blocks_.size();
  std::vector<NormOf> norms(contributions.size() * blocks);
  threads_.each(blocks, [&](std::size_t i) {
    const ModelBlock& block = blocks_[i];
    for (std::size_t push = 0; push < contributions.size(); ++push) {
      const std::span<const float> values = contributions[push].values.subspan(block.in_model, block.count);
      norms[push * blocks + i] =
          basis == Basis::kBase ? squared_norm(values) : squared_norm_of_difference(current(block), values);
    }
  });
  std::vector<PushSummary> all;
  for (std::size_t push = 0; push < contributions.size(); ++push) {
    const std::span<const NormOf> own = std::span(norms).subspan(push * blocks, blocks);
    all.push_back(
        {contributions[push].worker, contributions[push].tokens, by_shard(blocks_, own, shards_.size())});
  }
  return all;
}

std::vector<double> OuterOptimizer::Rounds::average(std::span<const Contribution> contributions, Basis basis,
                                                    const std::vector<double>& weights) {
  for (std::size_t shard = 0; shard < shards_.size(); ++shard) averages_[shard].resize(shards_[shard].size());
  std::vector<NormOf> norms(blocks_.size());
  threads_.each(blocks_.size(), [&](std::size_t i) {
    const ModelBlock& block = blocks_[i];
    const std::span<float> sum = average_of(block);
    bool first = true;
    for (std::size_t push = 0; push < contributions.size(); ++push) {
      if (weights[push] == 0) continue;
      const std::span<const float> values = contributions[push].values.subspan(block.in_model, block.count);
      const auto weight = static_cast<float>(weights[push]);
      if (basis == Basis::kBase) {
        add_weighted(sum, values, weight, first);
      } else {
        add_weighted_difference(sum, current(block), values, weight, first);
      }
      first = false;
    }
    norms[i] = squared_norm(sum);
  });
  return by_shard(blocks_, norms, shards_.size());
}

void OuterOptimizer::Rounds::step(const std::vector<double>& factors) {
  for (OuterShard& shard : shards_) shard.begin();
  threads_.each(blocks_.size(), [&](std::size_t i) {
    const ModelBlock& block = blocks_[i];
    shards_[block.shard].update(block.first, average_of(block), factors[block.shard]);
  });
  for (std::size_t shard = 0; shard < shards_.size(); ++shard)
    averages_[shard] = shards_[shard].commit(std::move(averages_[shard]));
}

RoundReport OuterOptimizer::Rounds::round(std::span<const Contribution> contributions, Basis basis,
                                          std::size_t live) {
  RoundReport report;
  report.judgement = penalty_.judge(summaries(contributions, basis));
  const std::vector<Decision>& decisions = report.judgement.decisions;
  const auto taken =
      static_cast<std::size_t>(std::count(decisions.begin(), decisions.end(), Decision::kTaken));
  if (taken == 0) return report;
  const std::vector<double> squared = average(contributions, basis, report.judgement.weights);
  double sum = 0;
  for (const double one : squared) sum += one;
  report.norm = std::sqrt(sum);
  if (!std::isfinite(report.norm)) return report;
  const double share = live_share(options_, taken, live);
  std::vector<double> factors;
  for (std::size_t shard = 0; shard < shards_.size(); ++shard)
    factors.push_back(clip_factor(options_, squared, shard, share));
  report.factor = *std::min_element(factors.begin(), factors.end());
  step(factors);
  report.updated = true;
  return report;
}

std::vector<float> OuterOptimizer::Rounds::all(std::span<const float> (OuterShard::*part)() const) const {
  std::vector<float> values;
  values.reserve(size());
  for (const OuterShard& shard : shards_) {
    const std::span<const float> own = (shard.*part)();
    values.insert(values.end(), own.begin(), own.end());
  }
  return values;
}

Result<OuterOptimizer> OuterOptimizer::create(std::vector<float> parameters, OuterOptions options,
                                              const std::vector<std::size_t>& shard_sizes, unsigned threads) {
  SQUARE_RETURN_IF_ERROR(check(options));
  const std::vector<std::size_t> sizes =
      shard_sizes.empty() ? std::vector<std::size_t>{parameters.size()} : shard_sizes;
  SQUARE_RETURN_IF_ERROR(check_shard_sizes(sizes, parameters.size()));
  if (threads > kMostThreads)
    return invalid_argument(
        fmt::format("an outer optimizer with {} threads: use 0 to {}", threads, kMostThreads));
  std::vector<OuterShard> shards;
  std::size_t begin = 0;
  for (const std::size_t size : sizes) {
    const std::span<const float> part = std::span(parameters).subspan(begin, size);
    std::vector<float> own =
        sizes.size() == 1 ? std::move(parameters) : std::vector<float>(part.begin(), part.end());
    SQUARE_ASSIGN_OR_RETURN(OuterShard shard, OuterShard::create(std::move(own), options.outer));
    shards.push_back(std::move(shard));
    begin += size;
  }
  return OuterOptimizer(std::make_unique<Rounds>(std::move(options), std::move(shards), sizes, threads));
}

OuterOptimizer::OuterOptimizer(std::unique_ptr<Rounds> rounds) : rounds_(std::move(rounds)) {}
OuterOptimizer::OuterOptimizer(OuterOptimizer&&) noexcept = default;
OuterOptimizer& OuterOptimizer::operator=(OuterOptimizer&&) noexcept = default;
OuterOptimizer::~OuterOptimizer() = default;

Result<RoundReport> OuterOptimizer::round(std::span<const Contribution> contributions, Basis basis,
                                          std::size_t live_workers) {
  if (contributions.size() > kMostContributions) {
    return invalid_argument(
        fmt::format("{} contributions to a round: at most {}", contributions.size(), kMostContributions));
  }
  for (const Contribution& one : contributions) {
    if (one.values.size() == size()) continue;
    return invalid_argument(fmt::format("{} elements from worker \"{}\" for a model of {}", one.values.size(),
                                        one.worker, size()));
  }
  return rounds_->round(contributions, basis, live_workers);
}

void OuterOptimizer::forget(std::string_view worker) { rounds_->penalty().forget(worker); }
std::size_t OuterOptimizer::size() const { return rounds_->size(); }
std::uint64_t OuterOptimizer::rounds() const { return rounds_->first_shard().rounds(); }
std::vector<float> OuterOptimizer::parameters() const { return rounds_->all(&OuterShard::parameters); }
std::vector<float> OuterOptimizer::momentum() const { return rounds_->all(&OuterShard::momentum); }

}  // namespace square::ps
