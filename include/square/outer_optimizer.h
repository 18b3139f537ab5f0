// The outer optimizer: how one model is kept by what sites that train on their own push now and then.
//
// A site takes a copy of the parameters, trains alone for many steps, and pushes the way that it went: the
// pseudo-gradient, base minus result. A round takes what came within a short time. It leaves out pushes that
// look broken, averages the others by the tokens that each consumed, bounds the average's length, and does
// one step of Nesterov's method with it, as if it were a gradient. Sites need not wait for one another.
//
// It is Algorithm 1 with section 4.1 of Di-PS. Where the paper leaves a choice open, an option below names
// it. Large models are cut into shards, one a server: only norms and decisions cross between servers.
//
//     Penalty        decides which pushes a round takes; one a model, it sees norms only
//     clip_factor()  how much shorter the average becomes
//     OuterShard     a server's parameters and momentum, and the step
//     OuterOptimizer all of it in one process
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "square/status.h"

namespace square::ps {

// The step, with g the clipped average, m the momentum, and m = 0 at first:
//
//     m'     = momentum m + g
//     theta' = theta - lr (g + momentum m')
//
// Asynchronous pushes are stale, and momentum repeats a stale direction many times. A delay N above 1 is
// delayed Nesterov (Liu et al., "Asynchronous Local-SGD Training for Language Modeling", arXiv 2401.09135,
// Algorithm 3): most rounds step by their own gradient, and only every N-th one changes m. With c the
// delay_share, D = 0 at first, and rounds t = 0, 1, ...:
//
//     D += g
//     (t + 1) % N == 0:  m'     = momentum m + D / N,  then D = 0
//                        theta' = theta - lr ((1 - c N + c) momentum m' + g / N)
//     otherwise:         theta' = theta - lr (c momentum m + g / N)
struct Nesterov {
  double lr = 0.7;
  double momentum = 0.8;
  std::uint32_t delay = 1;
  // 0 has the N-th round do all of the momentum's step; 1 / N spreads it evenly over the N rounds.
  double delay_share = 0.0;

  static constexpr std::uint32_t kLongestDelay = 10'000;
};

// Which pushes are outliers, by G, the norm of a push, beside what its worker pushed before. Of each worker
// there are the moving mean mu and deviation sigma of G; a push has the score E = (G - mu) / sigma. It is an
// outlier where E is above beta times the largest score so far. Where the paper is silent:
//
//  - The first `warmup` pushes of a worker are all taken and only measured, as a plain mean and deviation. A
//    moving deviation that starts from a guess lets everything pass, or nothing.
//  - The largest score is that of the last `window` ones, and at least 1: one high score is not for ever.
//  - sigma counts as at least a thousandth of mu: a worker with steady norms is not punished for it.
//  - A worker that comes later starts with the mean of the others' mu and sigma, and without warm-up.
//  - After kExclusionsBeforeNewStart outliers in a row it is the worker's norm that has changed, and its
//    warm-up begins anew.
struct Ewma {
  double alpha = 0.02;  // weight of the newest push in mu and sigma
  double beta = 3;
  std::uint32_t warmup = 120;
  std::uint32_t window = 1024;

  static constexpr std::uint32_t kLongestWarmup = 1'000'000;
  static constexpr std::uint32_t kLargestWindow = 1'000'000;
  static constexpr std::uint32_t kExclusionsBeforeNewStart = 10;
};

// How the norms of a push's shards become one.
enum class NormAggregation : std::uint8_t {
  kRootOfSquares,  // the norm of the whole push, however many servers there are
  kSum,            // the paper's: grows with the number of servers
};

// What clipping measures: the whole average, or each shard's part by itself.
enum class ClipScope : std::uint8_t { kGlobal, kShard };

struct OuterOptions {
  Nesterov outer = {};
  // The longest average that a step is done with. Without it single pushes at the usual lr may diverge.
  std::optional<double> clip = 1.0;
  ClipScope clip_scope = ClipScope::kGlobal;
  // Without it only pushes with infinities, NaNs or no tokens are left out.
  std::optional<Ewma> penalty = Ewma{};
  NormAggregation norms = NormAggregation::kRootOfSquares;
  // A round of c pushes counts c / k where k workers live: k single rounds then go as far as one common one.
  bool divide_by_live_workers = false;
};

// Errors: INVALID_ARGUMENT with the field, its value and what may be.
Status check(const Nesterov& outer);
Status check(const OuterOptions& options);

// What the penalty needs to know of a push.
struct PushSummary {
  std::string worker;
  std::uint64_t tokens = 0;
  // Of the pseudo-gradient, one a shard, summed in float64. A NaN or an infinity where the push has one.
  std::vector<double> squared_norms;
};

enum class Decision : std::uint8_t { kTaken, kOutlier, kNonFinite, kNoTokens };
// "taken", "outlier", "non-finite", "no-tokens".
std::string_view to_string(Decision decision);

// One of each for every push, in their order.
struct Judgement {
  std::vector<Decision> decisions;
  std::vector<double> norms;    // G; not finite where the push is not
  std::vector<double> scores;   // E; 0 where there is none, as in a warm-up
  std::vector<double> weights;  // tokens over those of all that are taken; 0 where it is not taken
};

// Decides which pushes a round takes. The same calls give the same bits on every machine that computes in
// IEEE double. Not thread-safe.
class Penalty {
 public:
  static constexpr std::size_t kMostWorkers = 100'000;

