// All that trees use up, as one list: links, what nodes send and receive, the budget.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "planning/exact/instance.h"
#include "planning/exact/master.h"

namespace square::planning {

// What a bit per second takes of a resource.
struct Use {
  std::size_t resource = 0;
  double part = 0.0;
};

// By number: links, then egress and ingress of nodes, then the budget. What has no limit is left out of uses.
class Resources {
 public:
  explicit Resources(const Instance& instance);

  [[nodiscard]] std::size_t count() const { return limit_.size(); }
  [[nodiscard]] double limit(std::size_t resource) const { return limit_[resource]; }

  // Of trees together, each with its links and its part; sorted, no resource twice.
  [[nodiscard]] std::vector<Use> uses(const std::vector<std::pair<std::vector<int>, double>>& trees) const;

  // Lengths by number, as the duals that they are.
  [[nodiscard]] Duals duals(const std::vector<double>& length) const;

 private:
  const Instance& instance_;
  std::vector<double> limit_;
};

}  // namespace square::planning
