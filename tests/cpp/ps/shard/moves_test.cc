// A shard that becomes another range of the model: the same bits, and rounds go on from them.
#include "ps/shard/moves.h"

#include <doctest/doctest.h>

#include "coding/floats.h"
#include "ps/shard/rig.h"

using namespace square;
using namespace square::ps;
using namespace square::test;

namespace {

constexpr std::uint64_t kBegin = 7;
constexpr std::uint64_t kSize = 2 * kPartElements + 1000;
constexpr std::uint64_t kKept = kPartElements + 333;
constexpr Nesterov kOuter{0.7, 0.8, 2, 0.25};

v1::PsShard shard_from(std::uint64_t begin, std::uint64_t end, const std::string& server = "s") {
  v1::PsShard shard;
  shard.set_server(server);
  shard.set_begin(begin);
  shard.set_end(end);
  return shard;
}

v1::PsTransfer range(std::uint64_t ticket, std::uint64_t version, std::uint64_t begin, std::uint64_t end) {
  v1::PsTransfer transfer;
  transfer.set_ticket(ticket);
  transfer.set_line("move " + std::to_string(ticket));
  transfer.set_version(version);
  transfer.set_maker(100 + version);
  *transfer.mutable_shard() = shard_from(begin, end);
  return transfer;
}

v1::PsMove move_to(std::uint64_t version, const v1::PsShard& shard, std::uint64_t behind = 0) {
  v1::PsMove move;
  move.mutable_record()->set_version(version);
  move.mutable_record()->set_maker(100 + version);
  *move.mutable_record()->mutable_layout() = layout_around(shard, kBegin + kSize + behind);
  move.mutable_record()->add_moves(version);
  return move;
}

std::future<Result<MadeVersion>> begin_move(ShardRig& rig, const v1::PsMove& move) {
  return rig.begin<Result<MadeVersion>>([=](Shard& host, auto done) { host.move(move, done); });
}

OuterShard::State state_of(const OuterShard& shard) {
  return {{shard.parameters().begin(), shard.parameters().end()},
          {shard.momentum().begin(), shard.momentum().end()},
          {shard.accumulator().begin(), shard.accumulator().end()},
          shard.rounds()};
}

std::vector<float> cut(const std::vector<float>& all, std::uint64_t first, std::uint64_t count) {
  if (all.empty()) return {};
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
  return std::vector<float>(begin, begin + static_cast<std::ptrdiff_t>(count));
}

OuterShard::State part(const OuterShard::State& all, std::uint64_t first, std::uint64_t count) {
  return {cut(all.parameters, first, count), cut(all.momentum, first, count),
          cut(all.accumulator, first, count), all.rounds};
}

std::vector<std::uint32_t> bits_of(std::span<const float> values) {
  return bits({values.begin(), values.end()});
}

void step(OuterShard& shard, std::vector<float> average, double factor) {
  shard.begin();
  shard.update(0, average, factor);
  shard.commit(std::move(average));
}

bool are_same(const OuterShard::State& one, const OuterShard::State& other) {
  return bits(one.parameters) == bits(other.parameters) && bits(one.momentum) == bits(other.momentum) &&
         bits(one.accumulator) == bits(other.accumulator) && one.rounds == other.rounds;
}

// Version 2 of a training, where a gradient waits for the momentum.
OuterShard two_versions(ShardRig& rig) {
  const std::vector<float> parameters = drawn(1, kSize);
  rig.begin_with(parameters);
  const std::vector<float> push = drawn(2, kSize);
  rig.whole_round(2, push, 0.5);
  auto expected = OuterShard::create(parameters, kOuter);
  step(*expected, push, 0.5);
  REQUIRE(!expected->accumulator().empty());
  return std::move(*expected);
}

// The end of a move that is not the rig's.
std::future<Result<OuterShard::State>> receive(ShardRig& rig, const v1::PsTransfer& transfer) {
  return std::async(std::launch::async, [&rig, transfer]() -> Result<OuterShard::State> {
    const auto line = rig.lines().worker(transfer.line());
    Staging staging;
    auto gathering = Gathering::create(transfer.shard(), 1);
    if (Status status = receive_state(*line, staging, transfer, **gathering); !status.is_ok()) return status;
    return (*gathering)->finish();
  });
}

std::future<Status> send(ShardRig& rig, const v1::PsTransfer& transfer, OuterShard::State state) {
  return std::async(std::launch::async, [&rig, transfer, state = std::move(state)] {
    const auto line = rig.lines().worker(transfer.line());
    Staging staging;
    const StateReader read = [&](StateArray array, std::uint64_t first, std::span<float> out) {
      const std::vector<float>& all = array == StateArray::kParameters ? state.parameters
                                      : array == StateArray::kMomentum ? state.momentum
                                                                       : state.accumulator;
      std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(first - transfer.shard().begin()), out.size(),
                  out.begin());
      return Status();
    };
    return send_state(*line, staging, transfer, {state.rounds, !state.accumulator.empty()}, read);
  });
}

}  // namespace

