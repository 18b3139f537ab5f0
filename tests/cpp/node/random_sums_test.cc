// Broadcasts, reduces and all-reduces of several tenants at once, over random overlays with
// delay, loss and reordering, while plans change. SQUARE_SEED reruns one; SQUARE_SEEDS sets
// how many.
#include <doctest/doctest.h>

#include <cstdlib>
#include <set>

#include "node/sums.h"

using namespace square;
using namespace square::test;

namespace {

struct SumDraw {
  std::mt19937_64 random;
  std::size_t below(std::size_t end) { return static_cast<std::size_t>(random() % end); }
};

using Tree = std::vector<std::pair<int, int>>;

// A random tree from `root` that reaches the members; other nodes relay. In feeding order.
Tree random_tree(SumDraw& draw, std::size_t nodes, std::uint32_t root,
                 const std::vector<std::uint32_t>& members) {
  std::vector<int> order(nodes);
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[0], order[root]);
  for (std::size_t i = nodes - 1; i > 1; --i) std::swap(order[i], order[1 + draw.below(i)]);
  Tree links;
  for (std::size_t i = 1; i < nodes; ++i) links.emplace_back(order[draw.below(i)], order[i]);
  // From the leaves up: what leads to no member goes.
  std::set<int> needed(members.begin(), members.end());
  Tree kept;
  for (auto link = links.rbegin(); link != links.rend(); ++link) {
    if (!needed.contains(link->second)) continue;
    needed.insert(link->first);
    kept.push_back(*link);
  }
  return {kept.rbegin(), kept.rend()};
}

Tree reversed(const Tree& tree) {
  Tree links;
  for (auto link = tree.rbegin(); link != tree.rend(); ++link) links.emplace_back(link->second, link->first);
  return links;
}

struct Shape {
  std::size_t nodes = 0;
  struct Collective {
    CollectiveOp op = CollectiveOp::kBroadcast;
    std::vector<std::uint32_t> members;  // nodes, each once
    std::uint32_t root = 0;
  };
  std::vector<Collective> collectives;
};

PlanBuilder::Trees random_trees(SumDraw& draw, const Shape& shape, std::uint32_t root,
                                const std::vector<std::uint32_t>& members, bool reduce) {
  PlanBuilder::Trees trees;
  for (std::size_t t = 1 + draw.below(3); t > 0; --t) {
    const Tree tree = random_tree(draw, shape.nodes, root, members);
    trees.emplace_back(reduce ? reversed(tree) : tree, 1e5 * static_cast<double>(1 + draw.below(60)));
  }
  return trees;
}

std::shared_ptr<const Plan> random_plan(SumDraw& draw, const Shape& shape, Epoch epoch) {
  PlanBuilder builder(shape.nodes, epoch);
  for (std::uint32_t from = 0; from < shape.nodes; ++from) {
    for (std::uint32_t to = 0; to < shape.nodes; ++to) {
      if (from != to) builder.add_link(from, to, 1e6 * static_cast<double>(1 + draw.below(40)));
    }
  }
  for (const auto& collective : shape.collectives) {
    const auto& members = collective.members;
    if (collective.op == CollectiveOp::kBroadcast) {
      builder.add_broadcast(collective.root, members,
                            random_trees(draw, shape, collective.root, members, false));
    } else if (collective.op == CollectiveOp::kReduce) {
      builder.add_reduce(collective.root, members, random_trees(draw, shape, collective.root, members, true));
    } else {
      std::vector<PlanBuilder::Share> shares;
      for (const std::uint32_t root : members) {
        shares.push_back({root, 1 + draw.below(1'000'000), random_trees(draw, shape, root, members, true),
                          random_trees(draw, shape, root, members, false)});
      }
      builder.add_all_reduce(members, shares);
    }
  }
  return builder.build();
}

