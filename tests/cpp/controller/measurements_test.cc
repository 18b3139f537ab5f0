// What measured links do to what is planned.
#include "controller/measurements.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <thread>

using namespace square;
using namespace square::controller;
using namespace std::chrono_literals;

namespace {

constexpr double kMbps = 1e6;

// a -> b of 100 Mbit/s, a -> c without a capacity, b -> c fixed at 50 Mbit/s.
struct Place {
  Place() {
    for (const char* name : {"a", "b", "c"}) REQUIRE(topology.add_node({name}).is_ok());
    REQUIRE(topology.add_link("a", "b", {.capacity_bps = 100 * kMbps}).is_ok());
    REQUIRE(topology.add_link("a", "c", {}).is_ok());
    REQUIRE(topology.add_link("b", "c", {.capacity_bps = 50 * kMbps, .is_fixed = true}).is_ok());
  }

  // Whether plans may change.
  bool say(const std::string& from, const std::string& to, double mbps) {
    v1::Heartbeat beat;
    beat.add_links()->set_peer(to);
    beat.mutable_links(0)->set_capacity_bps(mbps * kMbps);
    return measurements.note(from, beat, topology, now);
  }
  // The same a second after all before; whether a new plan is due.
  bool replans(const std::string& from, const std::string& to, double mbps) {
    now += kMeasuredPlanInterval;
    say(from, to, mbps);
    return measurements.absorb(topology, known, now);
  }
  [[nodiscard]] double planned_mbps(const std::string& from, const std::string& to) const {
    Topology overlay = topology;
    known.apply(overlay);
    const auto link = overlay.find_link(*overlay.find_node(from), *overlay.find_node(to));
    return overlay.link(*link).properties.capacity_bps / kMbps;
  }

  [[nodiscard]] double most_bps(const std::string& from, const std::string& to) const {
    Topology overlay = topology;
    known.apply(overlay);
    return overlay.link(*overlay.find_link(*overlay.find_node(from), *overlay.find_node(to)))
        .properties.most_bps;
  }

  Topology topology;
  MeasuredCapacities known;
  Measurements measurements;
  TimePoint now{};
};

}  // namespace

TEST_CASE("a link that carries less than the topology says is planned with what it carries") {
  Place place;
  CHECK_FALSE(place.replans("a", "b", 95));
  CHECK(place.planned_mbps("a", "b") == doctest::Approx(100));
  CHECK(place.replans("a", "b", 20));
  CHECK(place.planned_mbps("a", "b") == doctest::Approx(20));
  CHECK(place.measurements.take_moves());
  CHECK_FALSE(place.measurements.take_moves());
  CHECK_FALSE(place.replans("a", "b", 21));
  CHECK(place.planned_mbps("a", "b") == doctest::Approx(20));
}

TEST_CASE("never with more than the topology allows") {
  Place place;
  CHECK_FALSE(place.replans("a", "b", 300));
  CHECK(place.replans("a", "b", 20));
  CHECK(place.replans("a", "b", 300));
  CHECK(place.planned_mbps("a", "b") == doctest::Approx(100));
  CHECK(place.known.planned.empty());
}

TEST_CASE("a link without a capacity has the one that was measured, and none where machines limit") {
  Place place;
  CHECK(place.replans("a", "c", 400));
  CHECK(place.planned_mbps("a", "c") == doctest::Approx(400));
  CHECK_FALSE(place.replans("a", "c", 390));
  CHECK(place.replans("a", "c", 500));
  CHECK(place.replans("a", "c", 8000));
  CHECK(place.planned_mbps("a", "c") == doctest::Approx(kMostMeasuredBps / kMbps));
  CHECK(place.most_bps("a", "c") == kUnlimited);
}

TEST_CASE("more may be sent than was measured, and never more than the topology allows") {
  Place place;
  CHECK(place.replans("a", "c", 400));
  CHECK(place.most_bps("a", "c") == doctest::Approx(500 * kMbps));
  CHECK(place.replans("a", "b", 90));
  CHECK(place.most_bps("a", "b") == doctest::Approx(100 * kMbps));
}

TEST_CASE("links that are all fast, or of one machine, are planned alike") {
  Place place;
  Topology open;
  for (const char* name : {"a", "b", "c"}) REQUIRE(open.add_node({name}).is_ok());
  for (const char* to : {"b", "c"}) REQUIRE(open.add_link("a", to, {}).is_ok());
  place.topology = open;
  CHECK_FALSE(place.replans("a", "b", kUnlimited));
  CHECK_FALSE(place.replans("a", "c", 8000));
  CHECK(place.planned_mbps("a", "b") * kMbps == kUnlimited);
  CHECK(place.planned_mbps("a", "c") * kMbps == kUnlimited);
  CHECK(place.replans("a", "c", 100));
  CHECK(place.planned_mbps("a", "b") == doctest::Approx(kMostMeasuredBps / kMbps));
}

