// What a new plan leaves as it is goes on as it is: its streams, and what runs on them.
#include <doctest/doctest.h>

#include "node/frames/frame_handler.h"
#include "node/links/outgoing_link.h"
#include "node/parts.h"
#include "node/tenants.h"

using namespace square;
using namespace square::test;
using namespace std::chrono_literals;

namespace {

constexpr double kRate = 5e6;

// n0 -> n1 -> n2: so many broadcasts of all three, each since the plan that brought it, but for the last
// ones, which are new in every plan.
std::shared_ptr<const Plan> extended(std::uint32_t epoch, std::uint32_t broadcasts,
                                     std::uint32_t changing = 0) {
  PlanBuilder builder(3, Epoch(epoch));
  builder.add_link(0, 1, 100e6);
  builder.add_link(1, 2, 100e6);
  for (std::uint32_t i = 0; i < broadcasts; ++i)
    builder.add_broadcast(0, {0, 1, 2}, {{{{0, 1}, {1, 2}}, kRate}});
  Plan plan = *builder.build();
  for (std::uint32_t i = 0; i < broadcasts - changing; ++i)
    plan.collectives[i].since = Epoch(i < 1 ? 1 : i + 1);
  return std::make_shared<const Plan>(plan);
}

std::size_t reserved(const InstalledPlan& plan) {
  std::size_t bytes = 0;
  for (const LocalStream* stream : plan.streams()) {
    const auto collective = plan.find(stream->collective);
    bytes += stream->window->blocks * collective->largest_block_bytes(stream->key.session);
  }
  return bytes;
}

// A long broadcast over three plans, and how long it took.
double seconds_over_plans(std::uint32_t last, std::uint32_t changing) {
  Overlay overlay(5, 3);
  REQUIRE(overlay.publish(extended(1, 1 + changing, changing)));
  overlay.set_members(CollectiveId(0), {0, 1, 2});
  Broadcast broadcast(CollectiveId(0), {0, 1, 2}, payload(4'000'000));
  broadcast.post_all(overlay);
  const TimePoint start = overlay.simulation.clock().now();
  for (std::uint32_t epoch = 2; epoch <= last; ++epoch) {
    pass(overlay, 50ms);
    REQUIRE(overlay.publish(extended(epoch, epoch + changing, changing)));
  }
  REQUIRE(overlay.run([&] { return broadcast.is_over(); }));
  REQUIRE(broadcast.is_right());
  for (std::size_t node = 0; node < 3; ++node) {
    const NodeStatistics statistics = statistics_of(overlay, node);
    CHECK(statistics.frames_refused == 0);
    CHECK(statistics.blocks_resent == 0);
  }
  return seconds_between(start, std::ranges::max(broadcast.finished_at));
}

}  // namespace

TEST_CASE("what runs in a collective that stays as it is does not notice new plans") {
  const double undisturbed = seconds_over_plans(1, 0);
  CHECK(seconds_over_plans(4, 0) == doctest::Approx(undisturbed).epsilon(0.001));
}

TEST_CASE(
    "a plan shares what is as it was, of the same origin alone, and keeps its streams' windows within "
    "bounds") {
  constexpr std::size_t kWindow = std::size_t{1} << 20U;
  std::shared_ptr<const InstalledPlan> before;
  for (std::uint32_t epoch = 1; epoch <= 40; ++epoch) {
    const auto plan =
        std::make_shared<const InstalledPlan>(extended(epoch, epoch), "n1", kWindow, before.get());
    CHECK(plan->find(CollectiveId(0))->epoch() == Epoch(1));
    CHECK(reserved(*plan) <= kWindow + epoch * kMinWindowBlocks * kMaxBlockBytes / 16);
    std::size_t fresh = 0;
    plan->each_not_in(before.get(), [&](const auto&) { ++fresh; });
    CHECK(fresh == 1);
    std::size_t gone = 0;
    if (before) before->each_not_in(plan.get(), [&](const auto&) { ++gone; });
    CHECK(gone == 0);
    // As one that makes everything anew.
    const InstalledPlan anew(extended(epoch, epoch), "n1", kWindow);
    CHECK(reserved(anew) == reserved(*plan));
    before = plan;
  }
  Plan others = *extended(41, 40);
  others.origin = {7, 2};
  const InstalledPlan other(std::make_shared<const Plan>(others), "n1", kWindow, before.get());
  CHECK(other.find(CollectiveId(0)) != before->find(CollectiveId(0)));
}

