#include "planning/quick/filling.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <utility>

#include "base/spending.h"
#include "planning/exact/resources.h"

namespace square::planning {
namespace {

class Filling {
 public:
  Filling(const Instance& instance, const std::vector<std::vector<QuickTree>>& trees,
          const std::vector<std::vector<double>>& parts)
      : instance_(instance), parts_(parts) {
    const Resources resources(instance);
    for (std::size_t r = 0; r < resources.count(); ++r) resources_.emplace_back().left = resources.limit(r);
    first_tree_.push_back(0);
    for (const auto& of_demand : trees) {
      first_tree_.push_back(first_tree_.back() + of_demand.size());
      for (const QuickTree& tree : of_demand) add_tree(tree, resources);
    }
    active_weight_.resize(trees.size());
    pace_.resize(trees.size());
    alternative_.resize(trees.size());
  }

  Filled run() {
    start();
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      if (event.version != resources_[event.resource].version) continue;
      look_at_budget();
      now_ = event.when;
      fill_up(event.resource);
    }
    return read();
  }

 private:
  struct Resource {
    double left = 0.0;   // at `since`
    double since = 0.0;  // in units of level
    double speed = 0.0;  // of all trees that grow
    int growing = 0;     // how many of them
    int version = 0;     // of the event that stands for it
    bool is_touched = false;
    std::vector<std::size_t> trees;
  };
  struct Tree {
    std::size_t demand = 0;
    double weight = 1.0;
    double rate = 0.0;  // at `since`
    double since = 0.0;
    double speed = 0.0;
    bool grows = true;
    std::vector<Use> uses;
  };
  struct Event {
    double when = 0.0;
    std::size_t resource = 0;
    int version = 0;
    bool operator>(const Event& other) const {
      return std::pair(when, resource) > std::pair(other.when, other.resource);
    }
  };
  struct Place {
    std::size_t group = 0;
    std::size_t alternative = 0;
  };

  void add_tree(const QuickTree& given, const Resources& resources) {
    const std::size_t number = trees_.size();
    Tree& tree = trees_.emplace_back();
    tree.demand = first_tree_.size() - 2;
    tree.weight = given.weight;
    tree.uses = resources.uses({{given.links, 1.0}});
    for (const Use& use : tree.uses) resources_[use.resource].trees.push_back(number);
  }

  void start() {
    for (std::size_t c = 0; c < instance_.groups.size(); ++c) {
      const Group& group = instance_.groups[c];
      for (std::size_t a = 0; a < group.alternatives.size(); ++a) {
        const Alternative& alternative = group.alternatives[a];
        for (std::size_t k = 0; k < alternative.demands.size(); ++k) {
          const std::size_t i = alternative.demands[k];
          alternative_[i] = {c, a};
          pace_[i] = group.weight * alternative.fractions[k] * part_of(c, a);
          for (std::size_t t = first_tree_[i]; t < first_tree_[i + 1]; ++t)
            active_weight_[i] += trees_[t].weight;
          set_speeds(i);
        }
      }
    }
    expect_events();
  }

  [[nodiscard]] double part_of(std::size_t group, std::size_t alternative) const {
    if (!parts_.empty()) return parts_[group][alternative];
    return 1.0 / static_cast<double>(instance_.groups[group].alternatives.size());
  }

  // Of the demand's trees that grow, together its pace.
  void set_speeds(std::size_t demand) {
    for (std::size_t t = first_tree_[demand]; t < first_tree_[demand + 1]; ++t) {
      if (trees_[t].grows) set_speed(t, pace_[demand] * trees_[t].weight / active_weight_[demand]);
    }
  }

