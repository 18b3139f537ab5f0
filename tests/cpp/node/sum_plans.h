// Plans and inputs of sums where something fails.
#pragma once

#include <cstdlib>
#include <memory>
#include <vector>

#include "node/sums.h"

namespace square::test {

inline std::vector<std::vector<float>> inputs_of(std::uint64_t seed, std::size_t members, std::size_t count) {
  std::mt19937_64 random(seed);
  std::vector<std::vector<float>> inputs;
  for (std::size_t i = 0; i < members; ++i) inputs.push_back(whole_floats(random, count));
  return inputs;
}

inline PlanBuilder full_mesh(std::size_t nodes, double bps = 80e6, Epoch epoch = Epoch(1)) {
  PlanBuilder builder(nodes, epoch);
  for (std::uint32_t from = 0; from < nodes; ++from) {
    for (std::uint32_t to = 0; to < nodes; ++to) {
      if (from != to) builder.add_link(from, to, bps);
    }
  }
  return builder;
}

// Of 0 to 3, over two streams each; 4 is a relay and no member.
inline std::shared_ptr<const Plan> sum_over_a_relay(bool all) {
  PlanBuilder builder = full_mesh(5, 20e6);
  if (all) {
    builder.add_all_reduce(
        {0, 1, 2, 3},
        {{0,
          3,
          {{{{1, 4}, {2, 4}, {4, 3}, {3, 0}}, 5e6}, {{{3, 2}, {2, 1}, {1, 0}}, 5e6}},
          {{{{0, 4}, {4, 1}, {4, 2}, {2, 3}}, 8e6}}},
         {2, 4, {{{{0, 1}, {1, 4}, {3, 4}, {4, 2}}, 8e6}}, {{{{2, 4}, {4, 3}, {3, 0}, {0, 1}}, 8e6}}}});
  } else {
    builder.add_reduce(0, {0, 1, 2, 3},
                       {{{{1, 4}, {2, 4}, {4, 3}, {3, 0}}, 5e6}, {{{3, 2}, {2, 1}, {1, 4}, {4, 0}}, 5e6}});
  }
  return builder.build();
}

inline std::uint64_t seeds(std::uint64_t otherwise) {
  if (std::getenv("SQUARE_SEED") != nullptr) return 1;
  const char* text = std::getenv("SQUARE_SEEDS");
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

}  // namespace square::test
