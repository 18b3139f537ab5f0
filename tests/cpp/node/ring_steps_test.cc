// A ring's steps alone: whatever order its messages and its arithmetic end in, the sums are right; and a ring
// that is told of nothing more does nothing more.
#include "node/rings/ring_steps.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

using namespace square;

namespace {

constexpr Reduction kInts{ElementType::kInt32, ReduceOp::kSum};

// The members of a ring, and what is between them. Events happen in any order that links and threads allow.
class RingBench {
 public:
  struct Member final : RingMember {
    void send(std::span<const std::byte> data, std::function<void()> then) override {
      sent.push_back({data, std::move(then)});
      most_sent = std::max(most_sent, sent.size());
    }
    void receive(std::span<std::byte> place, std::function<void()> then) override {
      wanted.push_back({place, std::move(then)});
    }
    void work(std::size_t /*bytes*/, std::function<void()> task, std::function<void()> then) override {
      CHECK(!task_);
      task_ = [task = std::move(task), then = std::move(then)] {
        task();
        then();
      };
    }
    void finish(const Status& outcome) override {
      CHECK(!ended);
      ended = outcome;
    }

    struct Sent {
      std::span<const std::byte> data;
      std::function<void()> then;
    };
    struct Wanted {
      std::span<std::byte> place;
      std::function<void()> then;
    };
    std::deque<Sent> sent;
    std::deque<Wanted> wanted;
    std::function<void()> task_;
    std::size_t most_sent = 0;
    std::optional<Status> ended;
    std::vector<std::int32_t> input;
    std::vector<std::int32_t> output;
    std::unique_ptr<RingSteps> steps;
  };

  RingBench(std::size_t ranks, std::size_t elements, bool in_place, std::uint64_t seed) : random_(seed) {
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      Member& member = *members.emplace_back(std::make_unique<Member>());
      member.input.resize(elements);
      for (auto& value : member.input) value = static_cast<std::int32_t>(random_() % 1'000);
      member.output = in_place ? member.input : std::vector<std::int32_t>(elements, -1);
      member.steps = std::make_unique<RingSteps>(
          Rank(rank), ranks, std::as_bytes(std::span(in_place ? member.output : member.input)),
          std::as_writable_bytes(std::span(member.output)), kInts);
    }
  }
  void begin(std::size_t rank, Reduction reduction = kInts) {
    Member& member = *members[rank];
    if (reduction.op != kInts.op) {
      member.steps = std::make_unique<RingSteps>(Rank(static_cast<std::uint32_t>(rank)), members.size(),
                                                 std::as_bytes(std::span(member.output)),
                                                 std::as_writable_bytes(std::span(member.output)), reduction);
    }
    member.steps->begin(member, {CallKind::kRingAllReduce, 7});
  }

  // One thing that may happen happens. Whether there was any.
  bool step() {
    std::vector<std::function<void()>> possible;
    for (std::size_t rank = 0; rank < members.size(); ++rank) {
      Member& from = *members[rank];
      Member& to = *members[(rank + 1) % members.size()];
      if (from.task_) possible.emplace_back([&] { std::exchange(from.task_, nullptr)(); });
      if (!from.sent.empty() && !to.wanted.empty()) possible.emplace_back([&] { deliver(from, to); });
    }
    for (std::size_t i = 0; i < ends_.size(); ++i)
      possible.emplace_back([this, i] {
        const auto end = std::move(ends_[i]);
        ends_.erase(ends_.begin() + static_cast<std::ptrdiff_t>(i));
        end();
      });
    if (possible.empty()) return false;
    possible[random_() % possible.size()]();
    return true;
  }

  std::vector<std::unique_ptr<Member>> members;

 private:
  // In order; both ends hear of it whenever.
  void deliver(Member& from, Member& to) {
    const Member::Sent sent = std::move(from.sent.front());
    const Member::Wanted wanted = std::move(to.wanted.front());
    from.sent.pop_front();
    to.wanted.pop_front();
    REQUIRE(sent.data.size() == wanted.place.size());
    if (!sent.data.empty()) std::memcpy(wanted.place.data(), sent.data.data(), sent.data.size());
    ends_.push_back(sent.then);
    ends_.push_back(wanted.then);
  }

  std::mt19937_64 random_;
  std::vector<std::function<void()>> ends_;
};

}  // namespace

TEST_CASE("a ring's steps add up in any order of events, in place or not") {
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const std::size_t ranks = 2 + random() % 4;
    // Of one segment, of several, of more than the window has; fewer elements than ranks, and none.
    const std::size_t elements = seed % 20 == 0 ? 2'000'000 : random() % (seed % 5 == 0 ? 8 : 300'000);
    RingBench bench(ranks, elements, seed % 2 == 0, random());
    std::vector<std::int32_t> wanted(elements);
    for (const auto& member : bench.members) {
      for (std::size_t i = 0; i < elements; ++i) wanted[i] += member->input[i];
    }
    for (std::size_t rank = 0; rank < ranks; ++rank) bench.begin(rank);
    while (bench.step()) {
    }
    for (const auto& member : bench.members) {
      REQUIRE(member->ended);
      CHECK(*member->ended == Status::ok());
      CHECK(member->output == wanted);
      CHECK(member->most_sent <= RingSteps::kWindow + 1);  // and the description
    }
  }
}

TEST_CASE("a ring whose member never begins, or that is told of no more ends, waits and does not spin") {
  RingBench bench(3, 300'000, true, 1);
  bench.begin(0);
  bench.begin(1);
  std::size_t steps = 0;
  while (bench.step()) REQUIRE(++steps < 1'000);
  for (const auto& member : bench.members) CHECK(!member->ended);
}

TEST_CASE("members of a ring that call otherwise have both calls in the error, before any data is taken") {
  RingBench bench(2, 100, true, 1);
  const std::vector<std::int32_t> before = bench.members[0]->output;
  bench.begin(0);
  bench.begin(1, {ElementType::kInt32, ReduceOp::kMax});
  while (!bench.members[0]->ended && bench.step()) {
  }
  REQUIRE(bench.members[0]->ended);
  const std::string message = bench.members[0]->ended->message();
  CHECK(bench.members[0]->ended->code() == StatusCode::kInvalidArgument);
  CHECK(message.find("400 bytes of int32 (sum)") != std::string::npos);
  CHECK(message.find("400 bytes of int32 (max)") != std::string::npos);
  CHECK(bench.members[0]->output == before);
}
