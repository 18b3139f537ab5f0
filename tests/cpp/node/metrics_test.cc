// What a node says of its traffic is what moved, also over changes of plan.
#include "square/metrics.h"

#include <doctest/doctest.h>

#include "node/overlay.h"
#include "node/traffic_meter.h"

using namespace square;
using namespace square::test;

namespace {

using Trees = std::vector<std::pair<std::vector<std::pair<int, int>>, double>>;

// Says whose the collectives are, in their order, and what that makes each tenant's rate.
std::shared_ptr<const Plan> owned(const PlanBuilder& builder, const std::vector<std::string>& tenants) {
  Plan plan = *builder.build();
  std::map<std::string, double> rates;
  for (std::size_t i = 0; i < plan.collectives.size(); ++i) {
    plan.collectives[i].tenant = tenants[i];
    rates[tenants[i]] += plan.collectives[i].rate_bps;
  }
  for (const auto& [name, rate] : rates) plan.tenants.push_back({name, 1.0, rate});
  for (PlanLink& link : plan.links) {
    for (const PlanSession& session : plan.sessions) {
      for (const PlanStream& stream : session.streams) {
        if (std::ranges::count(stream.links, std::pair(link.from, link.to)) > 0)
          link.load_bps += stream.rate_bps;
      }
    }
  }
  return std::make_shared<const Plan>(std::move(plan));
}

PlanBuilder triangle(Epoch epoch) {
  PlanBuilder builder(3, epoch);
  builder.add_link(0, 1, 40 * kMbps);
  builder.add_link(1, 2, 40 * kMbps);
  builder.add_link(0, 2, 40 * kMbps);
  return builder;
}

NodeMetrics metrics_of(Overlay& overlay, std::size_t node) {
  std::optional<NodeMetrics> metrics;
  overlay.node(node).metrics([&](NodeMetrics now) { metrics = std::move(now); });
  REQUIRE(overlay.run([&] { return metrics.has_value(); }));
  return *metrics;
}

LinkMetrics link_of(const NodeMetrics& metrics, const std::string& peer, LinkDirection direction) {
  for (const LinkMetrics& link : metrics.links) {
    if (link.peer == peer && link.direction == direction) return link;
  }
  FAIL("no link ", metrics.node, " ", to_string(direction), " ", peer);
  return {};
}

SessionMetrics session_of(const NodeMetrics& metrics, std::uint32_t id) {
  const auto found = std::ranges::find(metrics.sessions, SessionId(id), &SessionMetrics::id);
  REQUIRE(found != metrics.sessions.end());
  return *found;
}

TenantMetrics tenant_of(const NodeMetrics& metrics, const std::string& name) {
  const auto found = std::ranges::find(metrics.tenants, name, &TenantMetrics::name);
  REQUIRE(found != metrics.tenants.end());
  return *found;
}

template <typename Metrics, typename Member>
std::uint64_t sum(const std::vector<Metrics>& all, Member member) {
  std::uint64_t total = 0;
  for (const Metrics& one : all) total += one.*member;
  return total;
}

std::uint64_t link_bytes(const NodeMetrics& metrics, LinkDirection direction) {
  std::uint64_t total = 0;
  for (const LinkMetrics& link : metrics.links) total += link.direction == direction ? link.bytes : 0;
  return total;
}

// Links and tenants are two ways to add up the same bytes.
void check_sums(const NodeMetrics& metrics) {
  CHECK(link_bytes(metrics, LinkDirection::kOut) == metrics.totals.bytes_sent);
  CHECK(link_bytes(metrics, LinkDirection::kIn) == metrics.totals.bytes_received);
  CHECK(sum(metrics.tenants, &TenantMetrics::bytes_sent) == metrics.totals.bytes_sent);
  CHECK(sum(metrics.tenants, &TenantMetrics::bytes_received) == metrics.totals.bytes_received);
  CHECK(sum(metrics.tenants, &TenantMetrics::bytes_delivered) == metrics.totals.bytes_delivered);
  CHECK(sum(metrics.tenants, &TenantMetrics::blocks_resent) == metrics.totals.blocks_resent);
  CHECK(sum(metrics.tenants, &TenantMetrics::bytes_in_transit) == metrics.totals.bytes_in_transit);
}

void broadcast(Overlay& overlay, Broadcast& call) {
  call.post_all(overlay);
  REQUIRE(overlay.run([&] { return call.is_over(); }));
  REQUIRE(call.is_right());
}

}  // namespace

