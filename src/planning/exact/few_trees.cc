#include "planning/exact/few_trees.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <random>
#include <utility>

#include "base/spending.h"

namespace square::planning {
namespace {

// Tried one after the other: parts of what fits at best; the last ones only where there are so many links
// that a program over trees would take minutes.
constexpr std::array kParts = {0.99, 0.985, 0.98, 0.96, 0.93, 0.9};
constexpr double kEnough = 0.98;
constexpr std::size_t kVeryManyLinks = 512;
constexpr std::uint64_t kTries = 2;  // each

// A part of a session.
struct PartTree {
  std::size_t demand = 0;
  double size = 0.0;
  std::vector<int> arc;  // by node: of the demand's graph, that feeds it; -1 for the root
};

// What goes back for each bit of blocks, in small frames: credit, acknowledgements, those of TCP and HTTP/2.
constexpr double kWayBack = 0.035;
constexpr double kMostBack = 0.5;  // of a link

// Of each link, without what the way back of a faster link the other way takes beyond this one's share. All
// links give the same part of what they carry for such frames then, and all streams are as much slower.
std::vector<double> room_beside_way_back(const Instance& instance) {
  std::map<std::pair<std::size_t, std::size_t>, double> capacity;
  for (std::size_t e = 0; e < instance.link_count(); ++e)
    capacity[{instance.tail[e].index(), instance.head[e].index()}] = instance.network.capacity_bps[e];
  std::vector<double> room = instance.network.capacity_bps;
  for (std::size_t e = 0; e < room.size(); ++e) {
    const auto other = capacity.find({instance.head[e].index(), instance.tail[e].index()});
    if (other == capacity.end() || !std::isfinite(other->second)) continue;
    const double back = kWayBack * std::max(other->second - room[e], 0.0);
    room[e] -= std::min(back, kMostBack * room[e]);
  }
  return room;
}

class FewTreesSearch {
  // Nodes fed anew for each link of the overlay, before it is given up.
  static constexpr std::int64_t kStepsPerLink = 40;
  // After so many of them trees are split, so many while each link has one step, one for so many trees at
  // most.
  static constexpr std::int64_t kStepsToSplit = 6;
  static constexpr std::int64_t kSplitsPerStepsPerLink = 8;
  static constexpr std::size_t kTreesPerSplit = 4;
  // A node that was just moved stays for so many steps, and up to as many more.
  static constexpr std::int64_t kStay = 100;
  static constexpr int kMaxDepth = 6;
  // Of what links mostly carry: a session that needs more than the first has more parts, and one that needs
  // more than the second is cut into equal parts of the third.
  static constexpr double kSmallRate = 0.6;
  static constexpr double kLargeRate = 1.5;
  static constexpr double kLargestPart = 0.2475;  // four fit, with what is asked for at most
  static constexpr int kMostParts = 7;
  static constexpr double kNextPart = 0.7;
  // What a bit per second of room that is left counts beside one that is too much: on the link that a part
  // goes to, and on the one that it leaves.
  static constexpr double kRoomThere = 0.02;
  static constexpr double kRoomHere = 0.05;
  static constexpr double kMostRoom = 2.0;  // that counts, in parts that would fit there
  static constexpr double kRounding = 1e-12;
  static constexpr int kStepsPerLook = 64;

 public:
  FewTreesSearch(const Instance& instance, const std::vector<double>& demand_rate, double part,
                 std::vector<double> room, std::uint64_t seed)
      : instance_(instance),
        random_(seed),
        room_(std::move(room)),
        egress_room_(instance.network.egress_bps),
        ingress_room_(instance.network.ingress_bps),
        out_of_(instance.node_count()),
        into_(instance.node_count()),
        on_link_(instance.link_count()),
        is_listed_(instance.link_count(), false) {
    double sum = 0.0;
    for (std::size_t e = 0; e < room_.size(); ++e) {
      sum += room_[e];
      out_of_[instance.tail[e].index()].push_back(e);
      into_[instance.head[e].index()].push_back(e);
    }
    const double typical = sum / static_cast<double>(room_.size());
    for (std::size_t i = 0; i < demand_rate.size(); ++i) cut(i, demand_rate[i] * part, typical);
    next_split_ = kStepsToSplit * static_cast<std::int64_t>(room_.size());
    most_splits_ = trees_.size() / kTreesPerSplit;
  }

