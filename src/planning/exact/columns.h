// Trees that may carry a demand: the columns of the master program.
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "planning/codes/code_design.h"
#include "planning/exact/instance.h"

namespace square::planning {

// What a unit of rate of a demand puts on links. A tree uses its links once. A coded
// subgraph uses links in part: one without a code only bounds what coding could do.
struct Column {
  std::size_t demand = 0;
  std::vector<int> links;     // of a tree: each after the one that feeds it, seen from the root
  std::vector<double> usage;  // by position in `links`; empty for a tree: all one
  // Of a coded subgraph, by terminal: links from the root on, and the part that goes there.
  std::vector<std::vector<std::pair<std::vector<int>, double>>> paths{};
  // How a coded subgraph is carried: over arcs of the demand's graph.
  std::shared_ptr<const CodeDesign> code{};

  [[nodiscard]] bool is_tree() const { return usage.empty(); }
  [[nodiscard]] double usage_at(std::size_t position) const { return is_tree() ? 1.0 : usage[position]; }
  // Of a unit of rate, with a cost for each link.
  [[nodiscard]] double cost(const std::vector<double>& link_cost) const;
};

// Grows only; never the same tree of a demand twice.
class ColumnPool {
 public:
  explicit ColumnPool(std::size_t demands) : known_(demands) {}

  // Its position, and whether it was new.
  std::pair<std::size_t, bool> add(Column column);
  [[nodiscard]] const std::vector<Column>& columns() const { return columns_; }
  [[nodiscard]] std::size_t size() const { return columns_.size(); }

 private:
  std::vector<Column> columns_;
  // By demand: positions.
  std::vector<std::map<std::pair<std::vector<int>, std::vector<double>>, std::size_t>> known_;
};

}  // namespace square::planning