TEST_CASE("an installed plan opens what is new in it alone, and what no live plan has any more goes") {
  struct Opened final : LivePlans::Host {
    void open(const LivePlans::CollectivePointer& way) override { opened.push_back(way->epoch().value()); }
    void close(const LivePlans::CollectivePointer& way) override { closed.push_back(way->epoch().value()); }
    void open_plan(const LivePlans::PlanPointer&) override {}
    void move_up(const LivePlans::PlanPointer&, bool) override {}
    void follow(const LivePlans::PlanPointer&) override {}
    [[nodiscard]] bool runs_before(const InstalledPlan&) const override { return false; }
    std::vector<std::uint64_t> opened;
    std::vector<std::uint64_t> closed;
  };
  Alone alone("n1");
  Opened host;
  LivePlans plans{*alone.node, host};
  const auto publish = [&](const std::shared_ptr<const Plan>& plan) {
    plans.install(plan, [](Epoch) {});
    plans.activate(plan->epoch);
  };
  using Epochs = std::vector<std::uint64_t>;
  publish(extended(1, 1));
  publish(extended(2, 2));
  publish(extended(5, 3));  // the node missed two
  CHECK(host.opened == Epochs{1, 2, 3});
  CHECK(host.closed.empty());
  publish(extended(6, 3, 1));  // the last has changed
  CHECK(host.opened == Epochs{1, 2, 3, 6});
  CHECK(plans.ways_of(CollectiveId(2)).size() == 2);
  CHECK(plans.ways_of(CollectiveId(0)).size() == 1);
  CHECK(plans.find(CollectiveId(2), Epoch(3)) != nullptr);
  publish(extended(7, 2));
  CHECK(host.closed == Epochs{3});
  publish(extended(8, 2));
  CHECK(host.closed == Epochs{3, 6});
  CHECK(plans.find(CollectiveId(2), Epoch(6)) == nullptr);
  CHECK(plans.sessions().size() == 2);
  // Counters of what stayed are those that were there.
  CHECK(alone.node->traffic.snapshot().sessions.size() == 2);
  CHECK(alone.node->traffic.snapshot().epoch == Epoch(8));
}

TEST_CASE("a node has four plans at most, the active one and the one before it among them") {
  Alone alone("n1");
  struct Deaf final : LivePlans::Host {
    void open(const LivePlans::CollectivePointer&) override { ++opened; }
    void close(const LivePlans::CollectivePointer&) override { ++closed; }
    void open_plan(const LivePlans::PlanPointer&) override {}
    void move_up(const LivePlans::PlanPointer&, bool) override {}
    void follow(const LivePlans::PlanPointer&) override {}
    [[nodiscard]] bool runs_before(const InstalledPlan&) const override { return false; }
    std::size_t opened = 0;
    std::size_t closed = 0;
  } host;
  LivePlans plans{*alone.node, host};
  std::size_t installed = 0;
  const auto install = [&](std::uint32_t epoch) {
    plans.install(extended(epoch, 2, 1), [&](Epoch) { ++installed; });
    CHECK(plans.all().size() <= kMaxLivePlans);
    CHECK(plans.find(Epoch(epoch)) != nullptr);
  };
  for (std::uint32_t epoch = 1; epoch <= 6; ++epoch) install(epoch);
  CHECK(plans.all().size() == kMaxLivePlans);
  plans.activate(Epoch(1));  // it is gone
  CHECK(plans.active() == nullptr);
  plans.activate(Epoch(5));
  install(7);
  plans.activate(Epoch(7));
  for (std::uint32_t epoch = 8; epoch <= 20; ++epoch) install(epoch);
  CHECK(plans.active()->epoch() == Epoch(7));
  CHECK(plans.find(Epoch(5)) != nullptr);
  CHECK(installed == 20);
  CHECK(plans.ways_of(CollectiveId(0)).size() == 1);
  CHECK(plans.ways_of(CollectiveId(1)).size() == kMaxLivePlans);
  CHECK(host.opened - host.closed == 1 + kMaxLivePlans);
  CHECK(plans.sessions().size() == 1 + kMaxLivePlans);
}

