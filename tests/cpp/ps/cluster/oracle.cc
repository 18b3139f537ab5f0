// What nobody may see of a cluster.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "ps/cluster/cluster.h"

namespace square::test {
namespace {

// Beside the grace period, the time of a push and of a pull over a slow line, and of a slow disk.
constexpr Duration kLongestStop = std::chrono::milliseconds(2000);
constexpr Duration kSlowestDisk = std::chrono::seconds(2);

// The outer step in float64: Nesterov with a delay of 1, global clipping.
struct Replay {
  std::vector<double> parameters;
  std::vector<double> momentum;

  void step(const std::vector<double>& average, const ps::OuterOptions& options) {
    double squared = 0;
    for (const double value : average) squared += value * value;
    const double norm = std::sqrt(squared);
    const double factor = options.clip && norm > *options.clip ? *options.clip / norm : 1;
    for (std::size_t i = 0; i < average.size(); ++i) {
      const double gradient = factor * average[i];
      momentum[i] = options.outer.momentum * momentum[i] + gradient;
      parameters[i] -= options.outer.lr * (gradient + options.outer.momentum * momentum[i]);
    }
  }
};

// That a push of this round counts for: a token a chunk was trained on.
std::uint64_t most_tokens(const v1::PsRecord& record) {
  std::vector<std::uint64_t> tokens;
  for (const v1::PsPushed& pushed : record.pushes()) {
    tokens.push_back(static_cast<std::uint64_t>(pushed.chunks_size()));
  }
  std::ranges::sort(tokens);
  return tokens.empty() ? 0 : ps::kMostTimesMedian * tokens[(tokens.size() - 1) / 2];
}

}  // namespace

std::vector<std::string> Cluster::complaints() {
  look_at_commits();
  check_lost();
  check_adopted();
  check_chunks();
  check_void_pushes();
  check_replay();
  check_stops();
  return complaints_;
}

void Cluster::check_lost() {
  std::uint64_t expected = 1;
  for (const auto& [version, what] : versions_) {
    if (version != expected++) complain(fmt::format("version {} follows {}", version, expected - 2));
  }
}

void Cluster::check_adopted() {
  for (std::size_t i = 0; i < logs_.size(); ++i) {
    for (const auto& [version, parameters] : logs_[i].adopted) {
      const auto found = versions_.find(version);
      if (found == versions_.end()) {
        complain(fmt::format("{} adopted version {}, which does not count", worker_name(i), version));
      } else if (found->second.parameters != parameters) {
        complain(fmt::format("{} adopted version {} with other parameters than the servers'", worker_name(i),
                             version));
      }
    }
  }
}

// In the pushes that count there is the mark of every chunk just once, unless its push was left out.
void Cluster::check_chunks() {
  std::vector<int> counted(shape_.chunks);
  std::vector<double> marks(shape_.chunks);
  std::vector<bool> is_left_out(shape_.chunks);
  std::uint64_t tokens = 0;
  for (const auto& [version, what] : versions_) {
    const std::uint64_t most = most_tokens(what.record);
    for (const v1::PsPushed& pushed : what.record.pushes()) {
      const bool is_taken = pushed.decision() == static_cast<std::uint32_t>(ps::Decision::kTaken);
      tokens += pushed.tokens();
      if (pushed.tokens() != std::min(static_cast<std::uint64_t>(pushed.chunks_size()), most)) {
        complain(fmt::format("a push of {} chunks has {} tokens", pushed.chunks_size(), pushed.tokens()));
      }
      for (const std::uint64_t chunk : pushed.chunks()) {
        ++counted[chunk];
        if (!is_taken) is_left_out[chunk] = true;
      }
      const std::size_t worker = std::stoul(pushed.worker().substr(6));
      const std::vector<float>& delta = logs_[worker].pushed.at({pushed.incarnation(), pushed.number()});
      for (std::size_t i = 0; is_taken && i < delta.size(); ++i) marks[i] += delta[i];
    }
  }
  for (std::size_t chunk = 0; chunk < shape_.chunks; ++chunk) {
    if (counted[chunk] != 1) complain(fmt::format("chunk {} was counted {} times", chunk, counted[chunk]));
    const double expected = is_left_out[chunk] ? 0 : Trainer::kMark;
    if (std::abs(marks[chunk] - expected) > 1e-4) {
      complain(fmt::format("the work on chunk {} is in the versions with {}, not {}", chunk, marks[chunk],
                           expected));
    }
  }
  if (!versions_.empty() && tokens != versions_.rbegin()->second.record.tokens()) {
    complain(
        fmt::format("{} tokens were counted, {} pushed", versions_.rbegin()->second.record.tokens(), tokens));
  }
}

// A worker that was told so carries the work on, or drops it.
void Cluster::check_void_pushes() {
  for (const auto& [version, what] : versions_) {
    for (const v1::PsPushed& pushed : what.record.pushes()) {
      const std::size_t worker = std::stoul(pushed.worker().substr(6));
      if (!logs_[worker].void_pushes.contains({pushed.incarnation(), pushed.number()})) continue;
      complain(fmt::format("{} was told that its push {} does not count, and version {} has it",
                           pushed.worker(), pushed.number(), version));
    }
  }
}

void Cluster::check_replay() {
  if (versions_.empty()) return;
  Replay replay{{versions_.begin()->second.parameters.begin(), versions_.begin()->second.parameters.end()},
                std::vector<double>(shape_.chunks)};
  for (const auto& [version, what] : versions_) {
    std::vector<double> average(shape_.chunks);
    std::uint64_t tokens = 0;
    for (const v1::PsPushed& pushed : what.record.pushes()) {
      if (pushed.decision() != static_cast<std::uint32_t>(ps::Decision::kTaken)) continue;
      const std::size_t worker = std::stoul(pushed.worker().substr(6));
      const std::vector<float>& delta = logs_[worker].pushed.at({pushed.incarnation(), pushed.number()});
      for (std::size_t i = 0; i < delta.size(); ++i) {
        average[i] += static_cast<double>(pushed.tokens()) * delta[i];
      }
      tokens += pushed.tokens();
    }
    for (double& value : average) value /= static_cast<double>(std::max<std::uint64_t>(tokens, 1));
    if (tokens > 0) replay.step(average, shape_.settings.outer);
    for (std::size_t i = 0; i < shape_.chunks; ++i) {
      if (std::abs(replay.parameters[i] - what.parameters[i]) < 1e-4) continue;
      complain(fmt::format("version {} has {} at {}, a replay of the log {}", version, what.parameters[i], i,
                           replay.parameters[i]));
      return;
    }
  }
}

void Cluster::check_stops() {
  if (shape_.shared_link > 0) return;  // how long moves take depends on the others'
  const Duration moves = from_seconds(2 * static_cast<double>(shape_.chunks) / kSlowRate);
  const Duration limit = kLongestStop + kSlowestDisk + moves + shape_.settings.grace.value_or(Duration(0));
  for (std::size_t i = 0; i < logs_.size(); ++i) {
    if (logs_[i].longest_stop <= limit) continue;
    complain(fmt::format("{} stood still for {:.2f} s", worker_name(i), to_seconds(logs_[i].longest_stop)));
  }
}

}  // namespace square::test