TEST_CASE("noise about the figure of the topology brings no plans") {
  Place place;
  CHECK(place.replans("a", "b", 90));
  CHECK_FALSE(place.replans("a", "b", 92));
  CHECK_FALSE(place.replans("a", "b", 89));
  CHECK(place.replans("a", "b", 99.5));
  CHECK_FALSE(place.replans("a", "b", 92));
}

TEST_CASE("what an earlier controller measured counts no more where the topology says less, or is fixed") {
  Place place;
  CHECK(place.replans("a", "b", 50));
  v1::Past past;
  *past.add_links() =
      place.known.history_of({*place.topology.find_node("a"), *place.topology.find_node("b")});
  for (const LinkProperties& given : {LinkProperties{.capacity_bps = 10 * kMbps},
                                      LinkProperties{.capacity_bps = 100 * kMbps, .is_fixed = true}}) {
    Place next;
    next.topology = Topology();
    for (const char* name : {"a", "b"}) REQUIRE(next.topology.add_node({name}).is_ok());
    REQUIRE(next.topology.add_link("a", "b", given).is_ok());
    next.known.take_up(past, next.topology);
    CHECK(next.planned_mbps("a", "b") * kMbps == doctest::Approx(given.capacity_bps));
  }
}

TEST_CASE("a fixed capacity stays") {
  Place place;
  CHECK_FALSE(place.replans("b", "c", 5));
  CHECK(place.planned_mbps("b", "c") == doctest::Approx(50));
}

TEST_CASE("measurements bring at most one plan a second") {
  Place place;
  CHECK(place.replans("a", "b", 20));
  place.now += 100ms;
  CHECK_FALSE(place.say("a", "b", 50));
  CHECK_FALSE(place.measurements.absorb(place.topology, place.known, place.now));
  const TimePoint due = place.measurements.next_end(TimePoint::max());
  CHECK(due == place.now - 100ms + kMeasuredPlanInterval);
  place.now = due;
  CHECK(place.measurements.absorb(place.topology, place.known, place.now));
  CHECK(place.planned_mbps("a", "b") == doctest::Approx(50));
  CHECK(place.measurements.next_end(TimePoint::max()) == TimePoint::max());
}

TEST_CASE("what cannot be is not noted") {
  Place place;
  CHECK_FALSE(place.say("a", "nobody", 5));
  CHECK_FALSE(place.say("nobody", "a", 5));
  CHECK_FALSE(place.say("b", "a", 5));  // there is no such link
  for (const double mbps : {0.0, -5.0, std::nan("")}) CHECK_FALSE(place.say("a", "b", mbps));
  CHECK_FALSE(place.replans("a", "b", 1e-9));
}

TEST_CASE("what was measured outlives the controller, and only so much of it") {
  Place place;
  for (int i = 0; i < kHistoryPoints + 50; ++i) place.replans("a", "b", i % 2 == 0 ? 20 : 40);
  const LinkEnds ends{NodeId(0), NodeId(1)};
  CHECK(place.known.history_of(ends).points_size() == kHistoryPoints);

  v1::Past past;
  for (const auto& [link, bytes] : place.known.history) {
    v1::Past part;
    REQUIRE(part.ParseFromString(*bytes));
    past.MergeFrom(part);
  }
  MeasuredCapacities later;
  later.take_up(past, place.topology);
  CHECK(later.planned == place.known.planned);
  CHECK(later.history_of(ends).points_size() == kHistoryPoints);
}

TEST_CASE("who asks is told of each link what the topology says, what was measured, and what is planned") {
  Place place;
  place.replans("a", "b", 20);
  const v1::ListLinksResponse list = place.measurements.list(place.topology, place.known, place.now);
  REQUIRE(list.links_size() == 3);
  CHECK(list.nodes_size() == 3);
  CHECK(list.links(0).capacity_bps() == 100 * kMbps);
  CHECK(list.links(0).measured().capacity_bps() == 20 * kMbps);
  CHECK(list.links(0).planned_bps() == 20 * kMbps);
  CHECK_FALSE(list.links(1).has_measured());
  CHECK(list.links(2).is_fixed());
}
