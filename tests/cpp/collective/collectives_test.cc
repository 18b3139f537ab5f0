// Every operation over real nodes, two ranks on one of them; several in flight, sub-groups,
// failure. random_collectives_test.cc has the same in a simulation, at random.
#include <doctest/doctest.h>

#include <cstdint>
#include <utility>

#include "collective/real_group.h"

using namespace square;
using namespace square::test;

namespace {

using Numbers = std::vector<std::int32_t>;

constexpr Reduction kSum{ElementType::kInt32, ReduceOp::kSum};
// Rank 1 and rank 3 share a node.
const std::vector<std::size_t> kPlaces{0, 1, 2, 1};
constexpr std::size_t kRanks = 4;

// Uneven, some are zero.
std::size_t size_between(std::size_t from, std::size_t to) { return (from * 7 + to * 3) % 5 * 20'011; }
unsigned seed_between(std::size_t from, std::size_t to) { return static_cast<unsigned>(10 * from + to); }

template <typename Value>
std::span<std::byte> bytes(std::vector<Value>& values) {
  return std::as_writable_bytes(std::span(values));
}

Numbers numbers(std::size_t count, std::size_t seed) {
  Numbers made(count);
  for (std::size_t i = 0; i < count; ++i) made[i] = static_cast<std::int32_t>((i + 1) * (seed + 3) % 10'007);
  return made;
}
Numbers sum_of_all(std::size_t count, std::size_t seed, std::size_t ranks) {
  Numbers sum(count);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const Numbers part = numbers(count, seed + rank);
    for (std::size_t i = 0; i < count; ++i) sum[i] += part[i];
  }
  return sum;
}

void check_ok(const std::vector<Status>& outcomes) {
  for (const Status& outcome : outcomes) CHECK_MESSAGE(outcome.is_ok(), outcome.to_string());
}
// The same tests with ranks on three nodes, and all on one: that needs no link.
struct RealOverlay {
  Fixture fixture{{"a", "b", "c"}, "exact", 1e9};
  Members spread = fixture.group_on(kPlaces, "spread");
  Members local = fixture.group_on({2, 2, 2, 2}, "local");
};

}  // namespace

TEST_CASE("all-gather: uneven, with nothing of some, in place or not") {
  RealOverlay overlay;
  for (const Members* members : {&overlay.spread, &overlay.local}) {
    for (const bool in_place : {false, true}) {
      std::vector<Bytes> given;
      std::vector<Parts> got(kRanks);
      for (std::size_t rank = 0; rank < kRanks; ++rank) {
        given.push_back(pattern(size_between(rank, 1), seed_between(rank, 0)));
        for (std::size_t from = 0; from < kRanks; ++from) got[rank].emplace_back(size_between(from, 1));
        if (in_place) got[rank][rank] = given[rank];
      }
      check_ok(on_all(*members, [&](Communicator& member) {
        const std::size_t rank = member.rank().index();
        const Bytes& input = in_place ? got[rank][rank] : given[rank];
        return member.all_gather_async(input, outputs_of(got[rank]), kLimit);
      }));
      for (const Parts& parts : got) CHECK(parts == given);
    }
  }
}

TEST_CASE("all-to-all: uneven, with nothing between some") {
  RealOverlay overlay;
  for (const Members* members : {&overlay.spread, &overlay.local}) {
    std::vector<Parts> given(kRanks);
    std::vector<Parts> got(kRanks);
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      for (std::size_t other = 0; other < kRanks; ++other) {
        given[rank].push_back(pattern(size_between(rank, other), seed_between(rank, other)));
        got[rank].emplace_back(size_between(other, rank));
      }
    }
    got[1][1] = given[1][1];  // what it gives to itself is in its place
    check_ok(on_all(*members, [&](Communicator& member) {
      const std::size_t rank = member.rank().index();
      auto inputs = inputs_of(given[rank]);
      if (rank == 1) inputs[1] = got[1][1];
      return member.all_to_all_async(inputs, outputs_of(got[rank]), kLimit);
    }));
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      for (std::size_t from = 0; from < kRanks; ++from) CHECK(got[rank][from] == given[from][rank]);
    }
  }
}

