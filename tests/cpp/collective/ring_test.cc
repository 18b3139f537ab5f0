// Ring all-reduce over simulated nodes: every reduction, sizes, failures.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "base/ring_layout.h"
#include "collective/simulated_group.h"

using namespace square;
using namespace square::test;

namespace {

using Bytes = std::vector<std::byte>;
using Works = std::vector<std::shared_ptr<Work>>;
constexpr Duration kRingTimeout = std::chrono::seconds(300);

// One rank on each node, or several on some.
struct RingPlace {
  explicit RingPlace(std::vector<std::size_t> nodes_of_ranks, std::uint64_t seed = 1,
                     const std::string& policy = "exact")
      : overlay(seed, std::ranges::max(nodes_of_ranks) + 1),
        controller(overlay, *full_mesh(names(std::ranges::max(nodes_of_ranks) + 1), {100e6, {}, 0.0}),
                   policy) {
    GroupSpec spec{"g", "alice", {}, {}};
    for (std::size_t node = 0; node <= std::ranges::max(nodes_of_ranks); ++node)
      hosts.push_back(std::make_unique<SimulatedHost>(controller, overlay.node(node)));
    for (const std::size_t node : nodes_of_ranks) spec.nodes.push_back(node_name(node));
    for (std::uint32_t rank = 0; rank < spec.nodes.size(); ++rank) {
      auto made = Communicator::create(*hosts[nodes_of_ranks[rank]], spec, Rank(rank), kRingTimeout);
      REQUIRE_MESSAGE(made.is_ok(), made.status().to_string());
      members.push_back(*std::move(made));
    }
  }
  static std::vector<std::string> names(std::size_t count) {
    std::vector<std::string> all;
    for (std::size_t node = 0; node < count; ++node) all.push_back(node_name(node));
    return all;
  }

  bool run(const Works& works, Duration limit = std::chrono::seconds(600)) {
    return overlay.run(
        [&] { return std::ranges::all_of(works, [](const auto& work) { return work->is_done(); }); }, limit);
  }
  void run_for(Duration limit) {
    overlay.run([] { return false; }, limit);
  }