  // Whether all fits.
  bool run() {
    for (std::size_t j = 0; j < trees_.size(); ++j) {
      look_at_budget();
      if (!plant(j)) return false;
    }
    // While there is room, what is too large for its link alone.
    for (std::size_t e = 0; e < room_.size(); ++e) {
      if (std::ranges::any_of(on_link_[e], [&](const Item& item) { return is_too_large(item, e); })) list(e);
    }
    settle();
    for (std::size_t e = 0; e < room_.size(); ++e) list(e);
    return settle();
  }

  [[nodiscard]] Carried carried() const {
    Carried carried{std::vector<std::vector<Carried::Tree>>(instance_.demands.size())};
    std::map<std::pair<std::size_t, std::vector<int>>, double> rates;  // trees that came out the same
    for (const PartTree& tree : trees_) rates[{tree.demand, tree.arc}] += tree.size;
    for (const auto& [tree, rate] : rates)
      carried.trees[tree.first].push_back({links_of(tree.first, tree.second), rate, {}, {}});
    for (auto& trees : carried.trees) std::ranges::stable_sort(trees, std::greater<>(), &Carried::Tree::rate);
    return carried;
  }

 private:
  struct Item {
    int tree = -1;
    int node = -1;
  };

  [[nodiscard]] bool is_too_large(const Item& item, std::size_t e) const {
    return trees_[static_cast<std::size_t>(item.tree)].size > instance_.network.capacity_bps[e];
  }

  // Moves nodes until no link has too much.
  bool settle() {
    const std::int64_t most = step_ + kStepsPerLink * static_cast<std::int64_t>(room_.size());
    for (; !overfull_.empty() && step_ < most; ++step_) {
      if (step_ % kStepsPerLook == 0) look_at_budget();
      const std::size_t at = random_() % overfull_.size();
      const auto e = static_cast<std::size_t>(overfull_[at]);
      if (excess_on(e) <= 0.0) {
        is_listed_[e] = false;
        overfull_[at] = overfull_.back();
        overfull_.pop_back();
      } else {
        relieve(e);
        if (step_ >= next_split_ && splits_ < most_splits_) split_on(e);
      }
    }
    return overfull_.empty();
  }

  [[nodiscard]] const DemandGraph& graph_of(const PartTree& tree) const {
    return *instance_.demands[tree.demand].graph;
  }
  [[nodiscard]] int root_of(const PartTree& tree) const { return instance_.demands[tree.demand].root; }
  [[nodiscard]] std::size_t link_of(const PartTree& tree, int arc) const {
    return static_cast<std::size_t>(graph_of(tree).link[static_cast<std::size_t>(arc)]);
  }
  [[nodiscard]] int feeder(const PartTree& tree, int node) const {
    return graph_of(tree).graph.arcs[static_cast<std::size_t>(tree.arc[static_cast<std::size_t>(node)])].from;
  }

  // Each part less than the one before; of a session that needs more than links carry, equal parts first.
  void cut(std::size_t demand, double rate, double typical) {
    if (rate <= 0.0) return;
    const int equal =
        rate > kLargeRate * typical ? static_cast<int>(std::ceil(rate / (kLargestPart * typical))) - 1 : 0;
    const int parts = rate > kSmallRate * typical && equal == 0 ? kMostParts : kTreesPerSession;
    const double last = rate / (equal + 1);
    for (int k = 0; k < equal; ++k) add_tree(demand, last);
    double sum = 0.0;
    for (int k = 0; k < parts; ++k) sum += std::pow(kNextPart, k);
    for (int k = 0; k < parts; ++k) add_tree(demand, last * std::pow(kNextPart, k) / sum);
  }

  void add_tree(std::size_t demand, double size) {
    trees_.push_back({demand, size, std::vector<int>(instance_.node_count(), -1)});
    position_.emplace_back(instance_.node_count(), 0);
    moves_again_.emplace_back(instance_.node_count(), 0);
  }

