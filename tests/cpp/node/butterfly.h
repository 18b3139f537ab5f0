// The butterfly of seven nodes, whose node 3 adds what two links bring for one.
#pragma once

#include <cstring>
#include <vector>

#include "node/overlay.h"

namespace square::test {

inline constexpr std::size_t kNodes = 7;

inline std::shared_ptr<const Plan> butterfly_plan(double link_bps, FieldKind field = FieldKind::kGf256,
                                                  Epoch epoch = Epoch(1)) {
  PlanBuilder builder(kNodes, epoch);
  builder.add_butterfly(link_bps, field);
  return builder.build();
}

inline std::vector<std::byte> bytes_of(const std::vector<float>& numbers) {
  std::vector<std::byte> bytes(4 * numbers.size());
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

}  // namespace square::test