Shape random_shape(SumDraw& draw) {
  Shape shape;
  shape.nodes = 2 + draw.below(5);
  for (std::size_t c = 2 + draw.below(3); c > 0; --c) {
    Shape::Collective collective;
    collective.op =
        std::array{CollectiveOp::kBroadcast, CollectiveOp::kReduce, CollectiveOp::kAllReduce}[draw.below(3)];
    for (std::uint32_t node = 0; node < shape.nodes; ++node) {
      if (draw.below(4) != 0) collective.members.push_back(node);
    }
    while (collective.members.size() < 2) {
      collective.members = {static_cast<std::uint32_t>(draw.below(shape.nodes - 1)),
                            static_cast<std::uint32_t>(shape.nodes - 1)};
    }
    collective.root = collective.members[draw.below(collective.members.size())];
    shape.collectives.push_back(std::move(collective));
  }
  return shape;
}

void set_random_conditions(SumDraw& draw, Overlay& overlay, std::size_t nodes) {
  for (std::size_t from = 0; from < nodes; ++from) {
    for (std::size_t to = 0; to < nodes; ++to) {
      LinkConditions conditions;
      conditions.delay = std::chrono::microseconds(100 + draw.below(80'000));
      conditions.jitter = std::chrono::microseconds(draw.below(20'000));
      conditions.loss = draw.below(3) == 0 ? 0.0 : static_cast<double>(draw.below(100)) / 1000.0;
      if (from != to) overlay.simulation.set_conditions(node_name(from), node_name(to), conditions);
    }
  }
}

// One call of a collective, of either kind.
struct Call {
  std::unique_ptr<Broadcast> broadcast;
  std::unique_ptr<Sum> sum;
  std::vector<std::uint32_t> ranks;

  void post(Overlay& overlay, std::uint32_t rank) const {
    broadcast ? broadcast->post(overlay, rank) : sum->post(overlay, rank);
  }
  [[nodiscard]] bool is_over() const { return broadcast ? broadcast->is_over() : sum->is_over(); }
  [[nodiscard]] bool is_right() const { return broadcast ? broadcast->is_right() : sum->is_right(); }
  [[nodiscard]] const auto& outcomes() const { return broadcast ? broadcast->outcomes : sum->outcomes; }
};

Call random_call(SumDraw& draw, const Shape::Collective& collective, CollectiveId id, OperationId operation,
                 const std::vector<std::uint32_t>& ranks) {
  Call call;
  call.ranks = ranks;
  const std::size_t count = draw.below(5) == 0 ? draw.below(3) : draw.below(60'000);
  const auto root_rank =
      static_cast<std::uint32_t>(std::ranges::find(ranks, collective.root) - ranks.begin());
  if (collective.op == CollectiveOp::kBroadcast) {
    call.broadcast = std::make_unique<Broadcast>(id, ranks, random_bytes(draw.random, 4 * count), root_rank);
    call.broadcast->operation = operation;
    return call;
  }
  std::vector<std::vector<float>> inputs;
  for (std::size_t i = 0; i < ranks.size(); ++i) inputs.push_back(whole_floats(draw.random, count));
  const auto root = collective.op == CollectiveOp::kReduce ? std::optional(root_rank) : std::nullopt;
  call.sum = std::make_unique<Sum>(id, ranks, std::move(inputs), root, draw.below(2) == 0);
  call.sum->operation = operation;
  return call;
}

struct SumOutcome {
  bool all_right = false;
  std::uint64_t trace_hash = 0;
  std::uint64_t dropped = 0;
  std::string trouble;
};

enum class SumLines { kStay, kBreak };

SumOutcome run_sums(std::uint64_t seed, SumLines lines = SumLines::kStay) {
  SumDraw draw{std::mt19937_64(seed)};
  const Shape shape = random_shape(draw);
  Overlay overlay(seed, shape.nodes);
  set_random_conditions(draw, overlay, shape.nodes);
  std::vector<Call> calls;
  for (std::uint32_t c = 0; c < shape.collectives.size(); ++c) {
    // Now and then two ranks share a node.
    std::vector<std::uint32_t> ranks = shape.collectives[c].members;
    if (draw.below(3) == 0) ranks.push_back(ranks[draw.below(ranks.size())]);
    overlay.set_members(CollectiveId(c), ranks);
    for (std::uint32_t o = 0, end = 1 + static_cast<std::uint32_t>(draw.below(3)); o < end; ++o) {
      calls.push_back(random_call(draw, shape.collectives[c], CollectiveId(c), OperationId(o), ranks));
    }
  }
  SumOutcome outcome;
  if (!overlay.publish(random_plan(draw, shape, Epoch(1)))) {
    outcome.trouble = "the first plan was not installed";
    return outcome;
  }
  // Members call at moments of their own, each in order; plans change in between, and not
  // everywhere at once.
  std::uint32_t epoch = 1;
  const bool changes = draw.below(2) == 0;
  for (const Call& call : calls) {
    for (std::uint32_t rank = 0; rank < call.ranks.size(); ++rank) {
      if (draw.below(4) == 0) overlay.run([] { return false; }, std::chrono::milliseconds(draw.below(500)));
      if (changes && draw.below(8) == 0 && epoch < 4) {
        const auto plan = random_plan(draw, shape, Epoch(++epoch));
        auto installed = std::make_shared<std::size_t>(0);
        for (std::size_t n = 0; n < shape.nodes; ++n)
          overlay.node(n).install_plan(plan, [installed](Epoch) { ++*installed; });
        if (!overlay.run([&] { return *installed == shape.nodes; })) {
          outcome.trouble = "a plan was not installed";
          return outcome;
        }
        for (std::size_t n = 0; n < shape.nodes; ++n) {
          overlay.node(n).activate_plan(plan->epoch);
          if (draw.below(2) == 0)
            overlay.run([] { return false; }, std::chrono::milliseconds(draw.below(50)));
          if (draw.below(3) == 0 && rank + 1 < call.ranks.size()) call.post(overlay, rank++);
        }
      }
      call.post(overlay, rank);
    }
  }
  const auto is_over = [&] {
    return std::ranges::all_of(calls, [](const Call& call) { return call.is_over(); });
  };
  if (lines == SumLines::kBreak) Cuts(overlay, shape.nodes, seed).rage(is_over);
  overlay.run(is_over);
  outcome.all_right = true;
  for (const Call& call : calls) {
    if (call.is_right()) continue;
    outcome.all_right = false;
    for (const auto& status : call.outcomes()) {
      if (!status || !status->is_ok())
        outcome.trouble += "\n  " + (status ? status->to_string() : "never returned");
    }
    if (outcome.trouble.empty()) outcome.trouble = "wrong bytes";
  }
  outcome.trace_hash = overlay.simulation.trace_hash();
  outcome.dropped = overlay.simulation.frames_dropped();
  return outcome;
}

std::uint64_t sum_seed_count() {
  if (std::getenv("SQUARE_SEED") != nullptr) return 1;
  const char* text = std::getenv("SQUARE_SEEDS");
  return text == nullptr ? 500 : std::strtoull(text, nullptr, 10);
}

}  // namespace

TEST_CASE("sums and broadcasts of several tenants at once, with loss, while plans change") {
  const std::uint64_t first = seed_from_environment(1);
  std::uint64_t dropped = 0;
  for (std::uint64_t seed = first; seed < first + sum_seed_count(); ++seed) {
    const SumOutcome outcome = run_sums(seed);
    dropped += outcome.dropped;
    CHECK_MESSAGE(outcome.all_right, "rerun with SQUARE_SEED=", seed, ": ", outcome.trouble);
  }
  MESSAGE("seeds from ", first, ": ", sum_seed_count(), " runs, ", dropped, " frames lost on the way");
}

TEST_CASE("lines that break and come back end no sum") {
  const std::uint64_t first = seed_from_environment(1);
  for (std::uint64_t seed = first; seed < first + (sum_seed_count() + 1) / 2; ++seed) {
    const SumOutcome outcome = run_sums(seed, SumLines::kBreak);
    CHECK_MESSAGE(outcome.all_right, "rerun with SQUARE_SEED=", seed, ": ", outcome.trouble);
  }
}

TEST_CASE("the same seed gives the same trace, with sums too") {
  for (std::uint64_t seed = seed_from_environment(7); seed < seed_from_environment(7) + 3; ++seed) {
    CAPTURE(seed);
    CHECK(run_sums(seed).trace_hash == run_sums(seed).trace_hash);
  }
}