  // A star around the root, or around the neighbour of the root where it is in the way least.
  bool plant(std::size_t j) {
    const PartTree& tree = trees_[j];
    const DemandGraph& graph = graph_of(tree);
    const int root = root_of(tree);
    int first = -1;
    double least = excess_around(tree, root, -1);
    for (const int arc : graph.graph.out[root]) {
      if (least <= 0.0) break;
      const double excess = excess_around(tree, graph.graph.arcs[arc].to, arc);
      if (excess >= least * (1.0 - kRounding)) continue;
      least = excess;
      first = arc;
    }
    return plant_around(j, first);
  }

  // The star around the end of the arc `first` from the root, or around the root; nodes that are not linked
  // to it are fed by what is. Whether all nodes are fed.
  bool plant_around(std::size_t j, int first) {
    const PartTree& tree = trees_[j];
    const Digraph& graph = graph_of(tree).graph;
    const int root = root_of(tree);
    std::vector<int> order = {root};
    if (first >= 0) {
      order.insert(order.begin(), graph.arcs[first].to);
      feed(j, order.front(), first);
    }
    for (std::size_t next = 0; next < order.size(); ++next) {
      for (const int arc : graph.out[order[next]]) {
        const int to = graph.arcs[arc].to;
        if (to == root || tree.arc[static_cast<std::size_t>(to)] >= 0) continue;
        feed(j, to, arc);
        order.push_back(to);
      }
    }
    return order.size() == instance_.node_count();
  }

  [[nodiscard]] double excess_around(const PartTree& tree, int hub, int first) const {
    const Digraph& graph = graph_of(tree).graph;
    double excess = first < 0 ? 0.0 : more_excess(tree, first);
    for (const int arc : graph.out[hub]) excess += more_excess(tree, arc);
    // Its own limit on all of them together.
    const std::vector<double>& room = instance_.demands[tree.demand].reversed ? ingress_room_ : egress_room_;
    const double left = room[static_cast<std::size_t>(hub)];
    const double all = tree.size * static_cast<double>(graph.out[hub].size());
    return excess + std::max(all - left, 0.0) - std::max(-left, 0.0);
  }
  [[nodiscard]] double more_excess(const PartTree& tree, int arc) const {
    const double room = room_[link_of(tree, arc)];
    return std::max(tree.size - room, 0.0) - std::max(-room, 0.0);
  }

  void feed(std::size_t j, int node, int arc) {
    PartTree& tree = trees_[j];
    tree.arc[static_cast<std::size_t>(node)] = arc;
    const std::size_t e = link_of(tree, arc);
    position_[j][static_cast<std::size_t>(node)] = static_cast<int>(on_link_[e].size());
    on_link_[e].push_back({static_cast<int>(j), node});
    take_room(e, tree.size);
  }

  void cut_off(std::size_t j, int node) {
    PartTree& tree = trees_[j];
    const std::size_t e = link_of(tree, tree.arc[static_cast<std::size_t>(node)]);
    const auto at = static_cast<std::size_t>(position_[j][static_cast<std::size_t>(node)]);
    const Item last = on_link_[e].back();
    on_link_[e][at] = last;
    position_[static_cast<std::size_t>(last.tree)][static_cast<std::size_t>(last.node)] =
        static_cast<int>(at);
    on_link_[e].pop_back();
    take_room(e, -tree.size);
  }

  void take_room(std::size_t e, double size) {
    room_[e] -= size;
    egress_room_[instance_.tail[e].index()] -= size;
    ingress_room_[instance_.head[e].index()] -= size;
  }

  [[nodiscard]] static double excess(double room, double capacity) {
    return std::max(-room - kRounding * capacity, 0.0);
  }
  [[nodiscard]] double excess_on(std::size_t e) const {
    const std::size_t tail = instance_.tail[e].index();
    const std::size_t head = instance_.head[e].index();
    return excess(room_[e], instance_.network.capacity_bps[e]) +
           excess(egress_room_[tail], instance_.network.egress_bps[tail]) +
           excess(ingress_room_[head], instance_.network.ingress_bps[head]);
  }

