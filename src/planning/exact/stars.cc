#include "planning/exact/stars.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/spending.h"

namespace square::planning {
namespace {

class Stars {
  // Sums of equal numbers differ by so much.
  static constexpr double kSame = 1e-10;
  static constexpr std::size_t kDemandsPerLook = 64;

 public:
  explicit Stars(const Instance& instance)
      : instance_(instance),
        links_(instance.demands.size()),
        part_(instance.demands.size(), 0.0),
        link_load_(instance.link_count(), 0.0),
        egress_load_(instance.node_count(), 0.0),
        ingress_load_(instance.node_count(), 0.0) {}

  std::optional<StarsAnswer> run() {
    const Phase phase("looking for stars");
    if (instance_.demands.empty() || instance_.budget_usd_per_hour.has_value() || !find_links())
      return std::nullopt;
    load_evenly();
    StarsAnswer answer;
    answer.level = fitting_level();
    // Each resource alone, all of it: what it has, by what a unit of the level takes of it.
    const double taken = std::accumulate(link_load_.begin(), link_load_.end(), 0.0);
    const Network& network = instance_.network;
    const std::vector<double>* const resources[] = {&network.capacity_bps, &network.egress_bps,
                                                    &network.ingress_bps};
    for (int kind = 0; kind < 3; ++kind) {
      const double whole = std::accumulate(resources[kind]->begin(), resources[kind]->end(), 0.0);
      if (!(whole <= answer.level * taken * (1.0 + kSame))) continue;
      answer.proof = proof_by(kind);
      for (std::size_t i = 0; i < links_.size(); ++i)
        answer.carried.trees.push_back({{std::move(links_[i]), part_[i] * answer.level, {}, {}}});
      return answer;
    }
    return std::nullopt;
  }

 private:
  bool find_links() {
    std::vector<int> link_to(instance_.node_count(), -1);
    for (std::size_t i = 0; i < links_.size(); ++i) {
      if (i % kDemandsPerLook == 0) look_at_budget();
      const Demand& demand = instance_.demands[i];
      if (demand.redundancy > 0 || !demand.max_latency.empty()) return false;
      const DemandGraph& graph = *demand.graph;
      const std::vector<int>& out = graph.graph.out[static_cast<std::size_t>(demand.root)];
      const auto head = [&](int arc) {
        return static_cast<std::size_t>(graph.graph.arcs[static_cast<std::size_t>(arc)].to);
      };
      for (const int arc : out) link_to[head(arc)] = graph.link[static_cast<std::size_t>(arc)];
      for (const int terminal : demand.terminals)
        links_[i].push_back(link_to[static_cast<std::size_t>(terminal)]);
      for (const int arc : out) link_to[head(arc)] = -1;
      if (std::ranges::find(links_[i], -1) != links_[i].end()) return false;
    }
    return true;
  }

  // At level one.
  void load_evenly() {
    for (const Group& group : instance_.groups) {
      const double rate = group.weight / static_cast<double>(group.alternatives.size());
      for (const Alternative& alternative : group.alternatives) {
        for (std::size_t k = 0; k < alternative.demands.size(); ++k) {
          const std::size_t i = alternative.demands[k];
          part_[i] = rate * alternative.fractions[k];
          for (const int link : links_[i]) {
            const auto e = static_cast<std::size_t>(link);
            link_load_[e] += part_[i];
            egress_load_[instance_.tail[e].index()] += part_[i];
            ingress_load_[instance_.head[e].index()] += part_[i];
          }
        }
      }
    }
  }

  [[nodiscard]] double fitting_level() const {
    double level = kUnreachable;
    const auto fit = [&level](const std::vector<double>& size, const std::vector<double>& load) {
      for (std::size_t k = 0; k < size.size(); ++k) {
        if (load[k] > 0.0) level = std::min(level, size[k] / load[k]);
      }
    };
    fit(instance_.network.capacity_bps, link_load_);
    fit(instance_.network.egress_bps, egress_load_);
    fit(instance_.network.ingress_bps, ingress_load_);
    return level;
  }

  // All links cost the same: of their own, or for one of their ends. Every member is a cut.
  [[nodiscard]] Proof proof_by(int kind) const {
    Proof proof;
    proof.duals.link.assign(instance_.link_count(), kind == 0 ? 1.0 : 0.0);
    proof.duals.egress.assign(instance_.node_count(), kind == 1 ? 1.0 : 0.0);
    proof.duals.ingress.assign(instance_.node_count(), kind == 2 ? 1.0 : 0.0);
    for (const Demand& demand : instance_.demands) {
      CutPacking& packing = proof.packings.emplace_back();
      for (const int terminal : demand.terminals) packing.cuts.push_back({{terminal}, 1.0});
      packing.length = static_cast<double>(demand.terminals.size());
    }
    proof.bound = proven_bound(instance_, active_targets(instance_), proof);
    return proof;
  }

  const Instance& instance_;
  std::vector<std::vector<int>> links_;  // by demand
  std::vector<double> part_;             // by demand: rate at level one
  std::vector<double> link_load_;        // at level one
  std::vector<double> egress_load_;
  std::vector<double> ingress_load_;
};

}  // namespace

std::optional<StarsAnswer> carry_by_stars(const Instance& instance) { return Stars(instance).run(); }

}  // namespace square::planning