  Overlay overlay;
  SimulatedController controller;
  std::vector<std::unique_ptr<SimulatedHost>> hosts;
  std::vector<std::unique_ptr<Communicator>> members;
};

// A whole number that every type has.
void put(std::byte* at, ElementType type, int value) {
  const auto number = static_cast<float>(value);
  std::uint32_t bits = 0;
  std::memcpy(&bits, &number, sizeof(bits));
  const std::uint32_t sign = bits >> 31U;
  const std::uint32_t exponent = (bits >> 23U & 0xffU) - 127 + 15;
  const std::uint32_t half = value == 0 ? 0 : sign << 15U | exponent << 10U | (bits >> 13U & 0x3ffU);
  const auto small = static_cast<std::uint16_t>(type == ElementType::kBfloat16 ? bits >> 16U : half);
  const double wide = value;
  const std::int64_t whole = value;
  switch (type) {
    case ElementType::kFloat32: std::memcpy(at, &number, sizeof(number)); break;
    case ElementType::kFloat64: std::memcpy(at, &wide, sizeof(wide)); break;
    case ElementType::kFloat16:
    case ElementType::kBfloat16: std::memcpy(at, &small, sizeof(small)); break;
    default: std::memcpy(at, &whole, element_bytes(type));
  }
}

Bytes numbers(std::mt19937_64& random, Reduction reduction, std::size_t count) {
  const std::size_t size = element_bytes(reduction.type);
  Bytes bytes(count * size);
  for (std::size_t i = 0; i < count; ++i) {
    const int value = reduction.op == ReduceOp::kProduct ? 1 + static_cast<int>(random() % 2)
                                                         : static_cast<int>(random() % 17) - 8;
    put(bytes.data() + i * size, reduction.type, value);
  }
  return bytes;
}

Works start(RingPlace& place, std::vector<Bytes>& inputs, std::vector<Bytes>& outputs, Reduction reduction,
            AllReduceAlgorithm algorithm = AllReduceAlgorithm::kRing, Duration timeout = kRingTimeout) {
  Works works;
  for (std::size_t rank = 0; rank < place.members.size(); ++rank) {
    auto work =
        place.members[rank]->all_reduce_async(inputs[rank], outputs[rank], reduction, timeout, algorithm);
    REQUIRE_MESSAGE(work.is_ok(), work.status().to_string());
    works.push_back(*std::move(work));
  }
  return works;
}

// The same as planned, everywhere, and inputs as they were.
void check_like_planned(RingPlace& place, std::mt19937_64& random, Reduction reduction, std::size_t count,
                        bool in_place) {
  CAPTURE(to_string(reduction));
  CAPTURE(count);
  CAPTURE(in_place);
  std::vector<Bytes> inputs;
  for (std::size_t rank = 0; rank < place.members.size(); ++rank)
    inputs.push_back(numbers(random, reduction, count));
  std::vector<Bytes> planned(inputs.size(), Bytes(inputs.front().size()));
  CHECK(place.run(start(place, inputs, planned, reduction, AllReduceAlgorithm::kPlanned)));
  std::vector<Bytes> ring = in_place ? inputs : planned;
  if (!in_place) {
    for (Bytes& bytes : ring) std::ranges::fill(bytes, std::byte{0xa5});
  }
  const std::vector<Bytes> before = inputs;
  const Works works = start(place, in_place ? ring : inputs, ring, reduction);
  REQUIRE(place.run(works));
  for (const auto& work : works) CHECK(work->wait() == Status::ok());
  for (std::size_t rank = 0; rank < ring.size(); ++rank) CHECK(ring[rank] == planned[rank]);
  CHECK(inputs == before);
}

std::vector<Reduction> all_reductions() {
  std::vector<Reduction> all;
  for (int type = 1; type <= static_cast<int>(ElementType::kBool); ++type) {
    for (int op = 1; op <= static_cast<int>(ReduceOp::kBitwiseXor); ++op) {
      const Reduction reduction{static_cast<ElementType>(type), static_cast<ReduceOp>(op)};
      if (check_reduction(reduction).is_ok()) all.push_back(reduction);
    }
  }
  return all;
}

}  // namespace

TEST_CASE("a ring's transfers: what one sends the next receives, and every segment comes to everybody") {
  for (const std::size_t ranks : {2U, 3U, 7U}) {
    for (const std::size_t elements : {0U, 1U, 6U, 100U, 1'000'003U, 20'000'000U}) {
      std::vector<RingLayout> layouts;
      for (std::uint32_t rank = 0; rank < ranks; ++rank)
        layouts.emplace_back(elements * 4, 4, ranks, Rank(rank));
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        const RingLayout& mine = layouts[rank];
        const RingLayout& previous = layouts[(rank + ranks - 1) % ranks];
        CHECK(mine.transfers() == 2 * (ranks - 1) * mine.segments());
        CHECK(mine.segment_bytes() <= RingLayout::kMaxSegmentBytes);
        std::size_t sums = 0;
        for (std::size_t t = 0; t < mine.transfers(); ++t) {
          const RingRange range = mine.received(t);
          REQUIRE(range.offset_bytes == previous.sent(t).offset_bytes);
          REQUIRE(range.size_bytes == previous.sent(t).size_bytes);
          REQUIRE(range.size_bytes <= mine.segment_bytes());
          // What came goes on one step later.
          if (t + mine.segments() < mine.transfers())
            REQUIRE(mine.sent(t + mine.segments()).offset_bytes == range.offset_bytes);
          if (t >= mine.sums_begin() || mine.completes_sum(t)) sums += range.size_bytes;
        }
        CHECK(sums == elements * 4);
      }
    }
  }
}