  // Preconditions: check(options) is OK (SQUARE_CHECK).
  explicit Penalty(OuterOptions options);

  // The pushes of a round. Limits and a newcomer's start are those from before the round. Of two pushes of
  // one worker the second is judged after the first. Beyond kMostWorkers a new worker is judged as one, and
  // not remembered.
  Judgement judge(std::span<const PushSummary> pushes);
  // Of a worker that left: when it comes back it is new. Nothing where it is unknown.
  void forget(std::string_view worker);
  [[nodiscard]] std::size_t workers() const { return workers_.size(); }

  // The state as text; load() goes on with the same bits. Of a window longer than the options' the newest
  // scores stay. Errors: INVALID_ARGUMENT for options that check() refuses, and for what save() cannot have
  // written.
  [[nodiscard]] std::string save() const;
  static Result<Penalty> load(OuterOptions options, std::string_view text);

 private:
  struct Statistics {
    std::uint64_t taken = 0;     // pushes since the warm-up began
    std::uint32_t excluded = 0;  // outliers in a row
    double mean = 0;
    double variance = 0;
  };
  struct Verdict {
    Decision decision = Decision::kTaken;
    double score = 0;
  };

  [[nodiscard]] bool is_warm(const Statistics& known) const;
  [[nodiscard]] double limit() const;
  [[nodiscard]] Statistics newcomer() const;
  void measure(Statistics& known, double norm) const;
  Verdict examine(Statistics& known, double norm, double limit);
  Verdict verdict(const PushSummary& push, double norm, double limit, const Statistics& newcomer);
  void keep_score(double score);

  OuterOptions options_;
  std::map<std::string, Statistics, std::less<>> workers_;
  std::deque<double> window_;  // scores of pushes that were taken, the newest last
};

// The part of a step that is done where `taken` pushes came and `live` workers live: see
// divide_by_live_workers; else 1. `live` counts as at least `taken`.
double live_share(const OuterOptions& options, std::size_t taken, std::size_t live);

// What the average of `shard` is multiplied with: share * min(1, clip / (share * norm)). The norm is that of
// the whole average or of the shard's part, as clip_scope says. `share` where there is no clip or the norm is
// 0; 0 where the norm is not finite. Preconditions: shard < squared_norms.size().
double clip_factor(const OuterOptions& options, std::span<const double> squared_norms, std::size_t shard,
                   double share = 1.0);

// One server's part of the model, in float32, and its step. A round
//
//     begin();
//     update(range, average, factor) for every range once, also from several threads at once;
//     commit(the buffer of the averages), or abort()
//
// writes the new parameters beside the old ones, and the new momentum over the average. So a round that
// fails halfway has changed nothing, and four buffers are enough: two of parameters, momentum, average. A
// delay takes a fifth. Not thread-safe but for update() on ranges that do not overlap. Misuse is a
// SQUARE_CHECK.
class OuterShard {
 public:
  struct State {
    std::vector<float> parameters;
    std::vector<float> momentum;     // as many
    std::vector<float> accumulator;  // D; as many, or none where it is all zeros
    std::uint64_t rounds = 0;        // that were committed
  };

