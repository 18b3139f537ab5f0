// Blocks that threads of the transport copy into members' buffers, and who may do so.
#include "node/landing/landing.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <random>
#include <thread>

#include "node/overlay.h"

namespace square::test {
namespace {

constexpr std::uint32_t kLandedBlockBytes = 8192;
constexpr SessionId kSession{3};
constexpr OperationId kLanding{5};

std::vector<std::byte*> pointers_to(std::vector<std::vector<std::byte>>& buffers) {
  std::vector<std::byte*> pointers;
  for (auto& buffer : buffers) pointers.push_back(buffer.data());
  return pointers;
}

Frame block_of(const std::vector<std::byte>& data, std::size_t block) {
  const std::size_t offset = block * kLandedBlockBytes;
  Frame frame;
  frame.header.session = kSession;
  frame.header.operation = kLanding;
  frame.header.offset_bytes = offset;
  frame.header.total_bytes = data.size();
  frame.header.block_bytes = kLandedBlockBytes;
  frame.payload = Buffer::copy_of(
      std::span(data).subspan(offset, std::min<std::size_t>(kLandedBlockBytes, data.size() - offset)));
  return frame;
}

// What arrived, in order: the strand of this test.
class Arrivals {
 public:
  void push(Landing landing, std::size_t block) {
    const std::lock_guard lock(mutex_);
    arrivals_.emplace_back(std::move(landing), block);
  }
  std::optional<std::pair<Landing, std::size_t>> pop() {
    const std::lock_guard lock(mutex_);
    if (arrivals_.empty()) return std::nullopt;
    auto first = std::move(arrivals_.front());
    arrivals_.pop_front();
    return first;
  }

