// A node's part of a plan says the same to it as the whole. SQUARE_SEED reruns a random one.
#include "controller/plan_parts.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <limits>
#include <random>

#include "base/plan/lifeline.h"
#include "controller/part_reader.h"
#include "controller/session_numbers.h"
#include "node/plan/installed_plan.h"
#include "square/planner.h"

using namespace square;
using namespace square::controller;

namespace {

using PlanPtr = std::shared_ptr<const Plan>;
using Random = std::mt19937;

constexpr std::size_t kWindowBytes = std::size_t{16} << 20U;

std::uint32_t below(Random& random, std::size_t bound) {
  return static_cast<std::uint32_t>(random() % bound);
}

// Plans of an overlay that changes a little between them.
class ChangingOverlay {
 public:
  explicit ChangingOverlay(unsigned seed) : random_(seed) {
    const std::size_t nodes = 3 + random_() % 6;
    for (std::size_t v = 0; v < nodes; ++v) {
      TopologyNode node{"n" + std::to_string(v)};
      if (random_() % 3 == 0) node.egress_bps = 1e7 * (1 + below(random_, 50));
      if (random_() % 3 == 0) node.ingress_bps = 1e7 * (1 + below(random_, 50));
      REQUIRE(scenario_.topology.add_node(node).is_ok());
    }
    for (std::uint32_t a = 0; a < nodes; ++a) {
      for (std::uint32_t b = 0; b < nodes; ++b) {
        if (a != b && (b == (a + 1) % nodes || random_() % 2 == 0)) links_[{a, b}] = capacity();
      }
    }
    scenario_.policy.name = "exact";
    for (int t = 0; t < 4; ++t) scenario_.tenants.push_back({"t" + std::to_string(t), 1.0 + t});
  }

  PlanPtr next() {
    change();
    Scenario scenario = scenario_;
    for (const auto& [ends, capacity_bps] : links_) {
      const Duration latency = std::chrono::milliseconds(below(random_, 3) * 20);
      REQUIRE(scenario.topology.add_link(NodeId(ends.first), NodeId(ends.second), {capacity_bps, latency, 0})
                  .is_ok());
    }
    auto made = make_quick_plan(scenario);
    REQUIRE_MESSAGE(made.is_ok(), made.status().to_string());
    Plan plan = std::move(made->plan);
    plan.epoch = Epoch(++epoch_);
    plan.origin = {7, 3};
    starve(plan);
    renumber_sessions(plan, numbers_);
    return std::make_shared<const Plan>(std::move(plan));
  }

  Random& random() { return random_; }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> names{"stranger"};
    for (std::uint32_t v = 0; v < scenario_.topology.node_count(); ++v)
      names.push_back(scenario_.topology.node(NodeId(v)).name);
    return names;
  }

 private:
  double capacity() { return 1e6 * (1 + below(random_, 900)); }

  void change() {
    for (auto& [ends, capacity_bps] : links_) {
      if (random_() % 16 == 0) capacity_bps = capacity();
    }
    std::vector<CollectiveSpec>& collectives = scenario_.collectives;
    std::erase_if(collectives, [&](const CollectiveSpec&) { return random_() % 6 == 0; });
    for (std::size_t added = 1 + random_() % 4; added > 0; --added) {
      CollectiveSpec spec;
      spec.id = CollectiveId(next_collective_++);
      spec.tenant = "t" + std::to_string(below(random_, 4));
      spec.group = "g" + std::to_string(spec.id.value() / 3);
      spec.op = random_() % 2 == 0 ? CollectiveOp::kAllReduce : CollectiveOp::kBroadcast;
      spec.size_bytes = 1U << (10 + below(random_, 14));
      for (std::uint32_t v = 0; v < scenario_.topology.node_count(); ++v) {
        if (random_() % 3 == 0) spec.members.emplace_back(v);
      }
      if (spec.members.size() < 2) spec.members = {NodeId(0), NodeId(2)};
      spec.root = spec.members.front();
      collectives.push_back(spec);
    }
  }

