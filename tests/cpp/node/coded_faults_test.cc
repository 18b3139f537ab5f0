// Coded broadcasts under whatever happens to links, nodes and bytes: by seed, and never a wrong byte.
#include <doctest/doctest.h>

#include <cstdlib>
#include <limits>

#include "base/planted.h"
#include "node/butterfly.h"

using namespace square;
using namespace square::test;

namespace {

// Here and there something that is no number.
std::vector<std::byte> whole_floats(std::mt19937_64& random, std::size_t count) {
  std::vector<float> numbers(count);
  for (float& number : numbers) number = static_cast<float>(1 + random() % 1000);
  for (std::uint64_t odd = random() % 4; odd > 0 && count > 0; --odd)
    numbers[random() % count] = std::numeric_limits<float>::quiet_NaN();
  return bytes_of(numbers);
}

// Trees around a relay that is gone.
std::shared_ptr<const Plan> plan_around(std::uint32_t dead, double link_bps, Epoch epoch) {
  using Links = std::vector<std::pair<std::uint32_t, std::uint32_t>>;
  Links links{{0, 1}, {1, 5}, {0, 2}, {2, 6}};
  if (dead == 1) links = {{0, 2}, {2, 6}, {2, 3}, {3, 4}, {4, 5}};
  if (dead == 2) links = {{0, 1}, {1, 5}, {1, 3}, {3, 4}, {4, 6}};
  PlanBuilder builder(kNodes, epoch);
  PlanBuilder::Trees trees{{{}, link_bps}};
  for (const auto& [from, to] : links) {
    builder.add_link(from, to, link_bps);
    trees.front().first.emplace_back(static_cast<int>(from), static_cast<int>(to));
  }
  builder.add_broadcast(0, {0, 5, 6}, trees);
  return builder.build();
}

// What a seed has happen.
class Trouble {
 public:
  explicit Trouble(std::uint64_t seed)
      : random_(seed),
        overlay_(seed, kNodes),
        // Sums of whole numbers are exact, as floats too.
        are_floats_(random_() % 3 == 0),
        link_bps_((5 + static_cast<double>(random_() % 50)) * kMbps),
        cuts_(overlay_, kNodes, seed) {
    LinkConditions lines;
    lines.delay = std::chrono::milliseconds(random_() % 40);
    lines.jitter = std::chrono::milliseconds(random_() % 2 * 10);
    lines.loss = static_cast<double>(random_() % 3) * 0.01;
    lines.duplication = random_() % 4 == 0 ? 0.01 : 0.0;
    lines.corruption = random_() % 4 == 0 ? 0.001 : 0.0;
    overlay_.simulation.set_default_conditions(lines);
    REQUIRE(
        overlay_.publish(butterfly_plan(link_bps_, are_floats_ ? FieldKind::kFloat32 : FieldKind::kGf256)));
    overlay_.set_members(CollectiveId(0), {0, 5, 6});
  }

  void broadcast(std::uint64_t number) {
    const std::size_t size = random_() % 1'000'000;
    Broadcast broadcast(CollectiveId(0), {0, 5, 6},
                        are_floats_ ? whole_floats(random_, size / 4) : random_bytes(random_, size));
    if (are_floats_) broadcast.elements = ElementType::kFloat32;
    broadcast.operation = OperationId(number);
    // A node that adds makes mistakes for a while; floats have no checksums that would tell.
    planted_bug = random_() % 4 == 0 && !are_floats_ ? Bug::kSumSpoiled : Bug::kNone;
    broadcast.post_all(overlay_);
    const auto is_over = [&] { return broadcast.is_over(); };
    switch (random_() % 4) {
      case 0: break;
      case 1: cuts_.rage(is_over, 8); break;
      case 2: pause_some(is_over); break;
      case 3: kill_relay(is_over); break;
    }
    REQUIRE(overlay_.run(is_over));
    CHECK(broadcast.is_right());
    planted_bug = Bug::kNone;
  }

  std::uint64_t blocks_resent() { return statistics_of(overlay_, 0).blocks_resent; }

 private:
  using IsOver = std::function<bool()>;

  void pass_some(const IsOver& is_over) {
    overlay_.run(is_over, std::chrono::milliseconds(random_() % 1'000));
  }
  void pause_some(const IsOver& is_over) {
    for (int count = 0; count < 3 && !is_over(); ++count) {
      pass_some(is_over);
      overlay_.simulation.pause(node_name(random_() % kNodes),
                                std::chrono::milliseconds(500 + random_() % 7'500));
    }
  }
  // One of a seed, for good. Some time later a plan goes around it.
  void kill_relay(const IsOver& is_over) {
    if (dead_ != 0) return;
    pass_some(is_over);
    dead_ = 1 + static_cast<std::uint32_t>(random_() % 4);
    for (std::size_t other = 0; other < kNodes; ++other) {
      overlay_.set_cut(dead_, other, true);
      overlay_.set_cut(other, dead_, true);
    }
    pass_some(is_over);
    REQUIRE(overlay_.publish(plan_around(dead_, link_bps_, Epoch(2)), true));
  }

  std::mt19937_64 random_;
  Overlay overlay_;
  const bool are_floats_;
  const double link_bps_;
  Cuts cuts_;
  std::uint32_t dead_ = 0;
};

}  // namespace

// 500 take some 10 s; `make test-long` has 20,000, and the sanitizers fewer.
TEST_CASE("whatever is lost, late, damaged, stopped or gone, no wrong byte is delivered") {
  const std::uint64_t first = seed_from_environment(1);
  const char* const many = std::getenv("SQUARE_SEEDS");
  const std::uint64_t seeds = many != nullptr ? std::strtoull(many, nullptr, 10) : 500;
  std::uint64_t resent = 0;
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    CAPTURE(seed);
    Trouble trouble(seed);
    for (std::uint64_t number = 0; number < 2; ++number) trouble.broadcast(number);
    resent += trouble.blocks_resent();
  }
  MESSAGE(resent, " blocks were sent again over ", seeds, " seeds");
  CHECK(resent > 0);
}
