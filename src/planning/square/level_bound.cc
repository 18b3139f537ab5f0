#include "planning/square/level_bound.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/spending.h"
#include "planning/packing/digraph.h"

namespace square::planning {
namespace {

class LevelBound {
 public:
  LevelBound(const Problem& problem, const Prices& prices)
      : problem_(problem), prices_(prices), graph_(problem.topology()) {
    for (std::size_t e = 0; e < graph_.arcs.size(); ++e) {
      price_.push_back(prices.link[e] + prices.egress[graph_.arcs[e].from] +
                       prices.ingress[graph_.arcs[e].to]);
    }
    for (const Session& session : problem.sessions) {
      if (session.group >= group_size_.size()) group_size_.resize(session.group + 1, 0);
      ++group_size_[session.group];
    }
  }

  double run() {
    double distance = 0.0;
    for (std::size_t i = 0; i < problem_.sessions.size(); ++i) {
      look_at_budget();
      const Session& session = problem_.sessions[i];
      distance += problem_.weight[session.collective] * session.fraction * sum_of_distances(i);
    }
    return distance > 0.0 ? worth() / distance : kUnlimited;
  }

 private:
  // sum C l + sum egress a + sum ingress b
  [[nodiscard]] double worth() const {
    double sum = 0.0;
    const auto add = [&](const std::vector<double>& prices, const std::vector<double>& amounts) {
      for (std::size_t k = 0; k < prices.size(); ++k) {
        if (std::isfinite(amounts[k])) sum += prices[k] * amounts[k];
      }
    };
    add(prices_.link, problem_.network.capacity_bps);
    add(prices_.egress, problem_.network.egress_bps);
    add(prices_.ingress, problem_.network.ingress_bps);
    return sum;
  }

  double sum_of_distances(std::size_t i) {
    const Session& session = problem_.sessions[i];
    if (session.destinations.size() == 1) {
      // Unicasts that were one multicast share each link's price, here evenly.
      return from(session.root, price_).distance[session.destinations[0].index()] /
             static_cast<double>(group_size_[session.group]);
    }
    double sum = 0.0;
    std::vector<std::vector<double>> lengths = lengths_of(i);
    for (std::size_t j = 0; j < session.destinations.size(); ++j) {
      look_at_budget();
      const Distances ways = shortest_from(graph_, {static_cast<int>(session.root.value())}, lengths[j]);
      sum += ways.distance[session.destinations[j].index()];
    }
    return sum;
  }

  const Distances& from(NodeId root, const std::vector<double>& lengths) {
    auto [entry, is_new] = known_.try_emplace(root);
    if (is_new) entry->second = shortest_from(graph_, {static_cast<int>(root.value())}, lengths);
    return entry->second;
  }

  // l_ij(e) by destination: the duals, made to keep their sum, and what they leave of a
  // link's price shared among the destinations whose paths do not use it.
  [[nodiscard]] std::vector<std::vector<double>> lengths_of(std::size_t i) const {
    const auto& duals = prices_.conceptual[i];
    std::vector<double> sum(price_.size(), 0.0);
    std::vector<std::size_t> users(price_.size(), 0);
    for (const auto& lengths : duals) {
      for (const auto& [link, length] : lengths) {
        sum[link.index()] += length;
        ++users[link.index()];
      }
    }
    std::vector<double> factor(price_.size(), 1.0);
    std::vector<double> rest(price_.size(), 0.0);
    for (std::size_t e = 0; e < price_.size(); ++e) {
      if (sum[e] > price_[e]) factor[e] = price_[e] / sum[e];
      if (users[e] < duals.size()) {
        rest[e] = std::max(price_[e] - sum[e], 0.0) / static_cast<double>(duals.size() - users[e]);
      }
    }
    std::vector<std::vector<double>> result(duals.size(), rest);
    for (std::size_t j = 0; j < duals.size(); ++j) {
      for (const auto& [link, length] : duals[j]) result[j][link.index()] = length * factor[link.index()];
    }
    return result;
  }

  const Problem& problem_;
  const Prices& prices_;
  Digraph graph_;
  std::vector<double> price_;  // by link: l(e) + a(tail) + b(head)
  std::vector<std::size_t> group_size_;
  std::map<NodeId, Distances> known_;
};

}  // namespace

double level_bound_bps(const Problem& problem, const Prices& prices) {
  return LevelBound(problem, prices).run();
}

}  // namespace square::planning
