// Parts of sums that threads of the transport add into the root's buffers, each once.
#include "node/sums/sum_zone.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>
#include <thread>

#include "node/overlay.h"
#include "node/sums/sum_messages.h"

namespace square::test {
namespace {

constexpr std::uint32_t kZoneBlockBytes = 8192;
constexpr std::size_t kBlocks = 64;
constexpr std::size_t kElements = kBlocks * kZoneBlockBytes / sizeof(std::int32_t);
constexpr Reduction kZoneSum{ElementType::kInt32, ReduceOp::kSum};

// Two streams of equal rates, in place: the member has ones, each part brings block + 2.
struct Root {
  std::vector<std::int32_t> numbers = std::vector<std::int32_t>(kElements, 1);
  std::shared_ptr<const Interleave> interleave = std::make_shared<const Interleave>(
      std::vector<Interleave::Stream>{{1e6, 1}, {1e6, 1}}, kBlocks, std::vector<bool>());
  std::shared_ptr<SumZone> zone;

  Root() {
    auto* bytes = reinterpret_cast<std::byte*>(numbers.data());
    zone = std::make_shared<SumZone>(BlockShape{kBlocks * kZoneBlockBytes, kZoneBlockBytes, Epoch(0)},
                                     SumBuffers{{bytes}, {bytes}, kZoneSum}, [] {});
    zone->begin({Epoch(1), 0, interleave});
  }
  [[nodiscard]] Frame part(std::size_t block, Attempt attempt = {}) const {
    const std::vector<std::int32_t> values(kZoneBlockBytes / sizeof(std::int32_t),
                                           static_cast<std::int32_t>(block + 2));
    Frame frame;
    frame.header.epoch = Epoch(1);
    frame.header.stream = StreamIndex(static_cast<std::uint16_t>(interleave->stream_of(block)));
    frame.header.attempt = to_wire(attempt);
    frame.header.offset_bytes = block * kZoneBlockBytes;
    frame.header.total_bytes = kBlocks * kZoneBlockBytes;
    frame.header.block_bytes = kZoneBlockBytes;
    frame.header.element_type = static_cast<std::uint8_t>(kZoneSum.type);
    frame.header.reduce_op = static_cast<std::uint8_t>(kZoneSum.op);
    frame.payload = Buffer::copy_of(std::as_bytes(std::span(values)));
    return frame;
  }
  bool lands(const Frame& frame) const { return zone->land(frame.header, frame.payload) != nullptr; }
  [[nodiscard]] bool has_sum(std::size_t block, bool added) const {
    const auto begin =
        numbers.begin() + static_cast<std::ptrdiff_t>(block * kZoneBlockBytes / sizeof(numbers[0]));
    const auto expected = static_cast<std::int32_t>(added ? block + 3 : 1);
    return std::all_of(begin, begin + kZoneBlockBytes / sizeof(numbers[0]),
                       [&](std::int32_t number) { return number == expected; });
  }
};

}  // namespace

TEST_CASE("a part is added once, whoever brings it, and stays added whatever becomes of its frame") {
  const std::uint64_t seed = seed_from_environment(std::random_device{}());
  INFO("SQUARE_SEED=" << seed);
  std::mt19937_64 random(seed);
  Root root;
  std::atomic<std::size_t> landed = 0;
  std::vector<std::thread> carriers;
  for (int i = 0; i < 4; ++i) {
    carriers.emplace_back([&, own = random()] {
      std::vector<std::size_t> order(kBlocks);
      std::iota(order.begin(), order.end(), std::size_t{0});
      std::shuffle(order.begin(), order.end(), std::mt19937_64(own));
      // What land() returns is let go of at once, as for a frame that the strand refuses.
      for (const std::size_t block : order) landed += root.lands(root.part(block)) ? 1 : 0;
    });
  }
  std::vector<std::size_t> added;
  while (added.size() < kBlocks) {
    for (const std::size_t block : root.zone->take_added()) {
      CHECK(root.has_sum(block, true));
      added.push_back(block);
    }
  }
  for (auto& carrier : carriers) carrier.join();
  CHECK(landed == kBlocks);
  CHECK(root.zone->take_added().empty());
  std::ranges::sort(added);
  CHECK(std::ranges::adjacent_find(added) == added.end());
}

TEST_CASE("only a part of the present attempt, in its place, is added") {
  Root root;
  const auto refuses = [&](auto change) {
    Frame frame = root.part(0);
    change(frame.header);
    return !root.lands(frame) && root.has_sum(0, false);
  };
  CHECK(refuses([](FrameHeader& header) { header.epoch = Epoch(2); }));
  CHECK(refuses([](FrameHeader& header) { header.layout = Epoch(1); }));
  CHECK(refuses([](FrameHeader& header) { header.attempt = to_wire({1, 0}); }));
  CHECK(refuses([](FrameHeader& header) { header.attempt = to_wire({0, 1}); }));
  CHECK(
      refuses([](FrameHeader& header) { header.stream = StreamIndex(header.stream.index() == 0 ? 1 : 0); }));
  CHECK(refuses([](FrameHeader& header) { header.element_type = 1; }));
  CHECK(refuses([](FrameHeader& header) { header.reduce_op = 0; }));
  CHECK(root.lands(root.part(0)));
  CHECK(root.has_sum(0, true));
}

TEST_CASE("what is asked for again is added from its new retry only, and never twice") {
  Root root;
  CHECK(root.zone->ask_again(3, 1));
  CHECK_FALSE(root.lands(root.part(3)));
  CHECK(root.lands(root.part(3, {0, 1})));
  CHECK_FALSE(root.zone->ask_again(3, 2));
  CHECK_FALSE(root.lands(root.part(3, {0, 2})));
  CHECK(root.has_sum(3, true));
}

TEST_CASE("sums that begin again keep what has landed and take the rest anew") {
  Root root;
  CHECK(root.lands(root.part(0)));
  CHECK(root.zone->ask_again(1, 1));
  root.zone->pause();
  CHECK_FALSE(root.lands(root.part(2)));
  const std::vector<bool> done = root.zone->claimed();
  CHECK(std::ranges::count(done, true) == 1);
  root.interleave =
      std::make_shared<const Interleave>(std::vector<Interleave::Stream>{{1e6, 1}, {3e6, 1}}, kBlocks, done);
  root.zone->begin({Epoch(1), 1, root.interleave});
  CHECK_FALSE(root.lands(root.part(1)));
  CHECK(root.lands(root.part(1, {1, 0})));
  CHECK_FALSE(root.lands(root.part(0, {1, 0})));
  CHECK(root.has_sum(0, true));
  CHECK(root.has_sum(1, true));
  CHECK(root.zone->take_added() == std::vector<std::size_t>{0, 1});
}

TEST_CASE("a part is added where it arrives only at a root, and only if it is the only one") {
  Root root;
  const SessionId session{3};
  const OperationId operation{5};
  const LinkHandle link{1};
  const auto lands = [&](std::vector<std::string> parents, std::vector<std::string> children,
                         std::size_t block) {
    LandingTable table;
    for (std::uint16_t index = 0; index < 2; ++index) {
      LocalStream stream;
      stream.key = {Epoch(1), session, StreamIndex(index)};
      stream.kind = SessionKind::kReduce;
      stream.parents = parents;
      stream.children = children;
      table.add_stream(stream);
    }
    table.connect(link, "parent");
    table.open(session, operation, root.zone);
    Frame frame = root.part(block);
    frame.header.session = session;
    frame.header.operation = operation;
    return table.land(link, frame) != nullptr;
  };
  CHECK_FALSE(lands({"parent", "other"}, {}, 0));
  CHECK_FALSE(lands({"parent"}, {"child"}, 0));
  CHECK_FALSE(lands({"other"}, {}, 0));
  CHECK(root.has_sum(0, false));
  CHECK(lands({"parent"}, {}, 0));
  CHECK(root.has_sum(0, true));
}

}  // namespace square::test