TEST_CASE("gather and scatter, to and from any root") {
  RealOverlay overlay;
  for (const Members* members : {&overlay.spread, &overlay.local}) {
    for (const std::uint32_t root : {0U, 3U}) {
      Parts given;
      Parts got;
      for (std::size_t rank = 0; rank < kRanks; ++rank) {
        given.push_back(pattern(size_between(rank, root), seed_between(rank, root)));
        got.emplace_back(given.back().size());
      }
      check_ok(on_all(*members, [&](Communicator& member) {
        const bool is_root = member.rank() == Rank(root);
        return member.gather_async(given[member.rank().index()],
                                   is_root ? outputs_of(got) : std::vector<std::span<std::byte>>(),
                                   Rank(root), kLimit);
      }));
      CHECK(got == given);
      for (Bytes& part : got) std::ranges::fill(part, std::byte{0});
      check_ok(on_all(*members, [&](Communicator& member) {
        const bool is_root = member.rank() == Rank(root);
        return member.scatter_async(is_root ? inputs_of(given) : std::vector<std::span<const std::byte>>(),
                                    got[member.rank().index()], Rank(root), kLimit);
      }));
      CHECK(got == given);
    }
  }
}

TEST_CASE("reduce-scatter: uneven, with nothing for some, in place or not") {
  RealOverlay overlay;
  for (const Members* members : {&overlay.spread, &overlay.local}) {
    for (const bool in_place : {false, true}) {
      std::vector<std::vector<Numbers>> given(kRanks);
      std::vector<Numbers> got(kRanks);
      for (std::size_t rank = 0; rank < kRanks; ++rank) {
        for (std::size_t to = 0; to < kRanks; ++to)
          given[rank].push_back(numbers(size_between(to, 2), 10 * to + rank));
        got[rank].resize(size_between(rank, 2), -7);
      }
      check_ok(on_all(*members, [&](Communicator& member) {
        const std::size_t rank = member.rank().index();
        std::vector<std::span<const std::byte>> inputs;
        for (Numbers& part : given[rank]) inputs.emplace_back(bytes(part));
        Numbers& output = in_place ? given[rank][rank] : got[rank];
        return member.reduce_scatter_async(inputs, bytes(output), kSum, kLimit);
      }));
      for (std::size_t rank = 0; rank < kRanks; ++rank) {
        const Numbers& output = in_place ? given[rank][rank] : got[rank];
        CHECK(output == sum_of_all(size_between(rank, 2), 10 * rank, kRanks));
        // What goes to others is only read.
        const std::size_t other = (rank + 1) % kRanks;
        CHECK(given[rank][other] == numbers(size_between(other, 2), 10 * other + rank));
      }
    }
  }
}

TEST_CASE("reduce, all-reduce and broadcast beside them, of nothing too") {
  RealOverlay overlay;
  for (const Members* members : {&overlay.spread, &overlay.local}) {
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{100'003}}) {
      std::vector<Numbers> given;
      for (std::size_t rank = 0; rank < kRanks; ++rank) given.push_back(numbers(count, rank));
      std::vector<Numbers> got(kRanks, Numbers(count, -7));
      check_ok(on_all(*members, [&](Communicator& member) {
        const std::size_t rank = member.rank().index();
        return member.all_reduce_async(bytes(given[rank]), bytes(got[rank]), kSum, kLimit);
      }));
      const Numbers sum = sum_of_all(count, 0, kRanks);
      for (const Numbers& result : got) CHECK(result == sum);
      check_ok(on_all(*members, [&](Communicator& member) {
        Numbers& own = given[member.rank().index()];
        return member.reduce_async(bytes(own), bytes(own), kSum, Rank(1), kLimit);
      }));
      CHECK(given[1] == sum);
      CHECK(given[2] == numbers(count, 2));
      check_ok(on_all(*members, [&](Communicator& member) {
        return member.broadcast_async(bytes(given[member.rank().index()]), Rank(1), kLimit);
      }));
      CHECK(given[3] == sum);
    }
  }
}

TEST_CASE("nobody leaves a barrier before all have come") {
  RealOverlay overlay;
  for (const Members* members : {&overlay.spread, &overlay.local}) {
    std::vector<std::shared_ptr<Work>> works;
    for (std::size_t rank = 0; rank + 1 < kRanks; ++rank)
      works.push_back(*(*members)[rank]->barrier_async(kLimit));
    for (const auto& work : works) CHECK_FALSE(work->wait_for(std::chrono::milliseconds(50)));
    works.push_back(*members->back()->barrier_async(kLimit));
    for (const auto& work : works) CHECK(work->wait() == Status::ok());
  }
}

