#include "planning/scales.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "planning/problem/problem.h"
#include "topology/text.h"

namespace square::planning {
namespace {

// A figure and whose it is.
struct Figure {
  double value = 0.0;
  std::string owner;
};

// The smallest and the largest of some figures.
class Range {
 public:
  // `owner()` names the owner.
  template <typename Owner>
  void add(double value, Owner owner) {
    if (!std::isfinite(value) || !(value > 0.0)) return;
    if (least_.owner.empty() || value < least_.value) least_ = {value, owner()};
    if (most_.owner.empty() || value > most_.value) most_ = {value, owner()};
  }
  [[nodiscard]] bool is_too_wide() const {
    return !least_.owner.empty() && least_.value / most_.value < kNothingMeasurable;
  }
  [[nodiscard]] const Figure& least() const { return least_; }
  [[nodiscard]] const Figure& most() const { return most_; }
  [[nodiscard]] double orders() const { return std::log10(most_.value) - std::log10(least_.value); }

 private:
  Figure least_;
  Figure most_;
};

Range capacities_of(const Topology& topology) {
  Range range;
  for (std::uint32_t e = 0; e < topology.link_count(); ++e) {
    const TopologyLink& link = topology.link(LinkId(e));
    range.add(link.properties.capacity_bps, [&] {
      return fmt::format("the link \"{}\" -> \"{}\"", excerpt(topology.node(link.from).name),
                         excerpt(topology.node(link.to).name));
    });
  }
  for (std::uint32_t v = 0; v < topology.node_count(); ++v) {
    const TopologyNode& node = topology.node(NodeId(v));
    range.add(node.egress_bps, [&] { return quoted("the egress limit of", node.name); });
    range.add(node.ingress_bps, [&] { return quoted("the ingress limit of", node.name); });
  }
  return range;
}

Range weights_of(const Scenario& scenario) {
  Range range;
  const std::vector<double> weights = collective_weights(scenario);
  for (std::size_t c = 0; c < weights.size(); ++c) {
    const CollectiveSpec& collective = scenario.collectives[c];
    range.add(weights[c], [&] {
      return fmt::format("collective {} of the tenant \"{}\"", collective.id.value(),
                         excerpt(collective.tenant));
    });
  }
  return range;
}

}  // namespace

std::optional<Scenario> without_unmeasurable(const Scenario& scenario) {
  double fastest = 0.0;
  const Topology& topology = scenario.topology;
  for (std::uint32_t e = 0; e < topology.link_count(); ++e) {
    const double capacity = topology.link(LinkId(e)).properties.capacity_bps;
    if (std::isfinite(capacity)) fastest = std::max(fastest, capacity);
  }
  Scenario changed = scenario;
  std::vector<LinkId>& avoided = changed.policy.avoid_links;
  for (std::uint32_t e = 0; e < topology.link_count(); ++e) {
    if (topology.link(LinkId(e)).properties.capacity_bps >= kNothingMeasurable * fastest) continue;
    if (std::ranges::find(avoided, LinkId(e)) == avoided.end()) avoided.push_back(LinkId(e));
  }
  if (avoided.size() == scenario.policy.avoid_links.size()) return std::nullopt;
  return changed;
}

bool is_out_of_reach(const Scenario& scenario, const Status& status) {
  if (status.code() == StatusCode::kInternal) return true;
  return status.code() == StatusCode::kInvalidArgument &&
         (capacities_of(scenario.topology).is_too_wide() || weights_of(scenario).is_too_wide());
}

Status with_scales(const Scenario& scenario, const Status& status) {
  const Range capacities = capacities_of(scenario.topology);
  if (capacities.is_too_wide()) {
    return invalid_argument(fmt::format(
        "capacities are too far apart to plan with: {} has {:.3g} Mbit/s and {} has {:.3g} Mbit/s, {:.0f} "
        "orders of magnitude. Correct the unit of one, or leave it out ({})",
        capacities.least().owner, bps_to_mbps(capacities.least().value), capacities.most().owner,
        bps_to_mbps(capacities.most().value), capacities.orders(), status.message()));
  }
  const Range weights = weights_of(scenario);
  if (weights.is_too_wide()) {
    return invalid_argument(fmt::format(
        "weights are too far apart to plan with: {} weighs {:.3g} and {} weighs {:.3g}, {:.0f} orders of "
        "magnitude. Give weights within a factor of 10^9 ({})",
        weights.least().owner, weights.least().value, weights.most().owner, weights.most().value,
        weights.orders(), status.message()));
  }
  return status;
}

}  // namespace square::planning
