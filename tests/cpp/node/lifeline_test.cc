// Trees for shares of an all-reduce that a plan gives nothing to. SQUARE_SEED reruns a random one.
#include "base/plan/lifeline.h"

#include <doctest/doctest.h>

#include <set>

#include "node/overlay.h"

using namespace square;
using namespace square::test;

namespace {

using Tree = std::vector<std::pair<int, int>>;

void add_both_ways(PlanBuilder& builder, std::uint32_t a, std::uint32_t b, double capacity_bps) {
  builder.add_link(a, b, capacity_bps);
  builder.add_link(b, a, capacity_bps);
}

// The roots 0 and 2 have shares; root 0's has no stream.
std::shared_ptr<Plan> chain_of_three() {
  PlanBuilder builder(3);
  add_both_ways(builder, 0, 1, 40e6);
  add_both_ways(builder, 1, 2, 10e6);
  builder.add_all_reduce({0, 1, 2},
                         {{0, 0, {}, {}}, {2, 1'000, {{{{0, 1}, {1, 2}}, 5e6}}, {{{{2, 1}, {1, 0}}, 5e6}}}});
  return std::make_shared<Plan>(*builder.build());
}

const PlanSession& session_of(const Plan& plan, SessionKind kind, std::uint32_t root) {
  for (const PlanSession& session : plan.sessions) {
    if (session.kind == kind && session.root == NodeId(root)) return session;
  }
  FAIL("no such session");
  return plan.sessions.front();
}

Tree tree_of(const PlanSession& session) {
  Tree links;
  for (const auto& [from, to] : session.streams.front().links) links.emplace_back(from.index(), to.index());
  return links;
}

// What is wrong with a lifeline, or nothing.
std::string trouble(const Plan& plan, const PlanSession& session) {
  if (session.streams.size() != 1) return std::to_string(session.streams.size()) + " streams";
  const bool is_reduce = session.kind == SessionKind::kReduce;
  auto links = session.streams.front().links;
  if (is_reduce) std::ranges::reverse(links);  // now away from the root, link by link
  std::set<NodeId> reached{session.root};
  std::set<NodeId> with_children;
  for (const auto& [from, to] : links) {
    const NodeId near = is_reduce ? to : from;
    const NodeId far = is_reduce ? from : to;
    if (!reached.contains(near)) return "a link that does not go on from the tree";
    if (!reached.insert(far).second) return "a node that is entered twice";
    if (near != session.root && !plan.nodes[near.index()].relays) return "a node that does not relay";
    with_children.insert(near);
    const auto known = std::ranges::find_if(
        plan.links, [&](const PlanLink& link) { return link.from == from && link.to == to; });
    if (known == plan.links.end()) return "a link that there is not";
    if (known->avoided) return "an avoided link";
    if (session.streams.front().rate_bps > kLifelinePart * known->capacity_bps)
      return "too large a guarantee";
  }
  for (const NodeId member : session.members) {
    if (!reached.contains(member)) return "a member is not reached";
  }
  for (const NodeId node : reached) {
    const bool is_member = std::ranges::find(session.members, node) != session.members.end();
    if (!is_member && !with_children.contains(node)) return "a leaf that is no member";
  }
  return {};
}

bool are_equal(const Plan& a, const Plan& b) { return to_json(a) == to_json(b); }

}  // namespace

TEST_CASE("a share without streams gets a tree from its root, and one to it, in the order of data") {
  const auto plan = chain_of_three();
  const auto changed = with_lifelines(plan);
  const PlanSession& up = session_of(*changed, SessionKind::kReduce, 0);
  const PlanSession& down = session_of(*changed, SessionKind::kMulticast, 0);
  CHECK(tree_of(up) == Tree{{2, 1}, {1, 0}});
  CHECK(tree_of(down) == Tree{{0, 1}, {1, 2}});
  for (const PlanSession* session : {&up, &down}) {
    CHECK(session->streams.front().rate_bps == doctest::Approx(kLifelinePart * 10e6));
    CHECK(session->rate_bps == session->streams.front().rate_bps);
  }
  // The shares that have streams stay as they are, and so does the plan that was given.
  CHECK(tree_of(session_of(*changed, SessionKind::kReduce, 2)) == Tree{{0, 1}, {1, 2}});
  CHECK(session_of(*changed, SessionKind::kReduce, 2).streams.size() == 1);
  CHECK(plan->sessions.front().streams.empty());
}

TEST_CASE("a plan that lacks nothing is left alone") {
  PlanBuilder builder(2);
  add_both_ways(builder, 0, 1, 40e6);
  builder.add_all_reduce({0, 1}, {{0, 1'000, {{{{1, 0}}, 1e6}}, {{{{0, 1}}, 1e6}}}});
  builder.add_broadcast(0, {0, 1}, {});               // no share: nothing runs on, so it needs no way
  builder.add_all_reduce({0}, {{0, 1'000, {}, {}}});  // one node needs no stream
  const auto plan = builder.build();
  CHECK(with_lifelines(plan) == plan);
}

TEST_CASE("every node makes the same trees of the plan that it was sent") {
  const auto plan = chain_of_three();
  const auto sent = plan_from_json(to_json(*plan));
  REQUIRE(sent.is_ok());
  CHECK(are_equal(*with_lifelines(plan), *with_lifelines(std::make_shared<const Plan>(*sent))));
}

TEST_CASE("lifelines go around avoided links and nodes that relay nothing") {
  // 0 - 1 - 2 and, longer, 0 - 3 - 4 - 2.
  const auto square_plan = [] {
    PlanBuilder builder(5);
    add_both_ways(builder, 0, 1, kUnlimited);
    add_both_ways(builder, 1, 2, kUnlimited);
    add_both_ways(builder, 0, 3, kUnlimited);
    add_both_ways(builder, 3, 4, kUnlimited);
    add_both_ways(builder, 4, 2, kUnlimited);
    builder.add_all_reduce({0, 2}, {{0, 0, {}, {}}});
    return std::make_shared<Plan>(*builder.build());
  };
  const auto plan = square_plan();
  CHECK(tree_of(session_of(*with_lifelines(plan), SessionKind::kMulticast, 0)) == Tree{{0, 1}, {1, 2}});
  CHECK(session_of(*with_lifelines(plan), SessionKind::kMulticast, 0).rate_bps ==
        doctest::Approx(kLifelinePart * kLifelineCapacityBps));
  plan->links[0].avoided = true;  // 0 to 1, not back
  CHECK(tree_of(session_of(*with_lifelines(plan), SessionKind::kMulticast, 0)) ==
        Tree{{0, 3}, {3, 4}, {4, 2}});
  CHECK(tree_of(session_of(*with_lifelines(plan), SessionKind::kReduce, 0)) == Tree{{2, 1}, {1, 0}});
  const auto leaf = square_plan();
  leaf->nodes[1].relays = false;
  CHECK(tree_of(session_of(*with_lifelines(leaf), SessionKind::kMulticast, 0)) ==
        Tree{{0, 3}, {3, 4}, {4, 2}});
  CHECK(tree_of(session_of(*with_lifelines(leaf), SessionKind::kReduce, 0)) == Tree{{2, 4}, {4, 3}, {3, 0}});
}

TEST_CASE("roots and leaves need not relay") {
  const auto plan = chain_of_three();
  plan->nodes[0].relays = false;
  plan->nodes[2].relays = false;
  const auto changed = with_lifelines(plan);
  CHECK(trouble(*changed, session_of(*changed, SessionKind::kReduce, 0)) == "");
  CHECK(trouble(*changed, session_of(*changed, SessionKind::kMulticast, 0)) == "");
}

TEST_CASE("a session whose members cannot be reached stays as it is, alone") {
  const auto plan = chain_of_three();
  plan->links[3].avoided = true;  // 2 to 1: node 2 hears, and is not heard
  const auto changed = with_lifelines(plan);
  CHECK(session_of(*changed, SessionKind::kReduce, 0).streams.empty());
  CHECK(session_of(*changed, SessionKind::kReduce, 0).rate_bps == 0);
  CHECK(tree_of(session_of(*changed, SessionKind::kMulticast, 0)) == Tree{{0, 1}, {1, 2}});
  plan->nodes[1].relays = false;
  const auto cut = with_lifelines(plan);
  CHECK(session_of(*cut, SessionKind::kMulticast, 0).streams.empty());
  CHECK(session_of(*cut, SessionKind::kReduce, 2).streams.size() == 1);  // the planner's own
}

TEST_CASE("random overlays: lifelines are trees within the rules, wherever there are any") {
  const bool is_one = std::getenv("SQUARE_SEED") != nullptr;
  const std::uint64_t first = seed_from_environment(1);
  std::size_t found = 0;
  for (std::uint64_t seed = first; seed < first + (is_one ? 1 : 300); ++seed) {
    std::mt19937_64 random(seed);
    const auto nodes = static_cast<std::uint32_t>(2 + random() % 9);
    PlanBuilder builder(nodes);
    for (std::uint32_t from = 0; from < nodes; ++from) {
      for (std::uint32_t to = 0; to < nodes; ++to) {
        if (from != to && random() % 3 == 0)
          builder.add_link(from, to, static_cast<double>(1 + random() % 100) * 1e6);
      }
    }
    std::vector<std::uint32_t> members;
    for (std::uint32_t node = 0; node < nodes; ++node) {
      if (random() % 2 == 0) members.push_back(node);
    }
    if (members.size() < 2) members = {0, 1};
    std::vector<PlanBuilder::Share> shares;
    for (const std::uint32_t root : members) shares.push_back({root, 0, {}, {}});
    builder.add_all_reduce(members, shares);
    const auto plan = std::make_shared<Plan>(*builder.build());
    for (PlanNode& node : plan->nodes) node.relays = random() % 5 != 0;
    for (PlanLink& link : plan->links) link.avoided = random() % 8 == 0;
    const auto changed = with_lifelines(plan);
    CHECK_MESSAGE(are_equal(*changed, *with_lifelines(plan)), "SQUARE_SEED=" << seed);
    for (const PlanSession& session : changed->sessions) {
      if (session.streams.empty()) continue;
      ++found;
      CHECK_MESSAGE(trouble(*changed, session) == "", "SQUARE_SEED=" << seed);
    }
  }
  if (!is_one) CHECK(found > 300);
}
