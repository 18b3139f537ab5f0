// Nodes with names of their own that say whatever fields can hold: the controller goes on, and so do others.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <random>

#include "../node/overlay.h"
#include "controller/coordinator.h"
#include "controller/mesh.h"
#include "controller/plan_source.h"
#include "controller/protocol.h"
#include "controller/recorded_line.h"
#include "square/planner.h"

using namespace square;
using namespace square::test;
using controller::Coordinator;

namespace {

struct HandClock final : Clock {
  [[nodiscard]] TimePoint now() const override { return time; }
  TimePoint time{std::chrono::seconds(1'000)};
};

class PlansAtOnce final : public controller::PlanSource {
 public:
  Result<PlanResult> plan(const Scenario& scenario) override { return make_plan(scenario); }
  std::optional<Result<PlanResult>> take_better() override { return std::nullopt; }
  void stop() override {}
};

// Draws what a field can hold, most often what is near a bound or makes sense elsewhere.
class Nasty {
 public:
  explicit Nasty(std::uint64_t seed) : random_(seed) {}

  std::uint64_t below(std::uint64_t end) { return random_() % end; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }

  std::uint64_t number() {
    constexpr std::array<std::uint64_t, 12> kNumbers{
        0, 1, 2, 3, 7, 255, 0x7fffffff, 0x80000000U, 0xffffffff, 1ULL << 62, 1ULL << 63, ~0ULL};
    // Near what a controller without a store gives: so that some are another's.
    return one_in(3) ? given_ + below(6) : kNumbers[below(kNumbers.size())];
  }
  double real() {
    constexpr std::array<double, 10> kReals{0.0,
                                            -1.0,
                                            1.0,
                                            1e-300,
                                            1e300,
                                            1e9,
                                            5e7,
                                            -0.0,
                                            std::numeric_limits<double>::infinity(),
                                            std::numeric_limits<double>::quiet_NaN()};
    return kReals[below(kReals.size())];
  }
  std::string name() {
    const std::array<std::string, 9> names{
        "a", "b", "c", "d", "", "e", "honest", "job", std::string(300, 'x')};
    return names[below(names.size())];
  }
  template <typename Add>
  void some(Add add) {
    for (std::uint64_t count = below(4); count > 0; --count) add();
  }
  void note_given(std::uint64_t number) { given_ = number; }

 private:
  std::mt19937_64 random_;
  std::uint64_t given_ = 0;
};

void fill(Nasty& draw, v1::RegisterGroupRequest& group) {
  group.set_name(draw.name());
  group.set_tenant(draw.name());
  draw.some([&] { group.add_nodes(draw.name()); });
  draw.some([&] {
    auto& collective = *group.add_collectives();
    collective.set_op(draw.one_in(2) ? "broadcast" : draw.name());
    collective.set_root(static_cast<std::uint32_t>(draw.number()));
    collective.set_weight(draw.real());
    collective.set_size_bytes(draw.number());
    draw.some([&] { collective.add_members(static_cast<std::uint32_t>(draw.number())); });
    collective.set_channel(static_cast<std::uint32_t>(draw.number()));
  });
  group.set_closed_number(draw.number());
  group.set_number(draw.number());
  group.set_redundancy(static_cast<std::uint32_t>(draw.number()));
  group.set_keys(draw.name());
  if (draw.one_in(3)) {
    group.mutable_origin()->set_group(draw.name());
    group.mutable_origin()->set_number(draw.number());
    draw.some([&] { group.mutable_origin()->add_ranks(static_cast<std::uint32_t>(draw.number())); });
    draw.some([&] { group.mutable_origin()->add_joiners(draw.number()); });
  }
}

void fill(Nasty& draw, v1::Past& past) {
  past.set_store(draw.number());
  past.set_term(draw.number());
  past.set_epoch(static_cast<std::uint32_t>(draw.number()));
  past.set_next_collective(static_cast<std::uint32_t>(draw.number()));
  past.set_next_session(static_cast<std::uint32_t>(draw.number()));
  past.set_next_group(draw.number());
  draw.some([&] { past.add_nodes(draw.name()); });
  draw.some([&] {
    auto& running = *past.add_groups();
    fill(draw, *running.mutable_group());
    draw.some([&] { running.add_collectives(static_cast<std::uint32_t>(draw.number())); });
    running.set_number(draw.number());
    draw.some([&] { running.add_closed(draw.name()); });
  });
  draw.some([&] {
    auto& session = *past.add_sessions();
    session.set_id(static_cast<std::uint32_t>(draw.number()));
    session.set_collective(static_cast<std::uint32_t>(draw.number()));
    session.set_kind(draw.one_in(2) ? "multicast" : draw.name());
    session.set_root(draw.name());
    draw.some([&] { session.add_destinations(draw.name()); });
  });
  draw.some([&] { past.add_registering(draw.name()); });
  draw.some([&] {
    auto& closed = *past.add_closed();
    closed.set_group(draw.name());
    closed.set_number(draw.number());
  });
  draw.some([&] {
    auto& address = *past.add_addresses();
    address.set_peer(draw.name());
    address.set_address(draw.name());
    address.set_incarnation(draw.number());
  });
}

v1::Hello hello(Nasty& draw, const std::string& node) {
  v1::Hello hello = hello_of(node, draw.number(), draw.one_in(4) ? draw.name() : node + ".example:1");
  if (draw.one_in(2)) fill(draw, *hello.mutable_past());
  if (draw.one_in(4)) hello.set_successor(draw.name());
  hello.set_standing(static_cast<std::uint32_t>(draw.number()));
  hello.set_key_share(draw.name());
  return hello;
}

v1::Heartbeat heartbeat(Nasty& draw) {
  v1::Heartbeat beat;
  draw.some([&] {
    auto& use = *beat.add_used();
    use.set_collective(static_cast<std::uint32_t>(draw.number()));
    use.set_bytes(draw.number());
  });
  draw.some([&] { beat.add_heard(draw.name()); });
  draw.some([&] {
    auto& link = *beat.add_links();
    link.set_peer(draw.name());
    link.set_round_trip_nanoseconds(draw.number());
    link.set_capacity_bps(draw.real());
    link.set_is_probed(draw.one_in(2));
    link.set_age_nanoseconds(draw.number());
  });
  return beat;
}

constexpr std::uint64_t kSeeds = 100 / kSeedStep;

// A controller, two nodes with a group, and two that say anything.
class Scene {
 public:
  explicit Scene(std::uint64_t seed) : draw_(seed) {
    Coordinator::Surroundings surroundings{clock_, [] {},
                                           [](auto) { return std::make_unique<PlansAtOnce>(); }};
    auto made =
        Coordinator::create(std::move(surroundings), std::chrono::seconds(10), std::chrono::seconds(1),
                            mesh({"a", "b", "c", "d"}), store::make_memory_store());
    REQUIRE_MESSAGE(made.is_ok(), made.status().to_string());
    coordinator_ = *std::move(made);
    for (const std::string name : {"a", "b"}) {
      honest_[name] = std::make_shared<RecordedLine>();
      REQUIRE(coordinator_->join(hello_of(name, 1, name + ".example:1"), honest_[name]).is_ok());
    }
    coordinator_->submit(GroupSpec{"honest", "alice", {"a", "b"}, {{}}, "a"},
                         [this](const Result<controller::Answer>& answer) {
                           REQUIRE_MESSAGE(answer.is_ok(), answer.status().to_string());
                           collective_ = answer->collectives.front();
                           draw_.note_given(collective_->value());
                         });
    pass(std::chrono::seconds(2));
    REQUIRE(collective_);
  }

  void say_something() {
    const std::string node = draw_.one_in(2) ? "c" : "d";
    auto& line = hostile_[node];
    if (line == nullptr || draw_.one_in(6)) {
      const auto next = std::make_shared<RecordedLine>();
      const bool joins = coordinator_->join(hello(draw_, node), next).is_ok();
      ++(joins ? joined : refused);
      if (joins) line = next;
      return;
    }
    const Epoch epoch(static_cast<std::uint32_t>(draw_.number()));
    switch (draw_.below(9)) {
      case 0: coordinator_->installed(node, line.get(), epoch); break;
      case 1: coordinator_->lacking(node, line.get(), epoch); break;
      case 2: coordinator_->heartbeat(node, line.get(), heartbeat(draw_)); break;
      case 3: {
        v1::BrokenLinks report;
        draw_.some([&] { report.add_peers(draw_.name()); });
        coordinator_->broken_links(node, line.get(), report);
        break;
      }
      case 4: {
        v1::Closed part;
        part.set_group(draw_.name());
        part.set_number(draw_.number());
        coordinator_->closed(node, line.get(), part);
        break;
      }
      case 5: ask_for_group(node); break;
      case 6: ask_to_go_on(node); break;
      case 7: coordinator_->lost(node, std::exchange(line, nullptr).get()); break;
      default: pass(std::chrono::milliseconds(draw_.below(1'500)));
    }
  }

  void pass(Duration time) {
    const TimePoint end = clock_.time + time;
    while (clock_.time < end) {
      clock_.time += std::chrono::milliseconds(100);
      keep_honest();
      for (int step = 0; step < 50; ++step) {
        const auto next = coordinator_->step();
        REQUIRE(next);
        if (*next > clock_.time) break;
      }
    }
  }

  // Of the two: lines, and groups.
  std::size_t joined = 0;
  std::size_t refused = 0;
  std::size_t registered = 0;

  // The group has its collective in the active plan, at a rate.
  void check_honest() {
    pass(std::chrono::seconds(3));
    for (const auto& [name, line] : honest_) CHECK_MESSAGE(line->reason.is_ok(), line->reason.to_string());
    const auto active = coordinator_->active();
    REQUIRE(active != nullptr);
    const PlanCollective* const planned = active->plan->find_collective(*collective_);
    REQUIRE(planned != nullptr);
    CHECK(planned->rate_bps > 0);
    CHECK(std::isfinite(planned->rate_bps));
  }

 private:
  // Installs what it is sent, and is heard.
  void keep_honest() {
    for (const auto& [name, line] : honest_) {
      for (const v1::PlanPart& part : std::exchange(line->parts, {}))
        coordinator_->installed(name, line.get(), Epoch(part.epoch()));
      coordinator_->heartbeat(name, line.get(), {});
    }
  }

  void ask_for_group(const std::string& node) {
    v1::RegisterGroupRequest request;
    fill(draw_, request);
    if (draw_.one_in(2)) {  // one that could be
      request = {};
      request.set_name("of " + node + std::to_string(draw_.below(3)));
      request.set_tenant("bob");
      request.add_nodes("a");
      request.add_nodes(node);
      request.add_collectives()->set_op("broadcast");
      request.mutable_collectives(0)->set_weight(1);
    }
    request.set_node(node);
    auto group = controller::from_message(request);
    if (!group.is_ok()) return;
    coordinator_->submit(*std::move(group), [this](const auto& answer) { registered += answer.is_ok(); });
  }

  void ask_to_go_on(const std::string& node) {
    RegroupRequest request{
        draw_.name(), draw_.number(), {}, draw_.number(), static_cast<std::uint32_t>(draw_.number())};
    draw_.some([&] { request.ranks.emplace_back(static_cast<std::uint32_t>(draw_.number())); });
    const auto patience = std::chrono::milliseconds(draw_.below(3'000));
    coordinator_->regroup({std::move(request), node, {}, {}}, patience, [](const auto&) {});
  }

  Nasty draw_;
  HandClock clock_;
  std::unique_ptr<Coordinator> coordinator_;
  std::map<std::string, std::shared_ptr<RecordedLine>> honest_;
  std::map<std::string, std::shared_ptr<RecordedLine>> hostile_;
  std::optional<CollectiveId> collective_;
};

}  // namespace

TEST_CASE(
    "whatever nodes say, the controller goes on, and groups that they have no part in keep their rates") {
  std::size_t joined = 0;
  std::size_t refused = 0;
  std::size_t registered = 0;
  const std::uint64_t first = seed_from_environment(std::random_device()());
  for (std::uint64_t seed = first; seed < first + kSeeds; ++seed) {
    CAPTURE(seed);  // SQUARE_SEED runs it again
    Scene scene(seed);
    for (int batch = 0; batch < 8; ++batch) {
      for (int said = 0; said < 25; ++said) scene.say_something();
      scene.check_honest();
    }
    joined += scene.joined;
    refused += scene.refused;
    registered += scene.registered;
  }
  // Else nothing was tried.
  CHECK(joined > kSeeds);
  CHECK(refused > kSeeds);
  CHECK(registered > kSeeds);
  MESSAGE(joined, " lines, ", refused, " refused, ", registered, " groups");
}
