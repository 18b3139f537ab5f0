// Broadcasts over codes: twice what a link carries on the butterfly, and what floats make of it.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "base/planted.h"
#include "node/butterfly.h"

using namespace square;
using namespace square::test;

namespace {

std::vector<float> floats_of(const std::vector<std::byte>& bytes) {
  std::vector<float> numbers(bytes.size() / 4);
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

std::vector<float> drawn_floats(std::size_t count) {
  std::mt19937_64 random(1);
  std::vector<float> numbers(count);
  for (float& number : numbers) number = static_cast<float>(random() % 2000) / 1000.0F - 1.0F;
  return numbers;
}

// A butterfly with a code of floats.
class FloatOverlay {
 public:
  FloatOverlay() {
    REQUIRE(overlay_.publish(butterfly_plan(100 * kMbps, FieldKind::kFloat32)));
    overlay_.set_members(CollectiveId(0), {0, 5, 6});
  }

  Broadcast broadcast(const std::vector<std::byte>& bytes, ElementType elements) {
    Broadcast made(CollectiveId(0), {0, 5, 6}, bytes);
    made.operation = OperationId(next_++);
    made.elements = elements;
    made.post_all(overlay_);
    REQUIRE(overlay_.run([&] { return made.is_over(); }));
    return made;
  }

 private:
  Overlay overlay_{6, kNodes};
  std::uint64_t next_ = 0;
};

void check_nothing_is_held(Overlay& overlay) {
  pass(overlay, std::chrono::seconds(15));
  for (std::size_t node = 0; node < kNodes; ++node) {
    CHECK(statistics_of(overlay, node).bytes_in_transit == 0);
  }
}

}  // namespace

TEST_CASE("a coded broadcast takes half of what one link would") {
  Overlay overlay(1, kNodes);
  REQUIRE(overlay.publish(butterfly_plan(10 * kMbps)));
  overlay.set_members(CollectiveId(0), {0, 5, 6});
  pass(overlay, std::chrono::seconds(1));
  Broadcast broadcast(CollectiveId(0), {0, 5, 6}, payload(5'000'000));
  const TimePoint start = overlay.simulation.clock().now();
  broadcast.post_all(overlay);
  REQUIRE(overlay.run([&] { return broadcast.is_over(); }));
  REQUIRE(broadcast.is_right());
  const double planned = 2.0;
  for (const TimePoint end : broadcast.finished_at) {
    const double taken = to_seconds(end - start);
    CHECK(taken > planned);
    CHECK(taken < 1.1 * planned);
  }
  CHECK(statistics_of(overlay, 0).blocks_resent == 0);
  check_nothing_is_held(overlay);
}

TEST_CASE("coded broadcasts of any length") {
  Overlay overlay(2, kNodes);
  REQUIRE(overlay.publish(butterfly_plan(100 * kMbps)));
  overlay.set_members(CollectiveId(0), {0, 5, 6});
  OperationId operation(0);
  for (const std::size_t bytes : {0U, 1U, 63U, 64U, 65U, 8191U, 8192U, 8193U, 16'384U, 24'577U, 1'000'003U}) {
    CAPTURE(bytes);
    Broadcast broadcast(CollectiveId(0), {0, 5, 6}, payload(bytes));
    broadcast.operation = operation;
    operation = OperationId(operation.value() + 1);
    broadcast.post_all(overlay);
    REQUIRE(overlay.run([&] { return broadcast.is_over(); }));
    CHECK(broadcast.is_right());
  }
  CHECK(statistics_of(overlay, 0).blocks_resent == 0);
  check_nothing_is_held(overlay);
}

TEST_CASE("several members on a node, and one that calls late") {
  Overlay overlay(3, kNodes);
  REQUIRE(overlay.publish(butterfly_plan(100 * kMbps)));
  overlay.set_members(CollectiveId(0), {0, 5, 6, 5, 6});
  Broadcast broadcast(CollectiveId(0), {0, 5, 6, 5, 6}, payload(3'000'001));
  for (const std::uint32_t rank : {0U, 1U, 3U, 4U}) broadcast.post(overlay, rank);
  pass(overlay, std::chrono::seconds(3));
  CHECK_FALSE(broadcast.is_over());
  broadcast.post(overlay, 2);
  REQUIRE(overlay.run([&] { return broadcast.is_over(); }));
  CHECK(broadcast.is_right());
  check_nothing_is_held(overlay);
}

TEST_CASE("where nothing is added any more the rest goes by the tree") {
  Overlay overlay(4, kNodes);
  REQUIRE(overlay.publish(butterfly_plan(10 * kMbps)));
  overlay.set_members(CollectiveId(0), {0, 5, 6});
  pass(overlay, std::chrono::seconds(1));
  SUBCASE("a link stands still") { overlay.set_stalled(3, 4, true); }
  SUBCASE("a link breaks") { overlay.set_cut(3, 4, true); }
  SUBCASE("a term does not come") { overlay.set_cut(2, 3, true); }
  Broadcast broadcast(CollectiveId(0), {0, 5, 6}, payload(2'000'000));
  broadcast.post_all(overlay);
  REQUIRE(overlay.run([&] { return broadcast.is_over(); }));
  CHECK(broadcast.is_right());
  CHECK(to_seconds(broadcast.finished_at[1] - TimePoint{}) < 30);
}

TEST_CASE("an operation on a code whose windows are full already goes by the tree") {
  Overlay overlay(8, kNodes);
  REQUIRE(overlay.publish(butterfly_plan(10 * kMbps)));
  overlay.set_members(CollectiveId(0), {0, 5, 6});
  pass(overlay, std::chrono::seconds(1));
  overlay.set_cut(2, 3, true);
  for (std::uint64_t operation = 0; operation < 3; ++operation) {
    Broadcast broadcast(CollectiveId(0), {0, 5, 6}, payload(500'000 + operation));
    broadcast.operation = OperationId(operation);
    const TimePoint start = overlay.simulation.clock().now();
    broadcast.post_all(overlay);
    REQUIRE(overlay.run([&] { return broadcast.is_over(); }));
    CHECK(broadcast.is_right());
    CHECK(to_seconds(broadcast.finished_at[1] - start) < 10);
  }
}

TEST_CASE("a running broadcast moves from trees to a code and back") {
  Overlay overlay(5, kNodes);
  const auto trees = [](Epoch epoch) {
    PlanBuilder builder(kNodes, epoch);
    for (const auto& [from, to] : std::vector<std::pair<int, int>>{{0, 1}, {0, 2}, {1, 5}, {2, 6}})
      builder.add_link(static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(to), 10 * kMbps);
    builder.add_broadcast(0, {0, 5, 6}, {{{{0, 1}, {1, 5}, {0, 2}, {2, 6}}, 10 * kMbps}});
    return builder.build();
  };
  REQUIRE(overlay.publish(trees(Epoch(1))));
  overlay.set_members(CollectiveId(0), {0, 5, 6});
  pass(overlay, std::chrono::seconds(1));
  Broadcast broadcast(CollectiveId(0), {0, 5, 6}, payload(10'000'000));
  broadcast.post_all(overlay);
  pass(overlay, std::chrono::seconds(1));
  REQUIRE(overlay.publish(butterfly_plan(10 * kMbps, FieldKind::kGf256, Epoch(2)), true));
  pass(overlay, std::chrono::seconds(1));
  REQUIRE(overlay.publish(trees(Epoch(3)), true));
  REQUIRE(overlay.run([&] { return broadcast.is_over(); }));
  CHECK(broadcast.is_right());
  check_nothing_is_held(overlay);
}

TEST_CASE("floats come back nearly as they were") {
  const std::vector<float> numbers = drawn_floats(250'001);
  FloatOverlay overlay;
  const Broadcast broadcast = overlay.broadcast(bytes_of(numbers), ElementType::kFloat32);
  for (const std::size_t rank : {1U, 2U}) {
    const std::vector<float> received = floats_of(broadcast.buffers[rank]);
    double worst = 0;
    for (std::size_t i = 0; i < numbers.size(); ++i)
      worst = std::max(worst, static_cast<double>(std::abs(received[i] - numbers[i])));
    CHECK(worst < 1e-6);
    CHECK(worst > 0);  // it was coded
  }
}

TEST_CASE("generations that sums of floats would spoil come back bit by bit") {
  std::vector<float> numbers = drawn_floats(1'000'001);
  numbers[3] = std::numeric_limits<float>::infinity();
  numbers[400'000] = -std::numeric_limits<float>::quiet_NaN();
  for (std::size_t i = 600'000; i < 900'000; ++i) numbers[i] *= 1e-7F;
  for (std::size_t i = 900'000; i < numbers.size(); ++i) numbers[i] = 0;
  FloatOverlay overlay;
  const Broadcast broadcast = overlay.broadcast(bytes_of(numbers), ElementType::kFloat32);
  for (const std::size_t rank : {1U, 2U}) {
    const std::vector<float> received = floats_of(broadcast.buffers[rank]);
    std::size_t rounded = 0;
    bool is_near = true;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (std::bit_cast<std::uint32_t>(received[i]) == std::bit_cast<std::uint32_t>(numbers[i])) continue;
      ++rounded;
      // Relative to its own generation, which is shorter than 100,000.
      is_near = is_near && std::abs(received[i] - numbers[i]) < (i / 100'000 == 7 ? 1e-13F : 1e-6F);
    }
    CHECK(is_near);
    CHECK(rounded > 10'000);  // the others were coded as floats
  }
}

TEST_CASE("what is not said to be float32 comes back bit by bit over a code of floats") {
  FloatOverlay overlay;
  const std::vector<std::byte> bytes = bytes_of(drawn_floats(100'001));
  for (const ElementType elements : {ElementType::kBytes, ElementType::kInt32, ElementType::kFloat16}) {
    const Broadcast broadcast = overlay.broadcast(bytes, elements);
    CHECK(broadcast.is_right());
  }
  // Nor is what has another length, or sums that are too large.
  const std::vector<std::byte> odd(bytes.begin(), bytes.end() - 1);
  CHECK(overlay.broadcast(odd, ElementType::kFloat32).is_right());
  const std::vector<float> largest(100'001, std::numeric_limits<float>::lowest());
  CHECK(overlay.broadcast(bytes_of(largest), ElementType::kFloat32).is_right());
}

TEST_CASE("a sum that is spoiled where it is made is found, and its blocks come another way") {
  Overlay overlay(7, kNodes);
  REQUIRE(overlay.publish(butterfly_plan(10 * kMbps)));
  overlay.set_members(CollectiveId(0), {0, 5, 6});
  pass(overlay, std::chrono::seconds(1));
  Broadcast broadcast(CollectiveId(0), {0, 5, 6}, payload(1'000'000));
  planted_bug = Bug::kSumSpoiled;
  broadcast.post_all(overlay);
  pass(overlay, std::chrono::milliseconds(200));
  planted_bug = Bug::kNone;
  REQUIRE(overlay.run([&] { return broadcast.is_over(); }));
  CHECK(broadcast.is_right());
  CHECK(statistics_of(overlay, 0).blocks_resent > 0);
  CHECK(statistics_of(overlay, 5).frames_refused > 0);
  check_nothing_is_held(overlay);
}