TEST_CASE("a ring gives what the plan gives: every reduction, sizes, in place or not") {
  const std::uint64_t seed = seed_from_environment(std::random_device()());
  CAPTURE(seed);  // SQUARE_SEED runs it again
  std::mt19937_64 random(seed);
  const std::vector<std::vector<std::size_t>> places{{0}, {0, 1}, {0, 1, 2}, {0, 1, 0, 2, 1}, {0, 0}};
  for (const auto& nodes : places) {
    RingPlace place(nodes, random());
    CAPTURE(nodes.size());
    bool in_place = false;
    for (const Reduction& reduction : all_reductions()) {
      for (const std::size_t count : {random() % (nodes.size() + 1), random() % 5'000}) {
        check_like_planned(place, random, reduction, count, in_place);
        in_place = !in_place;
      }
    }
    // Of several segments, and more of them than the window has.
    for (const std::size_t count : {900'000U, 2'600'001U}) {
      check_like_planned(place, random, {ElementType::kInt16, ReduceOp::kSum}, count, in_place);
      check_like_planned(place, random, {ElementType::kFloat16, ReduceOp::kAverage}, count, !in_place);
    }
  }
}

TEST_CASE("a ring adds in the order of ranks, so its bits are always the same") {
  const std::uint64_t seed = seed_from_environment(std::random_device()());
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  constexpr std::size_t kRanks = 4;
  constexpr std::size_t kCount = 300'000;  // a multiple of the ranks
  std::vector<std::vector<float>> values(kRanks, std::vector<float>(kCount));
  std::vector<Bytes> inputs(kRanks, Bytes(kCount * sizeof(float)));
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    for (float& value : values[rank]) value = std::ldexp(static_cast<float>(random() % 16'777'216), -20);
    std::memcpy(inputs[rank].data(), values[rank].data(), inputs[rank].size());
  }
  std::vector<float> wanted(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    const std::size_t first = i / (kCount / kRanks);
    wanted[i] = values[first][i];
    for (std::size_t k = 1; k < kRanks; ++k) wanted[i] += values[(first + k) % kRanks][i];
  }
  for (int run = 0; run < 2; ++run) {
    RingPlace place({0, 1, 2, 1}, random());
    for (std::size_t from = 0; from < 3; ++from)
      place.overlay.simulation.set_conditions(node_name(from), node_name((from + 1) % 3),
                                              {std::chrono::milliseconds(20), Duration(0), 0.03});
    std::vector<Bytes> outputs(kRanks, Bytes(inputs.front().size()));
    REQUIRE(place.run(start(place, inputs, outputs, {ElementType::kFloat32, ReduceOp::kSum})));
    for (const Bytes& output : outputs) CHECK(std::memcmp(output.data(), wanted.data(), output.size()) == 0);
  }
}

TEST_CASE("a policy that plans no relays that add has rings all the same") {
  constexpr Reduction kSum{ElementType::kInt32, ReduceOp::kSum};
  RingPlace place({0, 1, 2}, 1, "square");
  std::vector<Bytes> data(3, Bytes(3'000'000, std::byte{1}));
  for (int call = 1; call <= 2; ++call) {
    const Works works = start(place, data, data, kSum);
    REQUIRE(place.run(works));
    for (const auto& work : works) CHECK(work->wait() == Status::ok());
    for (const Bytes& sum : data) CHECK(sum == Bytes(sum.size(), std::byte(call == 1 ? 3 : 9)));
  }
  const auto planned =
      place.members[0]->all_reduce_async(data[0], data[0], kSum, kRingTimeout, AllReduceAlgorithm::kPlanned);
  CHECK(planned.status().code() == StatusCode::kUnimplemented);
}

TEST_CASE("members of a ring that differ in size or type are all told, with both") {
  constexpr Reduction kSum{ElementType::kInt32, ReduceOp::kSum};
  struct Other {
    std::size_t bytes;
    Reduction reduction;
    std::string text;
  };
  for (const Other& other :
       {Other{404, kSum, "404 bytes of int32 (sum)"},
        Other{400, {ElementType::kFloat32, ReduceOp::kSum}, "400 bytes of float32 (sum)"},
        Other{400, {ElementType::kInt32, ReduceOp::kMax}, "400 bytes of int32 (max)"},
        Other{0, kSum, "0 bytes of int32 (sum)"}}) {
    RingPlace place({0, 1, 2, 3});
    std::vector<Bytes> data(4, Bytes(400));
    data[2].resize(other.bytes);
    Works works;
    for (std::size_t rank = 0; rank < 4; ++rank) {
      works.push_back(*place.members[rank]->all_reduce_async(data[rank], data[rank],
                                                             rank == 2 ? other.reduction : kSum, kRingTimeout,
                                                             AllReduceAlgorithm::kRing));
    }
    REQUIRE(place.run(works, std::chrono::seconds(10)));
    for (const auto& work : works) {
      const Status outcome = work->wait();
      CAPTURE(outcome.to_string());
      CHECK(outcome.code() == StatusCode::kInvalidArgument);
      CHECK(outcome.message().find("400 bytes of int32 (sum)") != std::string::npos);
      CHECK(outcome.message().find(other.text) != std::string::npos);
    }
  }
}

TEST_CASE("a ring that cannot be is refused, and the group goes on") {
  RingPlace place({0, 1});
  Bytes seven(7);
  Bytes eight(8);
  const auto refused = [&](const Bytes& input, Bytes& output, Reduction reduction) {
    return place.members[0]
        ->all_reduce_async(input, output, reduction, kRingTimeout, AllReduceAlgorithm::kRing)
        .status();
  };
  constexpr Reduction kSum{ElementType::kInt32, ReduceOp::kSum};
  CHECK(refused(seven, seven, kSum).message() ==
        "rank 0: 7 bytes are not a number of int32, which have 4 bytes each");
  CHECK(refused(eight, seven, kSum).message() == "rank 0: the output has 7 bytes, the input 8");
  CHECK(refused(eight, eight, {ElementType::kInt32, ReduceOp::kAverage}).code() ==
        StatusCode::kInvalidArgument);
  std::vector<Bytes> data(2, Bytes(8, std::byte{1}));
  const Works works = start(place, data, data, kSum);
  REQUIRE(place.run(works));
  CHECK(works.front()->wait() == Status::ok());
  CHECK(data[1] == Bytes(8, std::byte{2}));
}

TEST_CASE("a ring ends everywhere: a member that died, that never calls, that cancels") {
  constexpr Reduction kSum{ElementType::kInt32, ReduceOp::kSum};
  constexpr Duration kShort = std::chrono::seconds(20);
  for (const auto& [policy, what] : std::vector<std::pair<std::string, std::string>>{{"exact", "dies"},
                                                                                     {"exact", "never calls"},
                                                                                     {"exact", "cancels"},
                                                                                     {"exact", "lets go"},
                                                                                     {"square", "dies"},
                                                                                     {"square", "cancels"}}) {
    CAPTURE(policy);
    CAPTURE(what);
    RingPlace place({0, 1, 2, 3}, 1, policy);
    std::vector<Bytes> data(4, Bytes(40'000'000));
    Works works;
    for (std::size_t rank = 0; rank < 4; ++rank) {
      if (rank == 2 && what == "never calls") continue;
      works.push_back(*place.members[rank]->all_reduce_async(data[rank], data[rank], kSum, kShort,
                                                             AllReduceAlgorithm::kRing));
    }
    // And one behind it.
    const auto behind =
        *place.members[0]->all_reduce_async(data[0], data[0], kSum, kShort, AllReduceAlgorithm::kRing);
    works.push_back(behind);
    place.run_for(std::chrono::milliseconds(500));
    for (const auto& work : works) REQUIRE(!work->is_done());
    if (what == "dies") place.overlay.transport(2).stop();
    if (what == "cancels") works[2]->cancel();
    if (what == "lets go") place.members[2].reset();
    const bool is_told = what == "cancels" || what == "lets go";
    CHECK(place.run(works, (is_told ? Duration(0) : kShort) + DataPlane::kDrainTime));
    for (const auto& work : works) {
      const Status outcome = work->wait();
      CAPTURE(outcome.to_string());
      CHECK(!outcome.is_ok());
      if (what == "never calls") CHECK(outcome.code() == StatusCode::kDeadlineExceeded);
      if (what == "cancels" || what == "lets go") CHECK(outcome.code() == StatusCode::kCancelled);
    }
    const auto later =
        place.members[0]->all_reduce_async(data[0], data[0], kSum, kShort, AllReduceAlgorithm::kRing);
    CHECK(later.status().code() == StatusCode::kFailedPrecondition);
  }
}
