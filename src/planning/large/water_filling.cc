#include "planning/large/water_filling.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <tuple>

namespace square::planning {
namespace {

// Less of a resource than this part of the group's rate stops nobody: ways that are about to be forgotten.
constexpr double kTrace = 1e-6;

class Water {
 public:
  Water(const Instance& instance, const Mixture& mixture, const std::vector<double>& most)
      : instance_(instance), uses_(mixture.ways().size()), tubs_(mixture.resources().count()) {
    for (std::size_t r = 0; r < tubs_.size(); ++r) tubs_[r].left = mixture.resources().limit(r);
    std::vector<double> sum(tubs_.size());
    for (std::size_t c = 0; c < uses_.size(); ++c) add_group(c, mixture, sum);
    for (std::size_t c = 0; c < most.size(); ++c) {
      if (uses_[c].empty()) continue;
      uses_[c].push_back({tubs_.size(), instance.groups[c].weight});
      tubs_.push_back({most[c], 0.0, instance.groups[c].weight, 0, 1, {c}});
    }
  }

  std::vector<double> run() {
    std::vector<double> rate(uses_.size(), 0.0);
    std::vector<bool> stopped(uses_.size());
    for (std::size_t r = 0; r < tubs_.size(); ++r) expect(r);
    while (!events_.empty()) {
      const auto [when, resource, version] = events_.top();
      events_.pop();
      if (version != tubs_[resource].version) continue;
      now_ = when;
      for (const std::size_t c : tubs_[resource].groups) {
        if (stopped[c]) continue;
        stopped[c] = true;
        rate[c] = now_ * instance_.groups[c].weight;
        for (const Use& use : uses_[c]) slow_down(use.resource, use.part);
      }
    }
    return rate;
  }

 private:
  struct Tub {
    double left = 0.0;   // at `since`
    double since = 0.0;  // in units of level
    double speed = 0.0;
    int version = 0;  // of the event that stands for it
    std::size_t growing = 0;
    std::vector<std::size_t> groups;
  };
  using Event = std::tuple<double, std::size_t, int>;  // when, resource, version

  // What it uses of each resource as its level grows by one.
  void add_group(std::size_t c, const Mixture& mixture, std::vector<double>& sum) {
    const double whole = mixture.rates()[c];
    if (whole <= 0.0) return;
    std::vector<std::size_t> touched;
    for (const GroupWay& way : mixture.ways()[c]) {
      if (way.rate <= 0.0) continue;
      for (const Use& use : way.uses) {
        if (sum[use.resource] <= 0.0) touched.push_back(use.resource);
        sum[use.resource] += use.part * way.rate / whole;
      }
    }
    const double weight = instance_.groups[c].weight;
    for (const std::size_t r : touched) {
      const double part = std::exchange(sum[r], 0.0);
      tubs_[r].speed += part * weight;
      if (part < kTrace) continue;
      ++tubs_[r].growing;
      uses_[c].push_back({r, part * weight});
      tubs_[r].groups.push_back(c);
    }
  }

  void slow_down(std::size_t resource, double speed) {
    Tub& tub = tubs_[resource];
    tub.left = std::max(tub.left - tub.speed * (now_ - tub.since), 0.0);
    tub.since = now_;
    tub.speed = std::max(tub.speed - speed, 0.0);
    --tub.growing;
    expect(resource);
  }

  void expect(std::size_t resource) {
    Tub& tub = tubs_[resource];
    ++tub.version;
    if (tub.growing == 0 || tub.speed <= 0.0 || !std::isfinite(tub.left)) return;
    events_.emplace(tub.since + tub.left / tub.speed, resource, tub.version);
  }

  const Instance& instance_;
  std::vector<std::vector<Use>> uses_;  // by group
  std::vector<Tub> tubs_;               // by resource
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  double now_ = 0.0;
};

}  // namespace

std::vector<double> water_filling(const Instance& instance, const Mixture& mixture,
                                  const std::vector<double>& most) {
  return Water(instance, mixture, most).run();
}

}  // namespace square::planning