 private:
  std::mutex mutex_;
  std::deque<std::pair<Landing, std::size_t>> arrivals_;
};

TEST_CASE("every block counts once, whoever brings it and however often") {
  const std::uint64_t seed = seed_from_environment(std::random_device{}());
  INFO("SQUARE_SEED=" << seed);
  std::mt19937_64 random(seed);
  const std::vector<std::byte> data = random_bytes(random, 200 * kLandedBlockBytes + 1);
  const BlockShape shape{data.size(), kLandedBlockBytes, Epoch(0)};
  std::vector<std::vector<std::byte>> buffers(2, std::vector<std::byte>(data.size()));
  const auto zone = std::make_shared<CopyZone>(shape, pointers_to(buffers), [] {});
  Arrivals arrivals;
  std::atomic<bool> complete = false;
  std::vector<std::thread> carriers;
  for (int i = 0; i < 4; ++i) {
    carriers.emplace_back([&, own = random()] {
      std::mt19937_64 order(own);
      while (!complete) {
        const std::size_t block = order() % shape.block_count();
        const Frame frame = block_of(data, block);
        if (auto landing = zone->land(frame.header, frame.payload)) arrivals.push(std::move(landing), block);
      }
    });
  }
  std::vector<int> kept(shape.block_count());
  std::size_t missing = shape.block_count();
  while (missing > 0) {
    const auto arrival = arrivals.pop();
    if (!arrival) {
      std::this_thread::yield();
      continue;
    }
    CHECK(arrival->first->is_in(zone));
    if (random() % 4 == 0) continue;  // refused: it comes again
    arrival->first->keep();
    ++kept[arrival->second];
    --missing;
  }
  complete = true;
  for (auto& carrier : carriers) carrier.join();
  CHECK(std::ranges::all_of(kept, [](int times) { return times == 1; }));
  CHECK(!arrivals.pop());
  for (const auto& buffer : buffers) CHECK(buffer == data);
}

TEST_CASE("a closed zone says when the last copy is through, and nothing is written after") {
  const std::uint64_t seed = seed_from_environment(std::random_device{}());
  INFO("SQUARE_SEED=" << seed);
  std::mt19937_64 random(seed);
  const std::vector<std::byte> data = random_bytes(random, 16 * kLandedBlockBytes);
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<std::vector<std::byte>> buffers(1, std::vector<std::byte>(data.size()));
    std::atomic<int> drained = 0;
    const auto zone = std::make_shared<CopyZone>(BlockShape{data.size(), kLandedBlockBytes, Epoch(0)},
                                                 pointers_to(buffers), [&] { ++drained; });
    std::atomic<bool> stop = false;
    std::atomic<std::size_t> landed = 0;
    std::vector<std::thread> carriers;
    for (int i = 0; i < 3; ++i) {
      carriers.emplace_back([&, own = random()] {
        std::mt19937_64 order(own);
        while (!stop) {
          const Frame frame = block_of(data, order() % 16);
          // Not kept, so that the block can land again at once.
          if (zone->land(frame.header, frame.payload)) ++landed;
        }
      });
    }
    while (landed < 20) std::this_thread::yield();
    zone->close();
    const bool was_drained = zone->is_drained();
    while (!zone->is_drained()) std::this_thread::yield();
    // The owner has its buffer back: a late writer would be seen here, or by the sanitizer.
    std::ranges::fill(buffers[0], std::byte{0});
    const std::size_t before = landed;
    const Frame late = block_of(data, 0);
    CHECK(zone->land(late.header, late.payload) == nullptr);
    stop = true;
    for (auto& carrier : carriers) carrier.join();
    CHECK(landed <= before + carriers.size());  // those that were about to count
    CHECK(drained <= 1);
    if (!was_drained) CHECK(drained == 1);
    CHECK(std::ranges::all_of(buffers[0], [](std::byte byte) { return byte == std::byte{0}; }));
  }
}

TEST_CASE("a zone that nobody writes to is drained as soon as it is closed") {
  std::vector<std::byte> buffer(kLandedBlockBytes);
  std::vector<std::byte> data(kLandedBlockBytes, std::byte{7});
  int drained = 0;
  std::shared_ptr<LandingZone> zone =
      std::make_shared<CopyZone>(BlockShape{data.size(), kLandedBlockBytes, Epoch(0)},
                                 std::vector<std::byte*>{buffer.data()}, [&] { ++drained; });
  zone->close();
  CHECK(zone->is_drained());
  CHECK(drained == 0);  // nobody was writing: who closed knows
  const Frame frame = block_of(data, 0);
  CHECK(zone->land(frame.header, frame.payload) == nullptr);
  CHECK(buffer == std::vector<std::byte>(kLandedBlockBytes));
}

struct Landings {
  LandingTable table;
  std::vector<std::byte> data = std::vector<std::byte>(3 * kLandedBlockBytes, std::byte{9});
  std::vector<std::vector<std::byte>> buffers{std::vector<std::byte>(3 * kLandedBlockBytes)};
  std::shared_ptr<LandingZone> zone = std::make_shared<CopyZone>(
      BlockShape{data.size(), kLandedBlockBytes, Epoch(0)}, pointers_to(buffers), [] {});
  static constexpr LinkHandle kFromParent{1};
  static constexpr LinkHandle kFromOther{2};