  // Momentum starts with zeros. Errors: INVALID_ARGUMENT for an `outer` that check() refuses, and for
  // parameters that are not finite.
  static Result<OuterShard> create(std::vector<float> parameters, Nesterov outer);
  // Goes on from what the accessors gave. Errors: also INVALID_ARGUMENT for sizes that differ, and for an
  // accumulator where `outer` and the rounds say that there is none.
  static Result<OuterShard> restore(State state, Nesterov outer);

  [[nodiscard]] std::span<const float> parameters() const { return state_.parameters; }
  [[nodiscard]] std::span<const float> momentum() const { return state_.momentum; }
  // Empty where it is all zeros.
  [[nodiscard]] std::span<const float> accumulator() const { return state_.accumulator; }
  [[nodiscard]] std::uint64_t rounds() const { return state_.rounds; }
  [[nodiscard]] std::size_t size() const { return state_.parameters.size(); }

  void begin();
  // Of the elements from `first` on, as many as `average` has: writes next_parameters(), and the new
  // momentum (or accumulator) to `average`. `factor` is clip_factor()'s. Every element once a round.
  void update(std::size_t first, std::span<float> average, double factor);
  // Between begin() and the end of the round: the new parameters, as far as they are written. After commit():
  // the ones before. Empty before the first begin().
  [[nodiscard]] std::span<const float> next_parameters() const { return next_; }
  // Takes the buffer that all averages were in, from the first element to the last. Returns one that is
  // free now, of size() elements or of none.
  std::vector<float> commit(std::vector<float> average);
  // Parameters, momentum and rounds are as before begin().
  void abort();

 private:
  OuterShard(State state, Nesterov outer);
  // Whether this round changes the momentum.
  [[nodiscard]] bool moves_momentum() const;

  State state_;
  Nesterov outer_;
  std::vector<float> next_;
  bool begun_ = false;
};

// What a worker pushes to a round.
struct Contribution {
  std::string worker;
  std::uint64_t tokens = 0;       // that it consumed since its last push
  std::span<const float> values;  // as many as the model has elements
};

// What a contribution's values are.
enum class Basis : std::uint8_t {
  kBase,     // the pseudo-gradient: what the worker began with, minus what it has
  kCurrent,  // Algorithm 1's: the worker's parameters, to be subtracted from the current ones
};

struct RoundReport {
  Judgement judgement;
  double norm = 0;    // of the average of what was taken, before clipping; 0 where nothing was
  double factor = 1;  // that it was multiplied with; of several, one a shard, the least
  // False where no push was taken, or their average overflows float32: the model is as before.
  bool updated = false;
};

// All of the outer optimizer in one process, for a model of one or several shards. The same calls give the
// same bits whatever the number of threads. Movable; not thread-safe.
class OuterOptimizer {
 public:
  static constexpr std::size_t kMostContributions = 4'096;
  static constexpr unsigned kMostThreads = 256;

  // `shard_sizes` in elements; none: one shard. `threads` that compute, the caller's included; 0: one a
  // processor. Errors: INVALID_ARGUMENT for options that check() refuses, no parameters or ones that are not
  // finite, shards that do not add up to them, and too many threads.
  static Result<OuterOptimizer> create(std::vector<float> parameters, OuterOptions options,
                                       const std::vector<std::size_t>& shard_sizes = {},
                                       unsigned threads = 0);
  OuterOptimizer(OuterOptimizer&&) noexcept;
  OuterOptimizer& operator=(OuterOptimizer&&) noexcept;
  ~OuterOptimizer();

  // Judges, averages and steps. Blocks until it is done. `live_workers`: see divide_by_live_workers. Errors:
  // INVALID_ARGUMENT for too many contributions and for one of another size; then nothing has changed.
  Result<RoundReport> round(std::span<const Contribution> contributions, Basis basis = Basis::kBase,
                            std::size_t live_workers = 0);
  // Of a worker that left: see Penalty.
  void forget(std::string_view worker);

  [[nodiscard]] std::size_t size() const;               // elements
  [[nodiscard]] std::uint64_t rounds() const;           // that updated the model
  [[nodiscard]] std::vector<float> parameters() const;  // a copy
  [[nodiscard]] std::vector<float> momentum() const;    // a copy

 private:
  class Rounds;
  explicit OuterOptimizer(std::unique_ptr<Rounds> rounds);

  std::unique_ptr<Rounds> rounds_;
};

}  // namespace square::ps
