// What is put on links and nodes.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "planning/exact/instance.h"

namespace square::planning {

// Bits per second, by link and by node.
struct Load {
  std::vector<double> link;
  std::vector<double> egress;
  std::vector<double> ingress;

  explicit Load(const Instance& instance)
      : link(instance.link_count()), egress(instance.node_count()), ingress(instance.node_count()) {}

  void add(const Instance& instance, int number, double bps) {
    const auto e = static_cast<std::size_t>(number);
    link[e] += bps;
    egress[instance.tail[e].index()] += bps;
    ingress[instance.head[e].index()] += bps;
  }
  // Times the factor.
  void add(const Load& other, double factor = 1.0) {
    add_to(link, other.link, factor);
    add_to(egress, other.egress, factor);
    add_to(ingress, other.ingress, factor);
  }

 private:
  static void add_to(std::vector<double>& into, const std::vector<double>& from, double factor) {
    for (std::size_t k = 0; k < into.size(); ++k) into[k] += factor * from[k];
  }
};

// What a rate is to be multiplied by to come down to the limit.
inline double fitting_factor(double bps, double limit) { return bps > limit ? limit / bps : 1.0; }

}  // namespace square::planning