  explicit Landings(bool is_relayed = false) {
    LocalStream stream;
    stream.key = {Epoch(1), kSession, StreamIndex(0)};
    stream.parents = {"parent"};
    if (is_relayed) stream.children = {"child"};
    stream.is_destination = true;
    table.add_stream(stream);
    table.connect(kFromParent, "parent");
    table.connect(kFromOther, "other");
    table.open(kSession, kLanding, zone);
  }
  Frame block(std::size_t number) const {
    Frame frame = block_of(data, number);
    frame.header.epoch = Epoch(1);
    return frame;
  }
  [[nodiscard]] bool is_untouched() const {
    return std::ranges::all_of(buffers[0], [](std::byte byte) { return byte == std::byte{0}; });
  }
};

TEST_CASE("a block lands in the zone of its operation, and its payload goes at once") {
  Landings landings;
  Frame frame = landings.block(1);
  const Landing landing = landings.table.land(Landings::kFromParent, frame);
  REQUIRE(landing != nullptr);
  CHECK(landing->size_bytes() == kLandedBlockBytes);
  CHECK(frame.payload.size_bytes() == 0);
  CHECK(landings.buffers[0][kLandedBlockBytes] == std::byte{9});
  CHECK(landings.buffers[0][0] == std::byte{0});
  Frame again = landings.block(1);
  CHECK(landings.table.land(Landings::kFromParent, again) == nullptr);
  CHECK(again.payload.size_bytes() == kLandedBlockBytes);
}

TEST_CASE("a relay keeps the payload to pass it on") {
  Landings landings(true);
  Frame frame = landings.block(0);
  CHECK(landings.table.land(Landings::kFromParent, frame) != nullptr);
  CHECK(frame.payload.size_bytes() == kLandedBlockBytes);
}

TEST_CASE("nobody but a parent of the stream writes to a zone") {
  Landings landings;
  const auto refuses = [&](LinkHandle link, auto change) {
    Frame frame = landings.block(0);
    change(frame);
    const std::size_t size = frame.payload.size_bytes();
    const Landing landing = landings.table.land(link, frame);
    return landing == nullptr && frame.payload.size_bytes() == size && landings.is_untouched();
  };
  const auto nothing = [](Frame&) {};
  CHECK(refuses(Landings::kFromOther, nothing));
  CHECK(refuses(LinkHandle(3), nothing));
  const auto parent = Landings::kFromParent;
  CHECK(refuses(parent, [](Frame& frame) { frame.header.type = FrameType::kProbe; }));
  CHECK(refuses(parent, [](Frame& frame) { frame.header.epoch = Epoch(2); }));
  CHECK(refuses(parent, [](Frame& frame) { frame.header.stream = StreamIndex(1); }));
  CHECK(refuses(parent, [](Frame& frame) { frame.header.session = SessionId(4); }));
  CHECK(refuses(parent, [](Frame& frame) { frame.header.operation = OperationId(6); }));
  CHECK(refuses(parent, [](Frame& frame) { frame.header.layout = Epoch(1); }));
  CHECK(refuses(parent, [](Frame& frame) { frame.header.offset_bytes = 1; }));
  CHECK(refuses(parent, [](Frame& frame) { frame.header.offset_bytes = 3 * kLandedBlockBytes; }));
  CHECK(refuses(parent,
                [](Frame& frame) { frame.header.offset_bytes = ~std::uint64_t{0} - kLandedBlockBytes + 1; }));
  CHECK(refuses(parent, [](Frame& frame) { frame.header.total_bytes += 1; }));
  CHECK(refuses(parent, [](Frame& frame) { frame.header.block_bytes *= 2; }));
  CHECK(refuses(parent, [](Frame& frame) { frame.payload = frame.payload.range(0, 100); }));
  landings.table.disconnect(parent);
  CHECK(refuses(parent, nothing));
  landings.table.connect(parent, "parent");
  landings.table.remove_stream({Epoch(1), kSession, StreamIndex(0)});
  CHECK(refuses(parent, nothing));
}

TEST_CASE("a zone that is closed is no longer found, and its successor stays") {
  Landings landings;
  const auto next = std::make_shared<CopyZone>(BlockShape{landings.data.size(), kLandedBlockBytes, Epoch(0)},
                                               pointers_to(landings.buffers), [] {});
  landings.table.open(kSession, kLanding, next);
  landings.table.close(kSession, kLanding, landings.zone);
  CHECK(landings.zone->is_drained());
  Frame frame = landings.block(2);
  const Landing landing = landings.table.land(Landings::kFromParent, frame);
  REQUIRE(landing != nullptr);
  CHECK(landing->is_in(next));
  landings.table.close(kSession, kLanding, next);
  Frame late = landings.block(0);
  CHECK(landings.table.land(Landings::kFromParent, late) == nullptr);
}

}  // namespace
}  // namespace square::test