  void list(std::size_t e) {
    if (is_listed_[e] || on_link_[e].empty() || excess_on(e) <= 0.0) return;
    is_listed_[e] = true;
    overfull_.push_back(static_cast<int>(e));
  }

  // How much more would be too much, with `size` moved from a link to another.
  [[nodiscard]] double excess_by(std::size_t from, std::size_t to, double size) const {
    const auto by = [size](double from_room, double to_room) {
      return std::max(-from_room - size, 0.0) - std::max(-from_room, 0.0) + std::max(size - to_room, 0.0) -
             std::max(-to_room, 0.0);
    };
    double sum = by(room_[from], room_[to]);
    const std::size_t tails[] = {instance_.tail[from].index(), instance_.tail[to].index()};
    const std::size_t heads[] = {instance_.head[from].index(), instance_.head[to].index()};
    if (tails[0] != tails[1]) sum += by(egress_room_[tails[0]], egress_room_[tails[1]]);
    if (heads[0] != heads[1]) sum += by(ingress_room_[heads[0]], ingress_room_[heads[1]]);
    return sum;
  }

  // Feeds one of the nodes that the link feeds from elsewhere: where the least is too much then, also if that
  // is more than before, and of such the one that leaves the least room unused.
  void relieve(std::size_t e) {
    double best = kUnreachable;
    Item chosen;
    Item free;
    int chosen_arc = -1;
    for (const Item& item : on_link_[e]) {
      const auto j = static_cast<std::size_t>(item.tree);
      const PartTree& tree = trees_[j];
      const auto v = static_cast<std::size_t>(item.node);
      if (moves_again_[j][v] > step_) continue;
      free = item;
      const double left = kRoomHere * std::clamp(room_[e] + tree.size, 0.0, kMostRoom * tree.size);
      for (const int arc : graph_of(tree).graph.in[item.node]) {
        if (arc == tree.arc[v]) continue;
        const std::size_t to = link_of(tree, arc);
        const double score = excess_by(e, to, tree.size) +
                             kRoomThere * std::clamp(room_[to] - tree.size, 0.0, kMostRoom * tree.size) +
                             left;
        if (score >= best || !may_feed(tree, arc, item.node)) continue;
        best = score;
        chosen = item;
        chosen_arc = arc;
      }
    }
    if (chosen_arc < 0) {
      if (free.tree >= 0) replant(static_cast<std::size_t>(free.tree));
      return;
    }
    const auto j = static_cast<std::size_t>(chosen.tree);
    cut_off(j, chosen.node);
    feed(j, chosen.node, chosen_arc);
    moves_again_[j][static_cast<std::size_t>(chosen.node)] =
        step_ + kStay + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(kStay));
    list(link_of(trees_[j], chosen_arc));
    list_ends(link_of(trees_[j], chosen_arc));
  }

  // What does not find a place for so long is too large: the largest part that the link carries becomes two.
  void split_on(std::size_t e) {
    const auto size_of = [this](const Item& item) {
      return trees_[static_cast<std::size_t>(item.tree)].size;
    };
    const auto largest = std::ranges::max_element(on_link_[e], std::less<>(), size_of);
    if (largest == on_link_[e].end()) return;
    next_split_ = step_ + static_cast<std::int64_t>(room_.size()) / kSplitsPerStepsPerLink;
    ++splits_;
    const auto j = static_cast<std::size_t>(largest->tree);
    const std::vector<int> arcs = trees_[j].arc;
    uproot(j);
    trees_[j].size /= 2.0;
    add_tree(trees_[j].demand, trees_[j].size);
    for (std::size_t v = 0; v < arcs.size(); ++v) {
      if (arcs[v] < 0) continue;
      feed(j, static_cast<int>(v), arcs[v]);
      feed(trees_.size() - 1, static_cast<int>(v), arcs[v]);
    }
  }

  void uproot(std::size_t j) {
    for (std::size_t v = 0; v < trees_[j].arc.size(); ++v) {
      if (trees_[j].arc[v] < 0) continue;
      cut_off(j, static_cast<int>(v));
      trees_[j].arc[v] = -1;
    }
  }