TEST_CASE("a server that gives a part of its shard goes on with the rest, and has the version before") {
  const TemporaryFolder folder;
  ShardRig rig(folder, {.begin = kBegin, .size = kSize, .outer = kOuter});
  const OuterShard all = two_versions(rig);

  v1::PsMove move = move_to(3, shard_from(kBegin, kBegin + kKept));
  const v1::PsTransfer given = range(50, 2, kBegin + kKept, kBegin + kSize);
  *move.add_gives() = given;
  auto received = receive(rig, given);
  auto made = begin_move(rig, move);
  const auto state = received.get();
  REQUIRE_MESSAGE(state.is_ok(), state.status().to_string());
  CHECK(are_same(*state, part(state_of(all), kKept, kSize - kKept)));
  const auto version = made.get();
  REQUIRE_MESSAGE(version.is_ok(), version.status().to_string());
  // Until it is committed, workers may take the version before.
  CHECK(bits(*rig.whole_pull(2)) == bits_of(all.parameters()));
  rig.commit(3);
  const auto before = rig.whole_pull(2);
  REQUIRE_MESSAGE(before.is_ok(), before.status().to_string());
  CHECK(bits(*before) == bits_of(all.parameters()));

  rig.set_range(kBegin, kKept);
  auto kept = OuterShard::restore(part(state_of(all), 0, kKept), kOuter);
  REQUIRE(kept.is_ok());
  CHECK(bits(*rig.whole_pull(3)) == bits_of(kept->parameters()));
  const std::vector<float> push = drawn(3, kKept);
  rig.whole_round(4, push, 0.25);
  step(*kept, push, 0.25);
  CHECK(bits(*rig.whole_pull(4)) == bits_of(kept->parameters()));
  // Its disk has the momentum, too.
  CHECK(rig.open(4, 104).is_ok());
  rig.whole_round(5, push, 0.25);
  step(*kept, push, 0.25);
  CHECK(bits(*rig.whole_pull(5)) == bits_of(kept->parameters()));
}

TEST_CASE("a server that comes later gets its shard from several others") {
  const TemporaryFolder folder;
  ShardRig rig(folder, {.begin = kBegin, .size = kSize, .outer = kOuter});
  auto all = OuterShard::create(drawn(1, kSize), kOuter);
  step(*all, drawn(2, kSize), 1);
  const OuterShard::State state = state_of(*all);
  REQUIRE(rig.open(0, 0).is_ok());

  v1::PsMove move = move_to(9, shard_from(kBegin, kBegin + kSize));
  *move.add_takes() = range(50, 8, kBegin, kBegin + kKept);
  *move.add_takes() = range(51, 8, kBegin + kKept, kBegin + kSize);
  auto one = send(rig, move.takes(0), part(state, 0, kKept));
  auto other = send(rig, move.takes(1), part(state, kKept, kSize - kKept));
  const auto made = begin_move(rig, move).get();
  REQUIRE_MESSAGE(made.is_ok(), made.status().to_string());
  CHECK(one.get().is_ok());
  CHECK(other.get().is_ok());
  rig.commit(9);
  CHECK(bits(*rig.whole_pull(9)) == bits(state.parameters));
  const std::vector<float> push = drawn(3, kSize);
  rig.whole_round(10, push, 0.5);
  step(*all, push, 0.5);
  CHECK(bits(*rig.whole_pull(10)) == bits_of(all->parameters()));
}