  // Some shares of all-reduces get nothing.
  void starve(Plan& plan) {
    for (PlanSession& session : plan.sessions) {
      if (!session.pair || random_() % 8 != 0) continue;
      session.streams.clear();
      session.rate_bps = 0;
    }
  }

  Random random_;
  Scenario scenario_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, double> links_;
  SessionNumbers numbers_;
  std::uint32_t epoch_ = 0;
  std::uint32_t next_collective_ = 5;
};

// Over the wire.
PlanPtr read(PartReader& reader, const PlanParts& parts, const std::string& node, const PlanParts* base) {
  v1::ControllerEvent event;
  REQUIRE(event.ParseFromString(parts.event_for(node, base)->SerializeAsString()));
  auto plan = reader.read(event.plan());
  REQUIRE_MESSAGE(plan.is_ok(), plan.status().to_string());
  return *plan;
}

bool are_equal(const LocalStream& a, const LocalStream& b) {
  return a.key == b.key && a.collective == b.collective && a.tenant == b.tenant &&
         a.tenant_weight == b.tenant_weight && a.kind == b.kind && a.rate_bps == b.rate_bps &&
         a.weight == b.weight && a.parents == b.parents && a.children == b.children &&
         a.session->id == b.session->id && a.is_member == b.is_member && a.is_root == b.is_root &&
         a.is_destination == b.is_destination && a.depth == b.depth && a.latency == b.latency &&
         a.window->blocks == b.window->blocks && a.window->credit_blocks == b.window->credit_blocks;
}

bool are_equal(const PlanSession& a, const PlanSession& b) {
  return a.id == b.id && a.collective == b.collective && a.kind == b.kind && a.root == b.root &&
         a.members == b.members && a.offset_bytes == b.offset_bytes && a.size_bytes == b.size_bytes &&
         a.pair == b.pair && a.rate_bps == b.rate_bps && a.streams.size() == b.streams.size();
}

std::vector<SessionId> ids_of(const InstalledPlan& plan, CollectiveId collective) {
  std::vector<SessionId> ids;
  if (const auto installed = plan.find(collective)) {
    for (const PlanSession& session : installed->sessions()) ids.push_back(session.id);
  }
  return ids;
}

// What a node does otherwise by its part than by the whole, or nothing.
std::string difference(const InstalledPlan& whole, const InstalledPlan& part) {
  if (whole.self() != part.self() || whole.epoch() != part.epoch()) return "who and when";
  if (!std::ranges::equal(whole.streams(), part.streams(),
                          [](const LocalStream* a, const LocalStream* b) { return are_equal(*a, *b); })) {
    return "streams";
  }
  for (const PlanNode& peer : whole.plan().nodes) {
    if (whole.pace_bps(peer.name) != part.pace_bps(peer.name)) return "pace to " + peer.name;
    if (whole.pace_from_bps(peer.name) != part.pace_from_bps(peer.name)) return "pace from " + peer.name;
  }
  if (whole.egress_bps() != part.egress_bps()) return "egress";
  if (whole.fastest_link_bps() != part.fastest_link_bps()) return "fastest link";
  for (const PlanCollective& collective : part.plan().collectives) {
    if (ids_of(whole, collective.id) != ids_of(part, collective.id)) return "sessions of a collective";
    const PlanCollective* const same = whole.plan().find_collective(collective.id);
    if (same == nullptr || same->tenant != collective.tenant || same->group != collective.group ||
        same->op != collective.op || same->weight != collective.weight ||
        same->size_bytes != collective.size_bytes || same->rate_bps != collective.rate_bps) {
      return "a collective";
    }
  }
  for (const PlanSession& session : whole.plan().sessions) {
    const auto& its = *whole.find(session.collective);
    const auto parts = part.find(session.collective);
    const PlanSession* const same = parts ? parts->session(session.id) : nullptr;
    const bool is_member = std::ranges::find(session.members, whole.self()) != session.members.end();
    if (same == nullptr && (is_member || !its.streams_of(session.id).empty())) return "a session is missing";
    if (same == nullptr) continue;
    if (!are_equal(session, *same)) return "a session";
    for (const std::uint64_t bytes : {1U << 10U, 1U << 20U, 1U << 30U}) {
      if (its.block_bytes(session.id, bytes) != parts->block_bytes(session.id, bytes)) return "block sizes";
    }
    if (its.largest_block_bytes(session.id) != parts->largest_block_bytes(session.id)) return "block sizes";
  }
  return {};
}