TEST_CASE("a group of one is done at once") {
  Fixture overlay({"a"}, "exact");
  const Members alone = overlay.group("alone");
  Communicator& member = *alone[0];
  const Numbers given = numbers(1'000, 5);
  Numbers input = given;
  Numbers got(1'000);
  const auto is_given = [&] { return std::exchange(got, Numbers(1'000)) == given; };
  const std::vector<std::span<std::byte>> outputs{bytes(got)};
  const std::vector<std::span<const std::byte>> inputs{bytes(input)};
  CHECK(member.all_gather(bytes(input), outputs, kLimit) == Status::ok());
  CHECK(is_given());
  CHECK(member.all_to_all(inputs, {bytes(got)}, kLimit) == Status::ok());
  CHECK(is_given());
  CHECK(member.gather(bytes(input), {bytes(got)}, Rank(0), kLimit) == Status::ok());
  CHECK(is_given());
  CHECK(member.scatter(inputs, bytes(got), Rank(0), kLimit) == Status::ok());
  CHECK(is_given());
  CHECK(member.reduce_scatter(inputs, bytes(got), kSum, kLimit) == Status::ok());
  CHECK(is_given());
  CHECK(member.all_reduce(bytes(input), bytes(got), kSum, kLimit) == Status::ok());
  CHECK(is_given());
  CHECK(member.broadcast(bytes(input), Rank(0), kLimit) == Status::ok());
  CHECK(member.barrier(kLimit) == Status::ok());
}

TEST_CASE("overlapping groups on the same nodes, many operations of each in flight") {
  Fixture overlay({"a", "b", "c", "d"}, "exact", 1e9);
  const std::vector<std::vector<std::size_t>> places{{0, 1, 2}, {3, 1, 2}, {2, 0, 3, 1}, {1, 3}};
  constexpr std::size_t kRounds = 5;
  std::vector<Members> groups;
  for (std::size_t g = 0; g < places.size(); ++g)
    groups.push_back(overlay.group_on(places[g], "g" + std::to_string(g)));
  std::vector<std::shared_ptr<Work>> works;
  std::vector<std::vector<Parts>> gathered(groups.size() * kRounds);
  std::vector<std::vector<Numbers>> added(groups.size() * kRounds);
  for (std::size_t round = 0; round < kRounds; ++round) {
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const std::size_t ranks = places[g].size();
      auto& parts = gathered[round * groups.size() + g];
      auto& sums = added[round * groups.size() + g];
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        parts.emplace_back(ranks, Bytes(5'000 + 100 * g));
        parts[rank][rank] = pattern(5'000 + 100 * g, seed_between(rank, round));
        sums.push_back(numbers(7'000 + g, 10 * round + rank));
      }
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        Communicator& member = *groups[g][rank];
        works.push_back(*member.all_gather_async(parts[rank][rank], outputs_of(parts[rank]), kLimit));
        works.push_back(*member.all_reduce_async(bytes(sums[rank]), bytes(sums[rank]), kSum, kLimit));
        works.push_back(*member.barrier_async(kLimit));
      }
    }
  }
  for (const auto& work : works) CHECK(work->wait() == Status::ok());
  for (std::size_t round = 0; round < kRounds; ++round) {
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const std::size_t ranks = places[g].size();
      Parts expected;
      for (std::size_t rank = 0; rank < ranks; ++rank)
        expected.push_back(pattern(5'000 + 100 * g, seed_between(rank, round)));
      for (const Parts& parts : gathered[round * groups.size() + g]) CHECK(parts == expected);
      for (const Numbers& sum : added[round * groups.size() + g])
        CHECK(sum == sum_of_all(7'000 + g, 10 * round, ranks));
    }
  }
}

TEST_CASE("an operation registers what it needs in one change of plan, and once") {
  Fixture overlay({"a", "b", "c", "d"}, "exact");
  const Members members = overlay.group("g");
  std::vector<Parts> parts(4, Parts(4, Bytes(100)));
  std::vector<Parts> got = parts;
  const auto epoch = [&] { return overlay.controller->plan()->epoch.value(); };
  const auto all_to_all = [&](Communicator& member) {
    const std::size_t rank = member.rank().index();
    return member.all_to_all_async(inputs_of(parts[rank]), outputs_of(got[rank]), kLimit);
  };
  const auto before = epoch();
  check_ok(on_all(members, all_to_all));
  CHECK(epoch() == before + 1);
  CHECK(overlay.controller->plan()->collectives.size() == 12);
  check_ok(on_all(members, all_to_all));
  // Gathers and scatters use the same unicasts.
  check_ok(on_all(members, [&](Communicator& member) {
    const std::size_t rank = member.rank().index();
    return member.gather_async(parts[rank][0], outputs_of(got[rank]), Rank(2), kLimit);
  }));
  CHECK(epoch() == before + 1);
  check_ok(on_all(members, [&](Communicator& member) {
    const std::size_t rank = member.rank().index();
    return member.all_gather_async(parts[rank][0], outputs_of(got[rank]), kLimit);
  }));
  CHECK(epoch() == before + 2);
  check_ok(on_all(members, [&](Communicator& member) {
    return member.broadcast_async(parts[member.rank().index()][0], Rank(3), kLimit);
  }));
  CHECK(epoch() == before + 2);
}
