#include "planning/policy.h"

namespace square::planning {
namespace {

class Square final : public Policy {
 public:
  std::string_view name() const override { return "square"; }
};

class MaxThroughput final : public Policy {
 public:
  std::string_view name() const override { return "max-throughput"; }
  int shots(const PolicySpec&) const override { return 0; }
};

class ShortestPath final : public Policy {
 public:
  std::string_view name() const override { return "shortest-path"; }
  Result<SessionPaths> paths(const Scenario& scenario, const std::vector<Session>& sessions) const override {
    return tree_paths(scenario, sessions);
  }
};

class MultiCommodityFlow final : public Policy {
 public:
  std::string_view name() const override { return "mcf"; }
  bool splits_multicasts() const override { return true; }
};

}  // namespace

const std::vector<const Policy*>& policies() {
  static const Square square;
  static const MaxThroughput max_throughput;
  static const ShortestPath shortest_path;
  static const MultiCommodityFlow multi_commodity_flow;
  static const std::vector<const Policy*> all = {&square, &max_throughput, &shortest_path,
                                                 &multi_commodity_flow};
  return all;
}

}  // namespace square::planning
