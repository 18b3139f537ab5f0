// Random capacities that are the same on every machine.
#include <fmt/format.h>

#include <cmath>
#include <random>

#include "square/topology.h"

namespace square {
namespace {

// A draw below this share of the mean is drawn again.
constexpr double kSmallestShare = 0.01;

// The next number of [0, 1) from the upper 53 bits, so that it is exact.
double next_uniform(std::mt19937_64& generator) { return static_cast<double>(generator() >> 11U) * 0x1p-53; }

// A standard normal draw by the ratio of uniforms (Kinderman, Monahan 1977). The C++ standard
// leaves std::normal_distribution open. Here the logarithm only decides whether a draw
// counts, so its last bit, which differs between libraries, never enters a value.
double next_normal(std::mt19937_64& generator) {
  constexpr double kSpread = 1.7155277699214135;  // sqrt(8 / e)
  for (;;) {
    const double u = 1.0 - next_uniform(generator);  // never 0
    const double x = kSpread * (next_uniform(generator) - 0.5) / u;
    if (x * x <= -4.0 * std::log(u)) return x;
  }
}

}  // namespace

Status draw_capacities(Topology& topology, double mean_bps, double stddev_bps, std::uint64_t seed,
                       bool only_unlimited) {
  if (!std::isfinite(mean_bps) || mean_bps <= 0) {
    return invalid_argument(
        fmt::format("mean must be above 0 and finite, not {} Mbit/s", bps_to_mbps(mean_bps)));
  }
  if (!std::isfinite(stddev_bps) || stddev_bps < 0 || stddev_bps > mean_bps) {
    return invalid_argument(fmt::format("stddev must be from 0 to the mean, {} Mbit/s, not {}",
                                        bps_to_mbps(mean_bps), bps_to_mbps(stddev_bps)));
  }
  std::mt19937_64 generator(seed);
  for (std::uint32_t index = 0; index < topology.link_count(); ++index) {
    const LinkId link(index);
    if (only_unlimited && !std::isinf(topology.link(link).properties.capacity_bps)) continue;
    double capacity_bps = 0;
    do {
      capacity_bps = mean_bps + stddev_bps * next_normal(generator);
    } while (capacity_bps < kSmallestShare * mean_bps);
    if (Status status = topology.set_capacity(link, capacity_bps); !status.is_ok()) return status;
  }
  return {};
}

}  // namespace square