  // Where all that could feed a node is fed by it: somewhere else.
  void replant(std::size_t j) {
    uproot(j);
    const std::vector<int>& arcs = graph_of(trees_[j]).graph.out[root_of(trees_[j])];
    plant_around(j, arcs[random_() % arcs.size()]);
    for (std::size_t v = 0; v < trees_[j].arc.size(); ++v) {
      if (trees_[j].arc[v] < 0) continue;
      moves_again_[j][v] = step_ + kStay;
      list(link_of(trees_[j], trees_[j].arc[v]));
    }
  }

  // All links of an end that has too much: any may help.
  void list_ends(std::size_t e) {
    const std::size_t tail = instance_.tail[e].index();
    const std::size_t head = instance_.head[e].index();
    if (egress_room_[tail] < 0.0) std::ranges::for_each(out_of_[tail], [this](std::size_t k) { list(k); });
    if (ingress_room_[head] < 0.0) std::ranges::for_each(into_[head], [this](std::size_t k) { list(k); });
  }

  // Not by what the node feeds itself, nor over too many others.
  [[nodiscard]] bool may_feed(const PartTree& tree, int arc, int node) const {
    int depth = 0;
    for (int v = graph_of(tree).graph.arcs[static_cast<std::size_t>(arc)].from; v != root_of(tree);
         v = feeder(tree, v)) {
      if (v == node || ++depth >= kMaxDepth) return false;
    }
    return true;
  }

  // Each after the one that feeds it.
  [[nodiscard]] std::vector<int> links_of(std::size_t demand, const std::vector<int>& arc_into) const {
    const DemandGraph& graph = *instance_.demands[demand].graph;
    std::vector<std::vector<int>> fed(arc_into.size());
    for (std::size_t v = 0; v < arc_into.size(); ++v) {
      if (arc_into[v] < 0) continue;
      const int from = graph.graph.arcs[static_cast<std::size_t>(arc_into[v])].from;
      fed[static_cast<std::size_t>(from)].push_back(static_cast<int>(v));
    }
    std::vector<int> links;
    std::vector<int> order = {instance_.demands[demand].root};
    for (std::size_t next = 0; next < order.size(); ++next) {
      for (const int v : fed[static_cast<std::size_t>(order[next])]) {
        links.push_back(graph.link[static_cast<std::size_t>(arc_into[static_cast<std::size_t>(v)])]);
        order.push_back(v);
      }
    }
    return links;
  }

  const Instance& instance_;
  std::mt19937_64 random_;
  std::vector<PartTree> trees_;
  std::vector<double> room_;  // by link: what is left, below zero where it is too much
  std::vector<double> egress_room_;
  std::vector<double> ingress_room_;
  std::vector<std::vector<std::size_t>> out_of_;  // by node: links
  std::vector<std::vector<std::size_t>> into_;
  std::vector<std::vector<Item>> on_link_;              // what the link feeds
  std::vector<std::vector<int>> position_;              // by tree and node: there
  std::vector<std::vector<std::int64_t>> moves_again_;  // by tree and node: in which step
  std::vector<int> overfull_;                           // links that may have too much
  std::vector<bool> is_listed_;
  std::int64_t step_ = 0;
  std::int64_t next_split_ = 0;  // in which step
  std::size_t splits_ = 0;
  std::size_t most_splits_ = 0;
};

}  // namespace

std::optional<Carried> carry_by_few_trees(const Instance& instance, const std::vector<double>& demand_rate) {
  const Phase phase("looking for few trees");
  for (const Demand& demand : instance.demands) {
    if (!demand.spanning || !demand.max_latency.empty() || demand.redundancy > 0) return std::nullopt;
  }
  const std::vector<double> beside = room_beside_way_back(instance);
  for (const bool is_beside : {true, false}) {
    for (const double part : kParts) {
      if (part < kEnough && (is_beside || instance.link_count() <= kVeryManyLinks)) break;
      for (std::uint64_t seed = 1; seed <= kTries; ++seed) {
        FewTreesSearch search(instance, demand_rate, part, is_beside ? beside : instance.network.capacity_bps,
                              seed);
        if (search.run()) return search.carried();
      }
    }
  }
  return std::nullopt;
}

}  // namespace square::planning
