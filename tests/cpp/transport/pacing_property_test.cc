// Random flows over random links, against what design.md promises of a link's schedule.
// SQUARE_SEED reruns one; SQUARE_SEEDS sets how many.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "transport/pacing/link_scheduler.h"
#include "transport/pacing/pacer.h"

using namespace square;

namespace {

constexpr double kMinFrameBits = 66'000;
constexpr double kMaxLateSeconds = 0.06;
constexpr double kBurstFactor = 1.05;

struct Source {
  FlowId id;
  std::size_t tenant = 0;
  double guarantee_bps = 0;
  std::deque<double> queue;
  // Reference: the virtual clock, one number a flow. A frame that comes to the head at t is
  // through by max(t, the deadline before it) + its bits / guarantee, and one block later.
  TimePoint deadline{};
  double served_bits = 0;
  bool saturated = false;  // always has a frame
  bool rests = false;      // gets none, in a quiet run
};

struct Sent {
  TimePoint at;
  double bits;
};

class Link {
 public:
  explicit Link(std::uint64_t seed) : random_(seed) {
    capacity_bps_ = 5e6 + 95e6 * uniform();
    max_frame_bits_ = kMinFrameBits + capacity_bps_ * 0.01 * uniform();
    pacer_.set_rate(capacity_bps_, TimePoint{});
    const std::size_t tenants = 1 + below(4);
    for (std::size_t t = 0; t < tenants; ++t) weights_.push_back(1.0 + static_cast<double>(below(4)));
    const std::size_t flows = tenants + below(60);
    std::vector<double> parts;
    for (std::size_t f = 0; f < flows; ++f) parts.push_back(below(5) == 0 ? 0.0 : uniform());
    const double total = std::max(1e-9, std::accumulate(parts.begin(), parts.end(), 0.0));
    const double promised = capacity_bps_ * uniform();
    for (std::size_t f = 0; f < flows; ++f) {
      Source source;
      source.tenant = f < tenants ? f : below(tenants);
      source.guarantee_bps = promised * parts[f] / total;
      source.id = scheduler_.add_flow(
          {std::to_string(source.tenant), weights_[source.tenant], source.guarantee_bps, 0.5 + uniform()});
      sources_.push_back(std::move(source));
    }
  }

  // Frames come and go; some flows always have one.
  void run_random(double seconds) {
    for (Source& source : sources_) source.saturated = below(3) == 0;
    run(seconds, true);
  }

  // Every flow always has a frame, timers are exact: tenants' shares can be told.
  void check_shares() {
    for (Source& source : sources_) source.saturated = true;
    run(2, false);  // what was left over is gone
    for (Source& source : sources_) source.served_bits = 0;
    const TimePoint begin = now_;
    run(20, false);
    const double seconds = to_seconds(now_ - begin);
    double guaranteed = 0;
    double weight = 0;
    for (const Source& source : sources_) guaranteed += source.guarantee_bps;
    for (const double w : weights_) weight += w;
    for (std::size_t t = 0; t < weights_.size(); ++t) {
      double served = 0;
      double expected = (capacity_bps_ - guaranteed) * seconds * weights_[t] / weight;
      double flows = 0;
      for (const Source& source : sources_) {
        if (source.tenant != t) continue;
        served += source.served_bits;
        expected += source.guarantee_bps * seconds;
        ++flows;
      }
      CAPTURE(t);
      CHECK(std::abs(served - expected) <=
            (static_cast<double>(sources_.size()) + 2 * flows + 2) * max_frame_bits_);
    }
  }

  // Some flows rest, all others always have a frame: a tenant with data has the guarantees of
  // all of its flows, each flow its own, and what remains goes to tenants by weight.
  void check_loans() {
    for (Source& source : sources_) {
      source.rests = below(2) == 0;
      if (!source.rests) continue;
      source.queue.clear();
      show_head(source);
    }
    run(10, false);  // what was left over is gone
    for (Source& source : sources_) source.served_bits = 0;
    const TimePoint begin = now_;
    run(20, false);
    const double seconds = to_seconds(now_ - begin);
    double rest_bps = capacity_bps_;
    double weight = 0;
    std::vector<double> guaranteed_bps(weights_.size(), 0.0);
    std::vector<bool> has_data(weights_.size(), false);
    for (const Source& source : sources_) {
      guaranteed_bps[source.tenant] += source.guarantee_bps;
      if (!source.rests) has_data[source.tenant] = true;
    }
    for (std::size_t t = 0; t < weights_.size(); ++t) {
      if (!has_data[t]) continue;
      rest_bps -= guaranteed_bps[t];
      weight += weights_[t];
    }
    const double slack = 3 * static_cast<double>(sources_.size() + 2) * max_frame_bits_;
    for (std::size_t t = 0; t < weights_.size(); ++t) {
      CAPTURE(t);
      double served = 0;
      for (const Source& source : sources_) {
        if (source.tenant != t || source.rests) continue;
        served += source.served_bits;
        CHECK(source.served_bits >= source.guarantee_bps * seconds - slack);
      }
      const double expected = has_data[t] ? guaranteed_bps[t] + rest_bps * weights_[t] / weight : 0.0;
      CHECK(std::abs(served - expected * seconds) <= slack);
    }
    for (Source& source : sources_) source.rests = false;
  }

