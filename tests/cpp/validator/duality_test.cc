// Weak duality: whatever lengths and cuts a level has, it proves no bound under a plan that
// exists. Plans are random trees, scaled to what the overlay carries.
#include <doctest/doctest.h>

#include <cstdlib>
#include <random>

#include "validator/hand_made.h"

namespace square {
namespace {

using namespace square::testing;

std::uint64_t first_seed() {
  const char* text = std::getenv("SQUARE_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 20261121;
}

class RandomPlan {
 public:
  explicit RandomPlan(std::uint64_t seed) : random_(seed), made_(names(3 + seed % 4)) {
    add_links();
    const std::size_t collectives = 1 + pick(3);
    for (std::size_t c = 0; c < collectives; ++c) add_collective();
    fit();
    made_.finish();
    add_levels();
  }
  Plan& plan() { return made_.plan(); }

 private:
  static Names names(std::size_t n) {
    Names all;
    for (std::size_t v = 0; v < n; ++v) all.push_back("n" + std::to_string(v));
    return all;
  }
  std::size_t pick(std::size_t below) { return random_() % below; }
  double number() { return std::uniform_real_distribution<double>(0.0, 1.0)(random_); }
  std::size_t n() { return plan().nodes.size(); }
  std::string name(std::size_t v) { return "n" + std::to_string(v); }

  void add_links() {
    for (std::size_t u = 0; u < n(); ++u) {
      for (std::size_t v = 0; v < n(); ++v) {
        const bool ring = v == (u + 1) % n() || u == (v + 1) % n();
        if (u == v || (!ring && number() < 0.5)) continue;
        made_.add_link(name(u), name(v), 1 + 9 * number(), number() < 0.5 ? number() : 0.0);
      }
      if (number() < 0.3) plan().nodes[u].egress_bps = 1e6 * (1 + 9 * number());
      if (number() < 0.3) plan().nodes[u].ingress_bps = 1e6 * (1 + 9 * number());
    }
  }

  void add_collective() {
    Names members = names(n());
    std::shuffle(members.begin(), members.end(), random_);
    members.resize(2 + pick(n() - 1));
    const std::vector<CollectiveOp> ops = {CollectiveOp::kBroadcast, CollectiveOp::kReduce,
                                           CollectiveOp::kAllGather, CollectiveOp::kReduceScatter,
                                           CollectiveOp::kAllReduce};
    const CollectiveOp op = ops[pick(ops.size())];
    const std::uint64_t bytes = 60 * members.size();
    made_.add_collective(op, bytes, 0.5 + number());
    if (op == CollectiveOp::kBroadcast || op == CollectiveOp::kReduce) {
      add_session(op == CollectiveOp::kReduce, members, 0, bytes);
      return;
    }
    for (std::size_t r = 0; r < members.size(); ++r) {
      std::rotate(members.begin(), members.begin() + 1, members.end());
      const std::uint64_t size = bytes / members.size();
      if (op != CollectiveOp::kAllGather) add_session(true, members, r * size, size);
      if (op != CollectiveOp::kReduceScatter) add_session(false, members, r * size, size);
      if (op == CollectiveOp::kAllReduce) {
        PlanSession* pair = &plan().sessions.back();
        pair->pair = pair[-1].id;
        pair[-1].pair = pair->id;
      }
    }
  }

  // With one to three random trees; the ring of links makes every node reachable.
  void add_session(bool reduce, const Names& members, std::uint64_t offset, std::uint64_t size) {
    made_.add_session(reduce ? SessionKind::kReduce : SessionKind::kMulticast, members, offset, size);
    const std::size_t trees = 1 + pick(3);
    for (std::size_t t = 0; t < trees; ++t) add_tree(reduce);
  }

  void add_tree(bool reduce) {
    std::vector<bool> reached(n(), false);
    std::vector<std::pair<NodeId, NodeId>> links;  // away from the root
    reached[plan().sessions.back().root.index()] = true;
    std::vector<std::size_t> order(plan().links.size());
    for (std::size_t round = 0; round < n(); ++round) {
      for (std::size_t e = 0; e < order.size(); ++e) order[e] = e;
      std::shuffle(order.begin(), order.end(), random_);
      for (const std::size_t e : order) {
        const NodeId near = reduce ? plan().links[e].to : plan().links[e].from;
        const NodeId far = reduce ? plan().links[e].from : plan().links[e].to;
        if (!reached[near.index()] || reached[far.index()]) continue;
        reached[far.index()] = true;
        links.emplace_back(near, far);
      }
    }
    prune(links);
    PlanStream stream{links, 1e6 * (0.5 + number())};
    if (reduce) {
      std::reverse(stream.links.begin(), stream.links.end());
      for (auto& [from, to] : stream.links) std::swap(from, to);
    }
    plan().sessions.back().streams.push_back(std::move(stream));
  }

  // Without relays that lead nowhere.
  void prune(std::vector<std::pair<NodeId, NodeId>>& links) {
    const std::vector<NodeId>& members = plan().sessions.back().members;
    std::set<NodeId> needed(members.begin(), members.end());
    std::vector<std::pair<NodeId, NodeId>> kept;
    for (auto link = links.rbegin(); link != links.rend(); ++link) {
      if (!needed.contains(link->second)) continue;
      needed.insert(link->first);
      kept.push_back(*link);
    }
    links.assign(kept.rbegin(), kept.rend());
  }

  // Streams of the sessions of a collective to one rate, then all to what fits.
  void fit() {
    for (PlanSession& session : plan().sessions) {
      double sum = 0;
      for (const PlanStream& stream : session.streams) sum += stream.rate_bps;
      for (PlanStream& stream : session.streams) stream.rate_bps *= 1e6 / sum;
    }
    const auto load_of = [&](auto touches) {
      double load = 0;
      for (const PlanSession& session : plan().sessions) {
        for (const PlanStream& stream : session.streams) {
          for (const auto& link : stream.links) load += touches(link) ? stream.rate_bps : 0.0;
        }
      }
      return load;
    };
    double most = 0;
    for (const PlanLink& link : plan().links) {
      most = std::max(most, load_of([&](auto& ends) { return ends == std::pair(link.from, link.to); }) /
                                link.capacity_bps);
    }
    for (std::size_t v = 0; v < n(); ++v) {
      const NodeId id(static_cast<std::uint32_t>(v));
      most =
          std::max(most, load_of([&](auto& ends) { return ends.first == id; }) / plan().nodes[v].egress_bps);
      most = std::max(most,
                      load_of([&](auto& ends) { return ends.second == id; }) / plan().nodes[v].ingress_bps);
    }
    for (PlanSession& session : plan().sessions) {
      for (PlanStream& stream : session.streams) stream.rate_bps /= most;
    }
  }

  void add_levels() {
    std::vector<CollectiveId> collectives;
    for (const PlanCollective& collective : plan().collectives) collectives.push_back(collective.id);
    // Whatever is active has at least the level, so that the least come first.
    std::sort(collectives.begin(), collectives.end(), [&](CollectiveId a, CollectiveId b) {
      const PlanCollective& left = plan().collectives[a.index()];
      const PlanCollective& right = plan().collectives[b.index()];
      return left.rate_bps / left.weight < right.rate_bps / right.weight;
    });
    plan().budget_usd_per_hour = plan().cost_usd_per_hour * (1 + number());
    for (const CollectiveId id : collectives) {
      PlanLevel& level = plan().certificate.levels.emplace_back();
      level.collectives = {id};
      // Of bare cuts alone the lengths of the links follow, as tight as they can be.
      const bool bare = number() < 0.6;
      for (std::size_t e = 0; e < plan().links.size() && !bare; ++e) {
        if (number() < 0.5) level.links.emplace_back(LinkId(static_cast<std::uint32_t>(e)), number());
      }
      for (std::size_t v = 0; v < n() && !bare; ++v) {
        const NodeId node(static_cast<std::uint32_t>(v));
        if (std::isfinite(plan().nodes[v].egress_bps)) level.egress.emplace_back(node, number());
        if (std::isfinite(plan().nodes[v].ingress_bps)) level.ingress.emplace_back(node, number());
      }
      if (plan().cost_usd_per_hour > 0 && !bare && number() < 0.5)
        level.budget = number() / kUsdPerHourPerBps;
      const std::vector<NodeId> side = some_nodes();
      for (const PlanSession& session : plan().sessions) {
        bare ? add_cut(session, side, level) : add_packing(session, level);
      }
    }
  }

  std::vector<NodeId> some_nodes() {
    std::vector<NodeId> some;
    for (std::size_t v = 0; v < n(); ++v) {
      if (number() < 0.5) some.emplace_back(static_cast<std::uint32_t>(v));
    }
    return some;
  }

  // The same cut for all that cross it, from either side for data of either direction.
  void add_cut(const PlanSession& session, std::vector<NodeId> side, PlanLevel& level) {
    const bool holds_root = std::count(side.begin(), side.end(), session.root) > 0;
    if (holds_root != (session.kind == SessionKind::kReduce)) return;
    if (holds_root) {
      std::vector<NodeId> others;
      for (std::size_t v = 0; v < n(); ++v) {
        const NodeId node(static_cast<std::uint32_t>(v));
        if (std::count(side.begin(), side.end(), node) == 0) others.push_back(node);
      }
      side = std::move(others);
    }
    for (const NodeId member : session.members) {
      if (std::count(side.begin(), side.end(), member) == 0) continue;
      level.packings.push_back({session.id, {{side, 1.0}}});
      return;
    }
  }

  void add_packing(const PlanSession& session, PlanLevel& level) {
    if (number() < 0.2) return;
    PlanPacking& packing = level.packings.emplace_back(PlanPacking{session.id, {}});
    const std::size_t cuts = 1 + pick(3);
    for (std::size_t c = 0; c < cuts; ++c) {
      PlanPacking::Cut cut{{session.members[1 + pick(session.members.size() - 1)]}, number()};
      for (std::size_t v = 0; v < n(); ++v) {
        const NodeId node(static_cast<std::uint32_t>(v));
        if (node != session.root && node != cut.far_side[0] && number() < 0.4) cut.far_side.push_back(node);
      }
      packing.cuts.push_back(std::move(cut));
    }
  }

  std::mt19937_64 random_;
  HandMade made_;
};

TEST_CASE("no duals prove a bound under a plan that exists") {
  std::size_t tight = 0;
  std::size_t levels = 0;
  for (std::uint64_t round = 0; round < 2000; ++round) {
    const std::uint64_t seed = first_seed() + round;
    CAPTURE(seed);
    RandomPlan random(seed);
    Plan& plan = random.plan();
    const Result<std::vector<LevelGap>> gaps = certified_gaps(plan);
    REQUIRE(gaps.is_ok());
    for (const LevelGap& gap : *gaps) {
      CHECK(gap.lp_gap >= -1e-9);
      CHECK(gap.rate_gap >= -1e-9);
      plan.certificate.levels[gap.level].bound_bps = gap.bound_bps;
      ++levels;
      if (gap.lp_gap < 10) ++tight;
    }
    // With the bounds that are proven, the plan as a whole is sound but for its collectives'.
    for (PlanCollective& collective : plan.collectives) collective.bound_bps = kUnlimited;
    for (const std::string& violation : find_violations(plan)) {
      CHECK_MESSAGE(violation.find("its bound is given as unlimited") != std::string::npos, violation);
    }
  }
  // The bounds are not so weak that nothing was tested.
  CHECK(tight * 10 > levels);
}

}  // namespace
}  // namespace square