TEST_CASE("a collective goes on as it was after a plan that became active nowhere") {
  Overlay overlay(7, 3);
  REQUIRE(overlay.publish(extended(1, 1)));
  overlay.set_members(CollectiveId(0), {0, 1, 2});
  Broadcast broadcast(CollectiveId(0), {0, 1, 2}, payload(4'000'000));
  broadcast.post_all(overlay);
  pass(overlay, 50ms);
  // n2 does not hear of the plans after the first.
  for (const std::size_t node : {0U, 1U}) {
    overlay.node(node).install_plan(extended(2, 2, 2), [](Epoch) {});
    overlay.node(node).install_plan(extended(3, 2), [](Epoch) {});
    overlay.node(node).activate_plan(Epoch(3));
  }
  pass(overlay, 50ms);
  for (const std::size_t node : {0U, 1U}) {
    overlay.node(node).install_plan(extended(4, 2), [](Epoch) {});
    overlay.node(node).activate_plan(Epoch(4));
  }
  REQUIRE(overlay.run([&] { return broadcast.is_over(); }));
  CHECK(broadcast.is_right());
  for (std::size_t node = 0; node < 3; ++node) {
    CHECK(statistics_of(overlay, node).frames_refused == 0);
    CHECK(statistics_of(overlay, node).blocks_resent == 0);
  }
}

TEST_CASE(
    "what runs in a collective that changes moves, and nothing runs in the old one when its plan goes") {
  Overlay overlay(6, 3);
  REQUIRE(overlay.publish(extended(1, 1, 1)));
  overlay.set_members(CollectiveId(0), {0, 1, 2});
  Broadcast broadcast(CollectiveId(0), {0, 1, 2}, payload(4'000'000));
  broadcast.post_all(overlay);
  for (std::uint32_t epoch = 2; epoch <= 5; ++epoch) {
    pass(overlay, 50ms);
    REQUIRE(overlay.publish(extended(epoch, 1, 1)));
  }
  REQUIRE(overlay.run([&] { return broadcast.is_over(); }));
  CHECK(broadcast.is_right());
}

TEST_CASE("a node that joins later takes the frames of a stream that was there before") {
  Overlay overlay(7, 3);
  const auto plan = extended(3, 3);
  // n2 has had no plan before.
  for (const std::size_t node : {0, 1}) {
    overlay.node(node).install_plan(extended(1, 1), [](Epoch) {});
    overlay.node(node).activate_plan(Epoch(1));
  }
  overlay.set_members(CollectiveId(0), {0, 1, 2});
  Broadcast broadcast(CollectiveId(0), {0, 1, 2}, payload(400'000));
  broadcast.post_all(overlay);
  pass(overlay, 2s);
  REQUIRE(overlay.publish(plan));
  for (std::uint32_t rank : {2U}) {
    broadcast.outcomes[rank].reset();
    broadcast.post(overlay, rank);
  }
  REQUIRE(overlay.run([&] { return broadcast.is_over(); }));
  CHECK(broadcast.is_right());
}

TEST_CASE("a window that shrinks takes nothing back that was granted, and is reached as blocks come") {
  Alone alone("n1");
  Flush flush{*alone.executor, [](const StreamKey&) {}};
  IncomingLink link{alone.node, "n0", flush};
  const auto plan = alone.install(line_plan());
  const auto collective = plan->find(CollectiveId(0));
  const LocalStream& stream = collective->streams().front();
  *stream.window = {8, 2};
  link.add_stream(collective, stream);
  link.on_up(LinkHandle(50));
  IncomingStream& head = *link.find(stream.key);
  *stream.window = {4, 1};
  std::vector<std::shared_ptr<void>> slots;
  for (std::uint64_t block = 1; block <= 8; ++block) {
    slots.push_back(head.take(block, 10));
    CHECK(slots.back() != nullptr);
  }
  alone.run();
  CHECK_FALSE(head.take(9, 10));
  slots.resize(4);  // four are free again, and four are as many as it may have
  alone.run();
  CHECK_FALSE(head.take(9, 10));
  slots.resize(3);
  alone.run();
  CHECK(head.take(9, 10) != nullptr);
  alone.run();
  CHECK_FALSE(head.take(11, 10));
  // And grows with the next block that goes.
  *stream.window = {16, 4};
  slots.clear();
  alone.run();
  for (std::uint64_t block = 10; slots.empty() || slots.back() != nullptr; ++block)
    slots.push_back(head.take(block, 10));
  CHECK(slots.size() == 17);
}
