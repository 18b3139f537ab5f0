// How long links, limits of nodes and the budget are, by what was put on them so far.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "planning/exact/instance.h"

namespace square::planning {

class QuickLengths {
 public:
  explicit QuickLengths(const Instance& instance)
      : instance_(instance),
        link_(instance.link_count()),
        egress_(instance.node_count()),
        ingress_(instance.node_count()) {
    refresh();
  }

  // Of a bit per second over the link.
  [[nodiscard]] double of(int number) const {
    const auto e = static_cast<std::size_t>(number);
    return link_[e].length + egress_[instance_.tail[e].index()].length +
           ingress_[instance_.head[e].index()].length + budget_.length * instance_.price[e];
  }

  void put(const std::vector<int>& links, double rate) {
    for (const int number : links) {
      const auto e = static_cast<std::size_t>(number);
      add(instance_.network.capacity_bps[e], rate, link_[e]);
      add(instance_.network.egress_bps[instance_.tail[e].index()], rate, egress_[instance_.tail[e].index()]);
      add(instance_.network.ingress_bps[instance_.head[e].index()], rate,
          ingress_[instance_.head[e].index()]);
      if (instance_.budget_usd_per_hour.has_value()) {
        add(*instance_.budget_usd_per_hour, rate * instance_.price[e], budget_);
      }
    }
  }

  // All of them, after the fullest has become fuller.
  void refresh() {
    for (std::size_t e = 0; e < link_.size(); ++e) set(instance_.network.capacity_bps[e], link_[e]);
    for (std::size_t v = 0; v < egress_.size(); ++v) {
      set(instance_.network.egress_bps[v], egress_[v]);
      set(instance_.network.ingress_bps[v], ingress_[v]);
    }
    if (instance_.budget_usd_per_hour.has_value()) set(*instance_.budget_usd_per_hour, budget_);
  }

 private:
  // The fullest resource is longer than an empty one of its size by this, as a power of e.
  static constexpr double kSteepness = 3.0;

  struct Resource {
    double use = 0.0;  // as a part of what there is
    double length = 0.0;
  };

  void add(double limit, double rate, Resource& resource) {
    resource.use += rate / limit;
    fullest_ = std::max(fullest_, resource.use);
    set(limit, resource);
  }

  void set(double limit, Resource& resource) const {
    if (!(limit > 0.0) || std::isinf(limit)) return;
    const double fill = fullest_ > 0.0 ? resource.use / fullest_ : 0.0;
    resource.length = std::exp(kSteepness * fill) / limit;
  }

  const Instance& instance_;
  std::vector<Resource> link_;
  std::vector<Resource> egress_;  // by node
  std::vector<Resource> ingress_;
  Resource budget_;
  double fullest_ = 0.0;
};

}  // namespace square::planning
