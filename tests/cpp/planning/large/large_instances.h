// Collectives of all kinds among some nodes of a drawn overlay.
#pragma once

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "planning/exact/drawn_overlays.h"

namespace square::planning {

inline Scenario drawn_scenario(std::uint64_t seed, std::size_t nodes, std::size_t collectives) {
  constexpr CollectiveOp kOps[] = {CollectiveOp::kBroadcast, CollectiveOp::kBroadcast, CollectiveOp::kReduce,
                                   CollectiveOp::kAllReduce, CollectiveOp::kAllGather};
  Drawing drawing(seed);
  Scenario scenario;
  scenario.policy.name = "exact";
  std::vector<NodeId> ids = drawing.add_overlay(scenario.topology, nodes);
  for (std::size_t c = 0; c < collectives; ++c) {
    CollectiveSpec spec;
    spec.id = CollectiveId(static_cast<std::uint32_t>(c));
    spec.tenant = fmt::format("tenant {}", c);
    spec.op = kOps[drawing.below(std::size(kOps))];
    for (std::size_t k = 0; k < ids.size(); ++k) std::swap(ids[k], ids[k + drawing.below(ids.size() - k)]);
    spec.members.assign(ids.begin(), ids.begin() + 2 + static_cast<std::ptrdiff_t>(drawing.below(4)));
    spec.root = spec.members.front();
    spec.size_bytes = 1'000'000;
    spec.weight = drawing.number() < 0.5 ? 1.0 : 0.25 + drawing.number();
    scenario.tenants.push_back({spec.tenant});
    scenario.collectives.push_back(std::move(spec));
  }
  return scenario;
}

}  // namespace square::planning