unsigned first_seed() {
  const char* const seed = std::getenv("SQUARE_SEED");
  return seed == nullptr ? 0 : static_cast<unsigned>(std::atoi(seed));
}

constexpr unsigned kSeeds = 40;
constexpr int kChanges = 6;

}  // namespace

TEST_CASE("plan parts: a node does by its part what it does by the whole plan") {
  for (unsigned seed = first_seed(); seed < first_seed() + kSeeds; ++seed) {
    ChangingOverlay overlay(seed);
    const PlanPtr plan = overlay.next();
    const PlanParts parts(plan);
    for (const std::string& name : overlay.names()) {
      PartReader reader(name);
      const PlanPtr part = read(reader, parts, name, nullptr);
      const std::string told = difference({plan, name, kWindowBytes}, {part, name, kWindowBytes});
      CHECK_MESSAGE(told.empty(), told << " at " << name << ", SQUARE_SEED=" << seed);
      for (const PlanLink& link : part->links)
        CHECK((part->nodes[link.from.index()].name == name || part->nodes[link.to.index()].name == name));
    }
  }
}

TEST_CASE("plan parts: differences put together are the plan") {
  for (unsigned seed = first_seed(); seed < first_seed() + kSeeds; ++seed) {
    ChangingOverlay overlay(seed);
    std::map<std::string, PartReader> readers;
    std::shared_ptr<const PlanParts> base;
    for (int change = 0; change < kChanges; ++change) {
      const PlanPtr plan = overlay.next();
      const auto parts = std::make_shared<const PlanParts>(plan);
      for (const std::string& name : overlay.names()) {
        // Sometimes a node has lost its line.
        if (change == 0 || overlay.random()() % 8 == 0) readers.insert_or_assign(name, PartReader(name));
        const bool has_base =
            base && !readers.at(name).lacks_base(parts->event_for(name, base.get())->plan());
        const PlanPtr part = read(readers.at(name), *parts, name, has_base ? base.get() : nullptr);
        PartReader fresh(name);
        CHECK(to_json(*part) == to_json(*read(fresh, *parts, name, nullptr)));
        const std::string told = difference({plan, name, kWindowBytes}, {part, name, kWindowBytes});
        CHECK_MESSAGE(told.empty(), told << " at " << name << ", SQUARE_SEED=" << seed);
      }
      base = parts;
    }
  }
}

TEST_CASE("plan parts: what stays the same is not told again") {
  ChangingOverlay overlay(1);
  const PlanPtr plan = overlay.next();
  Plan later = *plan;
  later.epoch = Epoch(plan->epoch.value() + 1);
  const PlanParts before(plan);
  const PlanParts same(std::make_shared<const Plan>(later), &before);
  const v1::PlanPart part = same.event_for("n0", &before)->plan();
  CHECK(part.base_epoch() == plan->epoch.value());
  CHECK(part.nodes_size() + part.links_size() + part.sessions_size() + part.collectives_size() == 0);
  later.links.front().capacity_bps *= 2;
  const PlanParts faster(std::make_shared<const Plan>(later), &before);
  CHECK(faster.event_for("n0", &before)->plan().links_size() > 0);
  CHECK(faster.event_for("n0", &before)->plan().sessions_size() == 0);

  // Numbers of another controller mean other things.
  later.origin = {7, 4};
  const PlanParts others(std::make_shared<const Plan>(later));
  CHECK(others.event_for("n0", &before)->plan().base_epoch() == 0);
}

