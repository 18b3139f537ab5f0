#include "planning/exact/master_layout.h"

#include <cmath>

namespace square::planning {

MasterLayout::MasterLayout(const Instance& instance) : rows(static_cast<int>(instance.link_count())) {
  const auto limits = [&](const std::vector<double>& limit, std::vector<int>& row) {
    for (const double bps : limit) row.push_back(std::isfinite(bps) ? rows++ : -1);
  };
  limits(instance.network.egress_bps, egress_row);
  limits(instance.network.ingress_bps, ingress_row);
  if (instance.budget_usd_per_hour.has_value()) budget_row = rows++;
  demand_row.assign(instance.demands.size(), -1);
  for (const Group& group : instance.groups) {
    const bool several = group.alternatives.size() > 1;
    group_row.push_back(several ? rows++ : -1);
    share_column.emplace_back();
    for (const Alternative& alternative : group.alternatives) {
      if (several) share_column.back().push_back(first_tree_column++);
      for (const std::size_t i : alternative.demands) demand_row[i] = rows++;
    }
  }
}

}  // namespace square::planning
