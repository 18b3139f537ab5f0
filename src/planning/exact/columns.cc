#include "planning/exact/columns.h"

#include <algorithm>

namespace square::planning {

double Column::cost(const std::vector<double>& link_cost) const {
  double sum = 0.0;
  for (std::size_t k = 0; k < links.size(); ++k) {
    sum += usage_at(k) * link_cost[static_cast<std::size_t>(links[k])];
  }
  return sum;
}

std::pair<std::size_t, bool> ColumnPool::add(Column column) {
  std::vector<int> sorted = column.links;
  // The links of a tree say all about it, in any order.
  if (column.is_tree()) std::sort(sorted.begin(), sorted.end());
  const auto [entry, is_new] =
      known_[column.demand].try_emplace({std::move(sorted), column.usage}, columns_.size());
  if (is_new) columns_.push_back(std::move(column));
  return {entry->second, is_new};
}

}  // namespace square::planning