  void set_speed(std::size_t number, double speed) {
    Tree& tree = trees_[number];
    tree.rate += tree.speed * (now_ - tree.since);
    tree.since = now_;
    const double change = speed - tree.speed;
    const int growing = (speed > 0.0 ? 1 : 0) - (tree.speed > 0.0 ? 1 : 0);
    tree.speed = speed;
    for (const auto& [position, part] : tree.uses) {
      Resource& resource = resources_[position];
      resource.left = std::max(resource.left - resource.speed * (now_ - resource.since), 0.0);
      resource.since = now_;
      resource.growing += growing;
      // Differences that come to nothing leave digits behind.
      resource.speed = resource.growing > 0 ? std::max(resource.speed + part * change, 0.0) : 0.0;
      if (!std::exchange(resource.is_touched, true)) touched_.push_back(position);
    }
  }

  void expect_events() {
    for (const std::size_t position : touched_) {
      Resource& resource = resources_[position];
      resource.is_touched = false;
      ++resource.version;
      if (resource.growing == 0 || resource.speed <= 0.0) continue;
      events_.push({now_ + resource.left / resource.speed, position, resource.version});
    }
    touched_.clear();
  }

  void fill_up(std::size_t position) {
    resources_[position].left = 0.0;
    resources_[position].since = now_;
    for (const std::size_t number : resources_[position].trees) {
      const std::size_t i = trees_[number].demand;
      if (!trees_[number].grows) continue;
      stop_tree(number);
      active_weight_[i] -= trees_[number].weight;
      if (std::none_of(trees_.begin() + offset(first_tree_[i]), trees_.begin() + offset(first_tree_[i + 1]),
                       [](const Tree& tree) { return tree.grows; })) {
        stop_alternative(alternative_[i]);
      } else {
        set_speeds(i);
      }
    }
    expect_events();
  }

  static std::ptrdiff_t offset(std::size_t position) { return static_cast<std::ptrdiff_t>(position); }

  void stop_tree(std::size_t number) {
    set_speed(number, 0.0);
    trees_[number].grows = false;
  }

  void stop_alternative(const Place& place) {
    for (const std::size_t i : instance_.groups[place.group].alternatives[place.alternative].demands) {
      for (std::size_t t = first_tree_[i]; t < first_tree_[i + 1]; ++t) {
        if (trees_[t].grows) stop_tree(t);
      }
    }
  }

  [[nodiscard]] Filled read() const {
    std::vector<std::vector<double>> rates;
    for (std::size_t i = 0; i + 1 < first_tree_.size(); ++i) {
      std::vector<double>& its = rates.emplace_back();
      for (std::size_t t = first_tree_[i]; t < first_tree_[i + 1]; ++t) its.push_back(trees_[t].rate);
    }
    return filled_by(instance_, std::move(rates));
  }

  const Instance& instance_;
  const std::vector<std::vector<double>>& parts_;
  double now_ = 0.0;  // the level
  std::vector<Resource> resources_;
  std::vector<Tree> trees_;
  std::vector<std::size_t> first_tree_;  // by demand
  std::vector<double> active_weight_;    // by demand, of its trees that grow
  std::vector<double> pace_;             // by demand: bits per second for each unit of level
  std::vector<Place> alternative_;       // by demand
  std::vector<std::size_t> touched_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
};

}  // namespace

Filled filled_by(const Instance& instance, std::vector<std::vector<double>> tree_rate) {
  Filled filled;
  filled.tree_rate = std::move(tree_rate);
  for (const Group& group : instance.groups) {
    std::vector<double>& shares = filled.share_rate.emplace_back();
    double sum = 0.0;
    for (const Alternative& alternative : group.alternatives) {
      double least = kUnreachable;
      for (std::size_t k = 0; k < alternative.demands.size(); ++k) {
        double rate = 0.0;
        for (const double part : filled.tree_rate[alternative.demands[k]]) rate += part;
        least = std::min(least, rate / alternative.fractions[k]);
      }
      shares.push_back(least);
      sum += least;
    }
    filled.group_rate.push_back(sum);
  }
  return filled;
}

Filled fill(const Instance& instance, const std::vector<std::vector<QuickTree>>& trees,
            const std::vector<std::vector<double>>& parts) {
  return Filling(instance, trees, parts).run();
}

}  // namespace square::planning