TEST_CASE("a move that fails leaves nothing, and the next one succeeds") {
  const TemporaryFolder folder;
  ShardRig rig(folder, {.begin = kBegin, .size = kSize, .outer = kOuter});
  auto all = OuterShard::create(drawn(1, kSize), kOuter);
  const OuterShard::State state = state_of(*all);
  REQUIRE(rig.open(0, 0).is_ok());
  const v1::PsMove move = [] {
    v1::PsMove made = move_to(9, shard_from(kBegin, kBegin + kSize));
    *made.add_takes() = range(50, 8, kBegin, kBegin + kKept);
    *made.add_takes() = range(51, 8, kBegin + kKept, kBegin + kSize);
    return made;
  }();

  SUBCASE("as its sources are of different rounds") {
    OuterShard::State later = part(state, kKept, kSize - kKept);
    later.rounds = 2;
    auto one = send(rig, move.takes(0), part(state, 0, kKept));
    auto other = send(rig, move.takes(1), later);
    const auto made = begin_move(rig, move).get();
    CHECK(made.status().code() == StatusCode::kDataLoss);
    CHECK_FALSE((one.get().is_ok() && other.get().is_ok()));
  }
  SUBCASE("as it is given up") {
    auto one = send(rig, move.takes(0), part(state, 0, kKept));
    auto made = begin_move(rig, move);
    CHECK(one.get().is_ok());
    rig.on_strand([](Shard& host) { host.cancel(51); });
    (void)rig.lines().worker("move 51");
    CHECK_FALSE(made.get().is_ok());
  }
  CHECK(folder.files().empty());
  CHECK(rig.drop_made().is_ok());

  v1::PsMove again = move_to(9, shard_from(kBegin, kBegin + kSize));
  *again.add_takes() = range(60, 8, kBegin, kBegin + kSize);
  auto sent = send(rig, again.takes(0), state);
  const auto made = begin_move(rig, again).get();
  REQUIRE_MESSAGE(made.is_ok(), made.status().to_string());
  CHECK(sent.get().is_ok());
  rig.commit(9);
  CHECK(bits(*rig.whole_pull(9)) == bits(state.parameters));
}

TEST_CASE("a shard that moves along the model keeps its middle, gives its front and takes its end") {
  const TemporaryFolder folder;
  ShardRig rig(folder, {.begin = kBegin, .size = kSize, .behind = 500, .outer = kOuter});
  const OuterShard::State had = state_of(two_versions(rig));
  auto next = OuterShard::create(drawn(5, 500), kOuter);
  step(*next, drawn(6, 500), 0.5);

  v1::PsMove move = move_to(3, shard_from(kBegin + kKept, kBegin + kSize + 500), 500);
  *move.add_gives() = range(50, 2, kBegin, kBegin + kKept);
  *move.add_takes() = range(51, 2, kBegin + kSize, kBegin + kSize + 500);
  auto received = receive(rig, move.gives(0));
  auto sent = send(rig, move.takes(0), state_of(*next));
  const auto made = begin_move(rig, move).get();
  REQUIRE_MESSAGE(made.is_ok(), made.status().to_string());
  CHECK(sent.get().is_ok());
  CHECK(are_same(*received.get(), part(had, 0, kKept)));
  rig.commit(3);

  rig.set_range(kBegin + kKept, kSize - kKept + 500);
  std::vector<float> expected = cut(had.parameters, kKept, kSize - kKept);
  expected.insert(expected.end(), next->parameters().begin(), next->parameters().end());
  CHECK(bits(*rig.whole_pull(3)) == bits(expected));
  CHECK(rig.open(3, 103).is_ok());  // and so it is on the disk
  CHECK(bits(*rig.whole_pull(3)) == bits(expected));
}

TEST_CASE("a move of elements that are not there ends on both sides") {
  const TemporaryFolder folder;
  ShardRig rig(folder, {.begin = kBegin, .size = kSize, .outer = kOuter});
  (void)two_versions(rig);
  v1::PsMove move = move_to(3, shard_from(kBegin, kBegin + kKept));
  SUBCASE("which it is to take") {
    *move.add_takes() = range(50, 2, kBegin + kKept, kBegin + kSize);
    CHECK(begin_move(rig, move).get().status().code() == StatusCode::kInvalidArgument);
  }
  SUBCASE("which it is to give") {
    SUBCASE("of its shard") { *move.add_gives() = range(50, 2, kBegin + kKept, kBegin + kSize + 1); }
    SUBCASE("of its newest version") { *move.add_gives() = range(50, 1, kBegin + kKept, kBegin + kSize); }
    auto received = receive(rig, move.gives(0));
    (void)begin_move(rig, move).get();
    CHECK_FALSE(received.get().is_ok());
  }
  CHECK(rig.drop_made().is_ok());
}
