// Where the rows and columns of a master program are: the same for every master of an
// instance, so that one may start from another's basis.
#pragma once

#include <vector>

#include "planning/exact/instance.h"

namespace square::planning {

struct MasterLayout {
  explicit MasterLayout(const Instance& instance);

  // Rows of links come first, by link. -1: there is no such row.
  std::vector<int> egress_row;   // by node
  std::vector<int> ingress_row;  // by node
  int budget_row = -1;
  std::vector<int> demand_row;  // by demand
  std::vector<int> group_row;   // by group; only with several alternatives
  int rows = 0;

  // Column 0 is the level.
  std::vector<std::vector<int>> share_column;  // by group, of each of several alternatives
  int first_tree_column = 1;
};

}  // namespace square::planning
