#include "planning/exact/resources.h"

#include <algorithm>
#include <cmath>

#include "planning/packing/digraph.h"

namespace square::planning {

Resources::Resources(const Instance& instance) : instance_(instance) {
  const Network& network = instance.network;
  for (const auto* limits : {&network.capacity_bps, &network.egress_bps, &network.ingress_bps})
    limit_.insert(limit_.end(), limits->begin(), limits->end());
  limit_.push_back(instance.budget_usd_per_hour.value_or(kUnreachable));
}

std::vector<Use> Resources::uses(const std::vector<std::pair<std::vector<int>, double>>& trees) const {
  std::vector<Use> all;
  const auto use = [&](std::size_t resource, double part) {
    if (std::isfinite(limit_[resource]) && part > 0.0) all.push_back({resource, part});
  };
  const std::size_t links = instance_.link_count();
  const std::size_t nodes = instance_.node_count();
  for (const auto& [tree, part] : trees) {
    for (const int link : tree) {
      const auto e = static_cast<std::size_t>(link);
      use(e, part);
      use(links + instance_.tail[e].index(), part);
      use(links + nodes + instance_.head[e].index(), part);
      use(links + 2 * nodes, part * instance_.price[e]);
    }
  }
  std::sort(all.begin(), all.end(), [](const Use& a, const Use& b) { return a.resource < b.resource; });
  std::vector<Use> merged;
  for (const Use& one : all) {
    if (merged.empty() || merged.back().resource != one.resource) merged.push_back({one.resource, 0.0});
    merged.back().part += one.part;
  }
  return merged;
}

Duals Resources::duals(const std::vector<double>& length) const {
  const auto from = length.begin();
  const auto links = static_cast<std::ptrdiff_t>(instance_.link_count());
  const auto nodes = static_cast<std::ptrdiff_t>(instance_.node_count());
  return {{from, from + links},
          {from + links, from + links + nodes},
          {from + links + nodes, from + links + 2 * nodes},
          length.back()};
}

}  // namespace square::planning