  void check_bursts() const {
    std::size_t first = 0;
    double window_bits = 0;
    double most = 0;
    for (const Sent& sent : log_) {
      window_bits += sent.bits;
      while (sent.at - log_[first].at >= std::chrono::seconds(1)) window_bits -= log_[first++].bits;
      most = std::max(most, window_bits);
    }
    CHECK(most <= kBurstFactor * capacity_bps_ + max_frame_bits_);
  }

 private:
  double uniform() { return static_cast<double>(random_() >> 11U) * 0x1.0p-53; }
  std::size_t below(std::size_t end) { return static_cast<std::size_t>(random_() % end); }

  void put(Source& source) {
    const double bits = kMinFrameBits + (max_frame_bits_ - kMinFrameBits) * uniform();
    source.queue.push_back(bits);
    if (source.queue.size() == 1) show_head(source);
  }

  void show_head(Source& source) {
    if (source.queue.empty()) return scheduler_.set_head(source.id, std::nullopt, now_);
    scheduler_.set_head(source.id, source.queue.front(), now_);
    if (source.guarantee_bps <= 0) return;
    source.deadline = std::max(source.deadline, now_) +
                      from_seconds(std::min(3600.0, source.queue.front() / source.guarantee_bps));
  }

  void arrivals() {
    for (Source& source : sources_) {
      if (source.saturated && source.queue.empty()) put(source);
    }
    if (below(4) == 0) {
      Source& source = sources_[below(sources_.size())];
      for (std::size_t burst = below(6); burst > 0; --burst) put(source);
    }
  }

  void run(double seconds, bool noisy) {
    const TimePoint end = now_ + from_seconds(seconds);
    bool backlogged = false;
    while (now_ < end) {
      if (noisy) {
        arrivals();
      } else {
        for (Source& source : sources_) {
          if (source.queue.empty() && !source.rests) put(source);
        }
      }
      const bool any = std::ranges::any_of(sources_, [](const Source& s) { return !s.queue.empty(); });
      const auto picked = scheduler_.pick(now_);
      REQUIRE(picked.has_value() == any);  // work conserving
      if (!picked) {
        if (std::exchange(backlogged, false)) pacer_.end();
        now_ += std::chrono::milliseconds(below(30));
        continue;
      }
      if (!std::exchange(backlogged, true)) pacer_.begin(now_);
      if (pacer_.ready_at() > now_) {
        // Timers are late now and then, once by more than may be caught up.
        const double late = noisy && below(50) == 0 ? kMaxLateSeconds * uniform() : 0.0;
        now_ = pacer_.ready_at() + from_seconds(late);
        late_seconds_ += late;
        if (late > 0) {
          // Lateness of the timer is not the schedule's.
          for (Source& source : sources_) source.deadline += from_seconds(late);
        }
        continue;
      }
      transmit(*picked);
    }
    if (backlogged) pacer_.end();
  }

  void transmit(FlowId id) {
    Source& source = *std::ranges::find(sources_, id, &Source::id);
    const double bits = source.queue.front();
    source.queue.pop_front();
    scheduler_.charge(id, now_);
    pacer_.charge(bits, now_);
    log_.push_back({now_, bits});
    source.served_bits += bits;
    if (source.guarantee_bps > 0) {
      const Duration one_block = from_seconds(2 * max_frame_bits_ / capacity_bps_);
      if (now_ > source.deadline + one_block) {
        FAIL_CHECK("flow ", id.value(), " was ", to_seconds(now_ - source.deadline), " s late");
      }
    }
    show_head(source);
  }

  std::mt19937_64 random_;
  LinkScheduler scheduler_;
  Pacer pacer_{1};
  double capacity_bps_ = 0;
  double max_frame_bits_ = 0;
  double late_seconds_ = 0;
  std::vector<double> weights_;
  std::vector<Source> sources_;
  std::vector<Sent> log_;
  TimePoint now_ = TimePoint{} + std::chrono::seconds(1'000);
};

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

}  // namespace

TEST_CASE(
    "random flows: guarantees within a block, nothing idle, even shares, loans at home, bounded bursts") {
  const std::uint64_t first = from_environment("SQUARE_SEED", 1);
  const std::uint64_t count = std::getenv("SQUARE_SEED") != nullptr
                                  ? 1
                                  : std::min<std::uint64_t>(1'000, from_environment("SQUARE_SEEDS", 100));
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    CAPTURE(seed);
    INFO("rerun with SQUARE_SEED=", seed);
    Link link(seed);
    link.run_random(10);
    link.check_loans();
    link.check_shares();
    link.check_bursts();
  }
}