TEST_CASE(
    "plan parts: a collective is since the plan that changed it, or what it weighs, or who its nodes are") {
  ChangingOverlay overlay(1);
  Plan plan = *overlay.next();
  REQUIRE(plan.collectives.size() > 1);
  plan.collectives.back().tenant = plan.collectives.front().tenant == "t0" ? "t1" : "t0";
  plan.epoch = Epoch(1);
  PlanParts base(std::make_shared<const Plan>(plan));
  CHECK(base.oldest() == Epoch(1));
  // By numbers, as told to whoever has a part in all of them.
  const auto since = [&](const PlanParts& parts, const PlanCollective& collective) {
    for (const std::string& name : overlay.names()) {
      PartReader reader(name);
      const PlanPtr part = read(reader, parts, name, nullptr);
      if (const PlanCollective* const told = part->find_collective(collective.id))
        return told->since->value();
    }
    return Epoch::value_type{0};
  };
  const auto next = [&](Epoch::value_type epoch, const auto& change) {
    Plan later = plan;
    later.epoch = Epoch(epoch);
    change(later);
    return PlanParts(std::make_shared<const Plan>(later), &base, Epoch(0));
  };
  const auto& first = plan.collectives.front();
  const auto& last = plan.collectives.back();
  const PlanParts same = next(2, [](Plan&) {});
  CHECK(same.oldest() == Epoch(1));
  const PlanParts third = PlanParts(
      [&] {
        Plan later = plan;
        later.epoch = Epoch(3);
        return std::make_shared<const Plan>(later);
      }(),
      &same);
  CHECK(third.oldest() == Epoch(1));
  const PlanParts slower = next(2, [](Plan& later) { later.collectives.front().rate_bps /= 2; });
  CHECK(since(slower, first) == 2);
  CHECK(since(slower, last) == 1);
  const PlanParts other_way = next(2, [&](Plan& later) {
    for (PlanSession& session : later.sessions) {
      if (session.collective == last.id) session.rate_bps /= 2;
    }
  });
  CHECK(since(other_way, first) == 1);
  CHECK(since(other_way, last) == 2);
  const PlanParts heavier = next(2, [&](Plan& later) {
    for (PlanTenant& tenant : later.tenants) tenant.weight *= tenant.name == last.tenant ? 2 : 1;
  });
  CHECK(since(heavier, first) == 1);
  CHECK(since(heavier, last) == 2);
  CHECK(next(2, [](Plan& later) { later.nodes.front().name = "other"; }).oldest() == Epoch(2));
  CHECK(next(2, [](Plan& later) { later.nodes.push_back({"more"}); }).oldest() == Epoch(1));
  CHECK(next(2, [](Plan& later) { later.origin.term += 1; }).oldest() == Epoch(2));
  CHECK(PlanParts(
            [&] {
              Plan later = plan;
              later.epoch = Epoch(2);
              return std::make_shared<const Plan>(later);
            }(),
            &base, Epoch(1))
            .oldest() == Epoch(2));
}