TEST_CASE("links, sessions and tenants count the bytes that moved") {
  Overlay overlay(21, 3);
  PlanBuilder builder = triangle(Epoch(7));
  builder.add_broadcast(0, {0, 1, 2}, Trees{{{{0, 1}, {1, 2}}, 10 * kMbps}});
  builder.add_broadcast(0, {0, 2}, Trees{{{{0, 2}}, 20 * kMbps}});
  REQUIRE(overlay.publish(owned(builder, {"alice", "bob"})));
  overlay.set_members(CollectiveId(0), {0, 1, 2});
  overlay.set_members(CollectiveId(1), {0, 2});
  Broadcast first(CollectiveId(0), {0, 1, 2}, payload(1'000'000));
  Broadcast second(CollectiveId(1), {0, 2}, payload(300'000));
  broadcast(overlay, first);
  broadcast(overlay, second);

  const NodeMetrics source = metrics_of(overlay, 0);
  CHECK(source.node == "n0");
  CHECK(source.epoch == Epoch(7));
  check_sums(source);
  const LinkMetrics onward = link_of(source, "n1", LinkDirection::kOut);
  CHECK(onward.is_up);
  CHECK(onward.bytes == 1'000'000);
  CHECK(onward.blocks == session_of(source, 0).blocks_sent);
  CHECK(onward.wire_bytes > onward.bytes);
  CHECK(static_cast<double>(onward.wire_bytes) < 1.05 * static_cast<double>(onward.bytes));
  CHECK(onward.capacity_bps == 40 * kMbps);
  CHECK(onward.planned_bps == 10 * kMbps);
  CHECK(onward.pace_bps == 40 * kMbps);
  CHECK(onward.queue_blocks == 0);
  CHECK(onward.channels >= 1);
  CHECK(link_of(source, "n2", LinkDirection::kOut).bytes == 300'000);
  CHECK(session_of(source, 0).bytes_sent == 1'000'000);
  CHECK(session_of(source, 0).bytes_delivered == 0);
  CHECK(session_of(source, 1).tenant == "bob");
  CHECK(session_of(source, 1).planned_sent_bps == 20 * kMbps);
  CHECK(tenant_of(source, "alice").bytes_sent == 1'000'000);
  CHECK(tenant_of(source, "bob").planned_bps == 20 * kMbps);

  const NodeMetrics relay = metrics_of(overlay, 1);
  check_sums(relay);
  CHECK(relay.sessions.size() == 1);  // bob's does not come by
  CHECK(link_of(relay, "n0", LinkDirection::kIn).bytes == 1'000'000);
  CHECK(link_of(relay, "n0", LinkDirection::kIn).is_up);
  CHECK(session_of(relay, 0).bytes_sent == 1'000'000);
  CHECK(session_of(relay, 0).bytes_received == 1'000'000);
  CHECK(session_of(relay, 0).bytes_delivered == 1'000'000);
  CHECK(session_of(relay, 0).planned_received_bps == 10 * kMbps);
  CHECK(tenant_of(relay, "alice").bytes_in_transit == 0);

  const NodeMetrics destination = metrics_of(overlay, 2);
  check_sums(destination);
  CHECK(tenant_of(destination, "alice").bytes_delivered == 1'000'000);
  CHECK(tenant_of(destination, "bob").bytes_delivered == 300'000);
  CHECK(tenant_of(destination, "bob").bytes_sent == 0);
}

TEST_CASE("a late member's bytes are held, and a waiting stream's queued, on its tenant's account") {
  Overlay overlay(22, 3);
  PlanBuilder builder = triangle(Epoch(1));
  builder.add_broadcast(0, {0, 1, 2}, Trees{{{{0, 1}, {1, 2}}, 20 * kMbps}});
  REQUIRE(overlay.publish(owned(builder, {"alice"})));
  overlay.set_members(CollectiveId(0), {0, 1, 2});
  Broadcast call(CollectiveId(0), {0, 1, 2}, payload(2'000'000));
  call.post(overlay, 0);
  overlay.run([] { return false; }, std::chrono::milliseconds(200));
  CHECK(session_of(metrics_of(overlay, 0), 0).queue_blocks > 0);
  CHECK(link_of(metrics_of(overlay, 0), "n1", LinkDirection::kOut).queue_bytes > 0);
  overlay.run([] { return false; }, std::chrono::seconds(5));
  CHECK(tenant_of(metrics_of(overlay, 1), "alice").bytes_held == 2'000'000);
  call.post(overlay, 1);
  call.post(overlay, 2);
  REQUIRE(overlay.run([&] { return call.is_over(); }));
  const TenantMetrics after = tenant_of(metrics_of(overlay, 1), "alice");
  CHECK(after.bytes_held == 0);
  CHECK(after.bytes_in_transit == 0);
  CHECK(after.bytes_delivered == 2'000'000);
}

TEST_CASE("counters go on over changes of plan") {
  Overlay overlay(23, 3);
  const auto chain = [](Epoch epoch) {
    PlanBuilder builder = triangle(epoch);
    builder.add_broadcast(0, {0, 1, 2}, Trees{{{{0, 1}, {1, 2}}, 10 * kMbps}});
    return owned(builder, {"alice"});
  };
  REQUIRE(overlay.publish(chain(Epoch(1))));
  overlay.set_members(CollectiveId(0), {0, 1, 2});
  Broadcast call(CollectiveId(0), {0, 1, 2}, payload(2'000'000));
  call.post_all(overlay);
  overlay.run([] { return false; }, std::chrono::milliseconds(200));
  const NodeMetrics before = metrics_of(overlay, 0);
  CHECK(before.totals.bytes_sent > 100'000);
  CHECK_FALSE(call.is_over());

  PlanBuilder star = triangle(Epoch(2));
  star.add_broadcast(0, {0, 1, 2}, Trees{{{{0, 1}, {0, 2}}, 20 * kMbps}});
  REQUIRE(overlay.publish(owned(star, {"alice"})));
  REQUIRE(overlay.run([&] { return call.is_over(); }));
  CHECK(call.is_right());
  const NodeMetrics moved = metrics_of(overlay, 0);
  check_sums(moved);
  CHECK(moved.epoch == Epoch(2));
  CHECK(session_of(moved, 0).planned_sent_bps == 40 * kMbps);
  CHECK(session_of(moved, 0).bytes_sent >= session_of(before, 0).bytes_sent + 1'000'000);
  CHECK(link_of(moved, "n1", LinkDirection::kOut).bytes >= 2'000'000);
  CHECK(link_of(moved, "n1", LinkDirection::kOut).planned_bps == 20 * kMbps);
  CHECK(tenant_of(metrics_of(overlay, 2), "alice").bytes_delivered == 2'000'000);

  // The group leaves the plan: its session goes, what its tenant was sent stays.
  REQUIRE(overlay.publish(triangle(Epoch(3)).build()));
  REQUIRE(overlay.publish(triangle(Epoch(4)).build()));
  const NodeMetrics idle = metrics_of(overlay, 0);
  check_sums(idle);
  CHECK(idle.sessions.empty());
  CHECK(tenant_of(idle, "alice").bytes_sent == moved.totals.bytes_sent);
  CHECK(tenant_of(idle, "alice").planned_bps == 0);

  REQUIRE(overlay.publish(chain(Epoch(5))));
  const NodeMetrics back = metrics_of(overlay, 0);
  CHECK(session_of(back, 0).bytes_sent == moved.totals.bytes_sent);
  CHECK(tenant_of(back, "alice").planned_sent_bps == 10 * kMbps);
}

TEST_CASE("what is sent again is counted where it went, and sums hold with loss and delay") {
  const std::uint64_t seed = seed_from_environment(std::random_device()());
  MESSAGE("SQUARE_SEED=", seed);
  Overlay overlay(seed, 3);
  overlay.simulation.set_default_conditions(
      {std::chrono::milliseconds(10), std::chrono::milliseconds(3), 0.05});
  PlanBuilder builder = triangle(Epoch(1));
  builder.add_broadcast(0, {0, 1, 2}, Trees{{{{0, 1}, {1, 2}}, 20 * kMbps}, {{{0, 1}, {0, 2}}, 10 * kMbps}});
  builder.add_broadcast(1, {1, 2}, Trees{{{{1, 2}}, 10 * kMbps}});
  REQUIRE(overlay.publish(owned(builder, {"alice", "bob"})));
  overlay.set_members(CollectiveId(0), {0, 1, 2});
  overlay.set_members(CollectiveId(1), {1, 2});
  Broadcast first(CollectiveId(0), {0, 1, 2}, payload(4'000'000, seed));
  Broadcast second(CollectiveId(1), {1, 2}, payload(1'000'000, seed));
  first.post_all(overlay);
  second.post_all(overlay);
  REQUIRE(overlay.run([&] { return first.is_over() && second.is_over(); }));
  REQUIRE(first.is_right());
  const NodeMetrics source = metrics_of(overlay, 0);
  CHECK(source.totals.blocks_resent > 0);
  CHECK(session_of(source, 0).blocks_resent == source.totals.blocks_resent);
  CHECK(sum(source.links, &LinkMetrics::blocks_resent) >= source.totals.blocks_resent);
  for (std::size_t node = 0; node < 3; ++node) check_sums(metrics_of(overlay, node));
  const LinkMetrics sent = link_of(source, "n1", LinkDirection::kOut);
  CHECK(link_of(metrics_of(overlay, 1), "n0", LinkDirection::kIn).bytes <= sent.bytes);
}

TEST_CASE("a node remembers a bounded number of what left, and forgets nothing that holds memory") {
  TrafficMeter meter("n1");
  std::shared_ptr<const InstalledPlan> here;
  const auto plan_with = [](std::uint32_t number) {
    PlanBuilder builder(2, Epoch(number + 1));
    builder.add_link(0, 1, kMbps);
    builder.add_broadcast(0, {0, 1}, Trees{{{{0, 1}}, kMbps}});
    Plan plan = *owned(builder, {"tenant " + std::to_string(number)});
    plan.collectives[0].id = CollectiveId(number);
    plan.sessions[0].id = SessionId(number);
    plan.sessions[0].collective = CollectiveId(number);
    return std::make_shared<const Plan>(std::move(plan));
  };
  const auto follow = [&](const std::shared_ptr<const Plan>& plan) {
    const auto before =
        std::exchange(here, std::make_shared<const InstalledPlan>(plan, "n1", kMinWindowBytes));
    meter.add_links(*plan);
    meter.add(*here->find(plan->collectives[0].id));
    meter.follow(plan);
    if (!before) return;
    meter.remove_links(before->plan());
    meter.remove(*before->find(before->plan().collectives[0].id));
  };
  constexpr auto kSessions = static_cast<std::uint32_t>(2 * kMaxDepartedCounters);
  for (std::uint32_t number = 0; number < kSessions; ++number) {
    follow(plan_with(number));
    meter.link("n0", LinkDirection::kIn)->on_block(100);
    meter.session(SessionId(number))->on_received(100);
    if (number == 0) meter.session(SessionId(0))->on_taken(100);
  }
  NodeMetrics metrics = meter.snapshot();
  CHECK(metrics.sessions.size() == 1);
  CHECK(metrics.links.size() == 1);
  CHECK(metrics.links[0].bytes == 100 * kSessions);
  CHECK(metrics.tenants.size() == kMaxDepartedCounters + 2);  // the one here and the one with memory
  CHECK(tenant_of(metrics, "tenant 0").bytes_in_transit == 100);
  meter.session(SessionId(0))->on_released(100);
  follow(plan_with(kSessions - 2));
  metrics = meter.snapshot();
  CHECK(metrics.sessions[0].bytes_received == 100);  // goes on
  CHECK(metrics.tenants.size() == kMaxDepartedCounters + 1);
}
