// Members that do not call the same operations.
#include <doctest/doctest.h>

#include "collective/real_group.h"

using namespace square;
using namespace square::test;

namespace {

constexpr std::size_t kCallRanks = 3;
constexpr Reduction kCallSum{ElementType::kInt32, ReduceOp::kSum};

// One member's buffers, and every operation with them.
struct Caller {
  std::vector<std::byte> one = std::vector<std::byte>(40'000);
  std::vector<std::byte> other = std::vector<std::byte>(40'000);
  std::vector<std::vector<std::byte>> many = std::vector<std::vector<std::byte>>(kCallRanks, one);
  std::vector<std::vector<std::byte>> results = many;

  Status call(const std::string& name, Communicator& group) {
    std::vector<std::span<const std::byte>> inputs(many.begin(), many.end());
    std::vector<std::span<std::byte>> outputs(results.begin(), results.end());
    if (name == "broadcast") return group.broadcast(one, Rank(0), kLimit);
    if (name == "reduce") return group.reduce(one, other, kCallSum, Rank(0), kLimit);
    if (name == "all_reduce") return group.all_reduce(one, other, kCallSum, kLimit);
    if (name == "ring all_reduce")
      return group.all_reduce(one, other, kCallSum, kLimit, AllReduceAlgorithm::kRing);
    if (name == "all_gather") return group.all_gather(one, outputs, kLimit);
    if (name == "reduce_scatter") return group.reduce_scatter(inputs, other, kCallSum, kLimit);
    if (name == "all_to_all") return group.all_to_all(inputs, outputs, kLimit);
    if (name == "gather") return group.gather(one, outputs, Rank(0), kLimit);
    if (name == "scatter") return group.scatter(inputs, other, Rank(0), kLimit);
    return group.barrier(kLimit);
  }
};

void check_told(const Members& members, const std::string& first, const std::string& others) {
  CAPTURE(first);
  CAPTURE(others);
  std::vector<Caller> callers(kCallRanks);
  std::vector<Status> outcomes(kCallRanks);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < kCallRanks; ++rank) {
    threads.emplace_back(
        [&, rank] { outcomes[rank] = callers[rank].call(rank == 0 ? first : others, *members[rank]); });
  }
  for (auto& thread : threads) thread.join();
  std::size_t told = 0;
  std::string all;
  for (const Status& outcome : outcomes) all += outcome.to_string() + "\n";
  CAPTURE(all);
  for (const Status& outcome : outcomes) {
    CHECK(outcome.code() != StatusCode::kDeadlineExceeded);
    const bool names_both = outcome.message().find(first + " (call 2") != std::string::npos &&
                            outcome.message().find(others + " (call 2") != std::string::npos;
    told += !outcome.is_ok() && names_both ? 1 : 0;
  }
  // Who has everything before the others are heard of returns well; the rest hears why.
  CHECK(told >= 2);
}

}  // namespace

TEST_CASE("members that call different operations are told what each called") {
  const std::vector<std::pair<std::string, std::string>> pairs{
      {"broadcast", "barrier"},
      {"all_gather", "all_reduce"},
      {"scatter", "all_to_all"},
      {"barrier", "all_gather"},
      {"gather", "all_reduce"},
      {"all_reduce", "barrier"},
      {"ring all_reduce", "all_reduce"},
      {"all_reduce", "ring all_reduce"},
      {"barrier", "ring all_reduce"},
      // No member has registered what the others call.
      {"broadcast", "reduce"},
      {"scatter", "reduce"},
      {"broadcast", "ring all_reduce"}};
  for (const bool shares_node : {false, true}) {
    Fixture overlay({"a", "b", "c"}, "exact", 1e9);
    int number = 0;
    for (const auto& [first, others] : pairs) {
      const std::string name = "g" + std::to_string(++number);
      const Members members = overlay.group_on({0, 1, shares_node ? std::size_t{0} : std::size_t{2}}, name);
      // The first call of all is the same.
      std::vector<std::thread> threads;
      for (const auto& member : members)
        threads.emplace_back([&] { CHECK(member->barrier(kLimit) == Status::ok()); });
      for (auto& thread : threads) thread.join();
      check_told(members, first, others);
    }
  }
}

TEST_CASE("members that name different roots are told what each named") {
  Fixture overlay({"a", "b", "c"}, "exact", 1e9);
  const std::vector<std::string> names{"broadcast", "reduce", "gather", "scatter"};
  for (const bool shares_node : {true, false}) {
    for (const std::string& name : names) {
      // Whose messages to their root are sessions of their own: between nodes nothing tells of another root.
      if (!shares_node && (name == "gather" || name == "scatter")) continue;
      CAPTURE(shares_node);
      CAPTURE(name);
      const std::string group = name + (shares_node ? " on one" : " on three");
      const Members members =
          shares_node ? overlay.group_on({0, 0, 0}, group) : overlay.group_on({0, 1, 2}, group);
      std::vector<Status> outcomes(kCallRanks);
      std::vector<std::thread> threads;
      for (std::uint32_t rank = 0; rank < kCallRanks; ++rank) {
        threads.emplace_back([&, rank] {
          Caller caller;
          const Rank root(rank == 2 ? 2 : 0);
          std::vector<std::span<const std::byte>> inputs(caller.many.begin(), caller.many.end());
          std::vector<std::span<std::byte>> outputs(caller.results.begin(), caller.results.end());
          Communicator& member = *members[rank];
          if (name == "broadcast") outcomes[rank] = member.broadcast(caller.one, root, kLimit);
          if (name == "reduce")
            outcomes[rank] = member.reduce(caller.one, caller.other, kCallSum, root, kLimit);
          if (name == "gather") outcomes[rank] = member.gather(caller.one, outputs, root, kLimit);
          if (name == "scatter") outcomes[rank] = member.scatter(inputs, caller.other, root, kLimit);
        });
      }
      for (auto& thread : threads) thread.join();
      std::size_t told = 0;
      for (const Status& outcome : outcomes) {
        CAPTURE(outcome.to_string());
        CHECK(outcome.code() != StatusCode::kDeadlineExceeded);
        told +=
            outcome.message().find("must name the same root in " + name + " (call 1") != std::string::npos;
      }
      CHECK(told >= 2);
    }
  }
}

TEST_CASE("messages need not be called alike") {
  Fixture overlay({"a", "b", "c"}, "exact", 1e9);
  const Members members = overlay.group("g");
  std::vector<std::byte> message(100);
  const auto sent = *members[0]->send_async(message, Rank(1), 0, kLimit);
  std::vector<std::byte> got(100);
  const auto received = *members[1]->receive_async(got, Rank(0), 0, kLimit);
  std::vector<std::thread> threads;
  for (const auto& member : members)
    threads.emplace_back([&] { CHECK(member->barrier(kLimit) == Status::ok()); });
  for (auto& thread : threads) thread.join();
  CHECK(sent->wait() == Status::ok());
  CHECK(received->wait() == Status::ok());
}

TEST_CASE("a call that was over at once is forgotten before its number comes again") {
  Fixture overlay({"a"}, "exact");
  const Members alone = overlay.group("g");
  std::vector<std::byte> data(8);
  for (std::uint32_t call = 0; call < kGroupCallNumbers; ++call)
    REQUIRE(alone.front()->broadcast(data, Rank(0), kLimit) == Status::ok());
  CHECK(alone.front()->barrier(kLimit) == Status::ok());
}