TEST_CASE("plan parts: kept collectives are told as before, also to a node that has no plan yet") {
  ChangingOverlay overlay(3);
  const PlanPtr first = overlay.next();
  const auto before = std::make_shared<const PlanParts>(first);
  PlanPtr second;
  // Until one has changed that both have.
  const auto changed = [&]() -> const PlanCollective* {
    for (const PlanCollective& collective : second->collectives) {
      const PlanParts parts(second, before.get());
      if (before->since(collective.id) && parts.since(collective.id) == second->epoch) return &collective;
    }
    return nullptr;
  };
  do second = overlay.next();
  while (changed() == nullptr || !can_keep(*first, *second));
  const CollectiveId id = changed()->id;
  const PlanParts after(second, before.get(), Epoch(0), {before, {id, CollectiveId(1'000'000)}});
  CHECK(after.kept() == std::set{id});
  CHECK(after.since(id) == first->epoch);
  CHECK(after.oldest() == first->epoch);
  std::size_t told = 0;
  for (const std::string& name : overlay.names()) {
    PartReader old_reader(name);
    PartReader new_reader(name);
    const PlanPtr old_part = read(old_reader, *before, name, nullptr);
    const PlanPtr new_part = read(new_reader, after, name, nullptr);
    if (old_part->find_collective(id) == nullptr) continue;
    ++told;
    REQUIRE(new_part->find_collective(id) != nullptr);
    CHECK(new_part->find_collective(id)->since == first->epoch);
    const auto sessions_in = [&](const Plan& plan) {
      std::vector<PlanSession> sessions;
      std::ranges::copy_if(plan.sessions, std::back_inserter(sessions),
                           [&](const PlanSession& session) { return session.collective == id; });
      return sessions;
    };
    const auto old_sessions = sessions_in(*old_part);
    const auto new_sessions = sessions_in(*new_part);
    REQUIRE(old_sessions.size() == new_sessions.size());
    for (std::size_t i = 0; i < old_sessions.size(); ++i) {
      CHECK(old_sessions[i].id == new_sessions[i].id);
      CHECK(old_sessions[i].rate_bps == new_sessions[i].rate_bps);
      CHECK(old_sessions[i].block_limit_bytes == new_sessions[i].block_limit_bytes);
      CHECK(old_sessions[i].streams.size() == new_sessions[i].streams.size());
    }
  }
  CHECK(told > 1);
}

TEST_CASE("part reader: what no plan can be is an error, and so is a base that is not here") {
  ChangingOverlay overlay(2);
  const PlanPtr plan = overlay.next();
  const PlanParts parts(plan);
  const v1::PlanPart good = parts.event_for("n0")->plan();
  REQUIRE(PartReader("n0").read(good).is_ok());
  const auto code_of = [](const v1::PlanPart& part) { return PartReader("n0").read(part).status().code(); };
  v1::PlanPart wrong = good;
  wrong.set_base_epoch(9);
  CHECK(PartReader("n0").lacks_base(wrong));
  CHECK(code_of(wrong) == StatusCode::kFailedPrecondition);
  wrong = good;
  *wrong.mutable_sessions(0) = "\xff\xff";
  CHECK(code_of(wrong) == StatusCode::kInvalidArgument);
  wrong = good;
  wrong.mutable_nodes()->RemoveLast();
  wrong.mutable_nodes()->RemoveLast();
  CHECK(code_of(wrong) == StatusCode::kInvalidArgument);
  wrong = good;
  wrong.clear_collectives();
  CHECK(code_of(wrong) == StatusCode::kInvalidArgument);
  wrong = good;
  wrong.mutable_links()->SwapElements(0, 1);
  CHECK(code_of(wrong) == StatusCode::kInvalidArgument);
  wrong = good;
  v1::PartLink link;
  REQUIRE(link.ParseFromString(good.links(0)));
  link.set_capacity_bps(std::numeric_limits<double>::quiet_NaN());
  *wrong.mutable_links(0) = link.SerializeAsString();
  CHECK(code_of(wrong) == StatusCode::kInvalidArgument);
}

TEST_CASE("part reader: it keeps few plans, and knows which") {
  ChangingOverlay overlay(3);
  PartReader reader("n0");
  std::vector<std::shared_ptr<const PlanParts>> made;
  for (std::size_t i = 0; i <= kKeptParts; ++i) {
    made.push_back(std::make_shared<const PlanParts>(overlay.next()));
    read(reader, *made.back(), "n0", nullptr);
  }
  const PlanParts next(overlay.next());
  CHECK(reader.lacks_base(next.event_for("n0", made[0].get())->plan()));
  for (std::size_t i = 1; i < made.size(); ++i)
    CHECK_FALSE(reader.lacks_base(next.event_for("n0", made[i].get())->plan()));
}
