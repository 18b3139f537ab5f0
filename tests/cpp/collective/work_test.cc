// Works over real nodes: notices of their end, cancelling, failure of one part, later calls.
#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>

#include "collective/real_group.h"

using namespace square;
using namespace square::test;

namespace {

constexpr Reduction kWorkSum{ElementType::kInt32, ReduceOp::kSum};

void check_refused(const Status& outcome, const std::string& words) {
  CHECK(outcome.code() == StatusCode::kInvalidArgument);
  CHECK_MESSAGE(outcome.message().find(words) != std::string::npos, outcome.message());
}

// Waits for what no lock guards.
bool eventually(const std::atomic<int>& count, int wanted) {
  for (const auto end = std::chrono::steady_clock::now() + kLimit; count != wanted;) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace

TEST_CASE("notices run once each, those that come after the end at once") {
  Fixture overlay({"a", "b", "c"}, "exact");
  const Members members = overlay.group("g");
  std::vector<Parts> parts(3, Parts(3, Bytes(1'000)));
  for (const bool is_joined : {false, true}) {
    CAPTURE(is_joined);
    const auto start = [&](std::size_t rank) {
      return is_joined ? *members[rank]->all_gather_async(parts[rank][rank], outputs_of(parts[rank]), kLimit)
                       : *members[rank]->broadcast_async(parts[rank][0], Rank(0), kLimit);
    };
    std::atomic<int> early{0};
    std::atomic<int> second{0};
    const auto work = start(0);
    work->on_done([&] { ++early; });
    work->on_done([&] {
      if (work->is_done()) ++second;
    });
    CHECK(early == 0);  // nobody else has called
    const auto others = {start(1), start(2)};
    CHECK(work->wait() == Status::ok());
    CHECK(eventually(early, 1));
    CHECK(eventually(second, 1));
    int late = 0;
    work->on_done([&] { ++late; });
    CHECK(late == 1);
    for (const auto& other : others) CHECK(other->wait() == Status::ok());
    CHECK(early == 1);
  }
}

TEST_CASE("a notice may begin the next operation") {
  Fixture overlay({"a", "b"}, "exact");
  const Members members = overlay.group("g");
  Bytes sent = pattern(1'000, 1);
  Bytes got(1'000);
  CHECK(on_all(members, [](Communicator& member) { return member.barrier_async(kLimit); }).size() == 2);
  // Registered beforehand: what runs on the node's thread must not wait for a plan.
  const Start broadcast = [&](Communicator& member) {
    return member.broadcast_async(member.rank() == Rank(0) ? sent : got, Rank(0), kLimit);
  };
  for (const Status& outcome : on_all(members, broadcast)) CHECK(outcome.is_ok());
  std::atomic<int> ended{0};
  std::vector<std::shared_ptr<Work>> next(2);
  std::vector<std::shared_ptr<Work>> works;
  for (const std::size_t rank : {0U, 1U}) {
    works.push_back(*members[rank]->barrier_async(kLimit));
    works.back()->on_done([&, rank] {
      next[rank] = *broadcast(*members[rank]);
      ++ended;
    });
  }
  CHECK(eventually(ended, 2));
  for (const auto& work : next) CHECK(work->wait() == Status::ok());
  CHECK(got == sent);
}

TEST_CASE("cancelling an operation of several parts ends them all, on every member") {
  Fixture overlay({"a", "b", "c"}, "exact");
  const Members members = overlay.group("g");
  std::vector<Parts> parts(3, Parts(3, Bytes(100'000)));
  const auto start = [&](std::size_t rank) {
    return *members[rank]->all_gather_async(parts[rank][rank], outputs_of(parts[rank]), kLimit);
  };
  const auto work = start(0);
  const auto other = start(1);
  CHECK_FALSE(work->wait_for(std::chrono::milliseconds(50)));  // rank 2 has not called
  std::atomic<int> notices{0};
  work->on_done([&] { ++notices; });
  work->cancel();
  CHECK(work->wait().code() == StatusCode::kCancelled);
  CHECK(other->wait().code() == StatusCode::kCancelled);
  CHECK(eventually(notices, 1));
  work->cancel();  // over: nothing
  const auto late = members[2]->all_gather_async(parts[2][2], outputs_of(parts[2]), kLimit);
  CHECK_FALSE((late.is_ok() ? (*late)->wait() : late.status()).is_ok());
  // The group is of no use any more.
  const auto next = members[0]->barrier_async(kLimit);
  CHECK(next.status().code() == StatusCode::kFailedPrecondition);
  CHECK(next.status().message().find("make a new group") != std::string::npos);
  CHECK(next.status().message().find("cancelled the operation") != std::string::npos);
}

TEST_CASE("calls that cannot be right are refused before anything is sent; the group goes on") {
  Fixture overlay({"a", "b"}, "exact");
  const Members members = overlay.group("g");
  Communicator& member = *members[0];
  Bytes own(8);
  Bytes other(12);
  Parts two(2, Bytes(8));
  Parts three(3, Bytes(8));
  const Rank none(2);
  check_refused(member.all_gather(own, outputs_of(three), kLimit),
                "3 outputs for the 2 members of group \"g\"");
  check_refused(member.all_to_all(inputs_of(three), outputs_of(two), kLimit), "3 inputs for the 2 members");
  check_refused(member.all_to_all(inputs_of(two), outputs_of(three), kLimit), "3 outputs for the 2 members");
  check_refused(member.gather(own, outputs_of(three), Rank(0), kLimit), "3 outputs for the 2 members");
  check_refused(member.scatter(inputs_of(three), own, Rank(0), kLimit), "3 inputs for the 2 members");
  check_refused(member.reduce_scatter(inputs_of(three), own, kWorkSum, kLimit), "3 inputs for the 2 members");
  for (const Status& outcome :
       {member.broadcast(own, none, kLimit), member.reduce(own, own, kWorkSum, none, kLimit),
        member.gather(own, outputs_of(two), none, kLimit),
        member.scatter(inputs_of(two), own, none, kLimit)}) {
    check_refused(outcome, "root 2 is not a rank of group \"g\" of 2");
  }
  for (const Status& outcome : {member.all_gather(other, outputs_of(two), kLimit),
                                member.gather(other, outputs_of(two), Rank(0), kLimit)}) {
    check_refused(outcome, "rank 0 gives itself 12 bytes, into a buffer of 8");
  }
  check_refused(member.scatter(inputs_of(two), other, Rank(0), kLimit),
                "gives itself 8 bytes, into a buffer of 12");
  const auto outcomes = on_all(members, [](Communicator& each) { return each.barrier_async(kLimit); });
  for (const Status& outcome : outcomes) CHECK_MESSAGE(outcome.is_ok(), outcome.to_string());
}

TEST_CASE("sums that cannot be are refused where they are called") {
  Fixture overlay({"a"}, "exact");
  const Members members = overlay.group("g");
  Bytes input(8);
  Bytes seven(7);
  check_refused(members[0]->all_reduce(seven, seven, kWorkSum, kLimit), "7 bytes are not a number of int32");
  const Members again = overlay.group("h");
  check_refused(again[0]->reduce_scatter({input}, seven, kWorkSum, kLimit),
                "the output has 7 bytes, the input 8");
}

TEST_CASE("members whose sizes differ are told which, and nobody hangs") {
  Fixture overlay({"a", "b", "c"}, "exact");
  SUBCASE("all-gather") {
    const Members members = overlay.group("g");
    std::vector<Parts> parts(3, Parts(3, Bytes(1'000)));
    parts[2][1].resize(996);
    const auto outcomes = on_all(members, [&](Communicator& member) {
      Parts& own = parts[member.rank().index()];
      return member.all_gather_async(own[member.rank().index()], outputs_of(own), kLimit);
    });
    for (const std::size_t rank : {1U, 2U}) {
      check_refused(outcomes[rank],
                    "rank 2 on node \"c\" posted a buffer of 996 bytes where 1000 arrive from node \"b\"");
    }
  }
  SUBCASE("all-to-all") {
    const Members members = overlay.group("g");
    std::vector<Parts> given(3, Parts(3, Bytes(1'000)));
    std::vector<Parts> got = given;
    got[0][2].resize(1'001);
    const auto outcomes = on_all(members, [&](Communicator& member) {
      const std::size_t rank = member.rank().index();
      return member.all_to_all_async(inputs_of(given[rank]), outputs_of(got[rank]), kLimit);
    });
    for (const std::size_t rank : {0U, 2U}) {
      check_refused(outcomes[rank],
                    "rank 0 on node \"a\" posted a buffer of 1001 bytes where 1000 arrive from node \"c\"");
    }
  }
  SUBCASE("reduce-scatter") {
    const Members members = overlay.group("g");
    std::vector<Parts> given(3, Parts(3, Bytes(1'000)));
    given[1][0].resize(996);
    Parts got(3, Bytes(1'000));
    const auto outcomes = on_all(members, [&](Communicator& member) {
      const std::size_t rank = member.rank().index();
      return member.reduce_scatter_async(inputs_of(given[rank]), got[rank], kWorkSum, kLimit);
    });
    for (const std::size_t rank : {0U, 1U}) {
      check_refused(outcomes[rank], "996 bytes of int32 (sum)");
      check_refused(outcomes[rank], "1000 bytes of int32 (sum)");
    }
  }
  SUBCASE("two ranks of one node") {
    const Members members = overlay.group_on({0, 1, 0}, "g");
    Parts given{Bytes(1'000), Bytes(1'000), Bytes(996)};
    const auto outcomes = on_all(members, [&](Communicator& member) {
      Bytes& own = given[member.rank().index()];
      return member.all_reduce_async(own, own, kWorkSum, kLimit);
    });
    for (const Status& outcome : outcomes)
      check_refused(
          outcome,
          "members must call the same: rank 2 called 996 bytes of int32 (sum) in a group of 3, rank 0 called "
          "1000 bytes of int32 (sum) in a group of 3");
  }
}

TEST_CASE("members whose sums differ are told which") {
  Fixture overlay({"a", "b"}, "exact");
  const Members members = overlay.group("g");
  Parts given(2, Bytes(1'000));
  const auto outcomes = on_all(members, [&](Communicator& member) {
    Bytes& own = given[member.rank().index()];
    const Reduction reduction =
        member.rank() == Rank(0) ? kWorkSum : Reduction{ElementType::kFloat32, ReduceOp::kMax};
    return member.all_reduce_async(own, own, reduction, kLimit);
  });
  for (const Status& outcome : outcomes) {
    check_refused(outcome, " bytes of int32 (sum)");
    check_refused(outcome, " bytes of float32 (max)");
  }
}

TEST_CASE("what fails in one operation fails the others in flight and all that follow, by its cause") {
  Fixture overlay({"a", "b", "c"}, "exact");
  const Members members = overlay.group("g");
  const auto barriers = on_all(members, [](Communicator& member) { return member.barrier_async(kLimit); });
  for (const Status& outcome : barriers) REQUIRE(outcome.is_ok());
  // Rank 2 never sends the message that rank 0 waits for.
  Bytes message(100);
  const auto received = *members[0]->receive_async(message, Rank(2), 0, kLimit);
  Parts sizes{Bytes(100), Bytes(96), Bytes(100)};
  const auto outcomes = on_all(members, [&](Communicator& member) {
    Bytes& own = sizes[member.rank().index()];
    return member.reduce_async(own, own, kWorkSum, Rank(0), kLimit);
  });
  for (const Status& outcome : outcomes) CHECK_FALSE(outcome.is_ok());
  check_refused(received->wait(), "96 bytes of int32");
  for (const auto& member : members) {
    const Status outcome = member->barrier(kLimit);
    CHECK_FALSE(outcome.is_ok());
    CHECK_MESSAGE(outcome.message().find("96 bytes of int32") != std::string::npos, outcome.message());
  }
  // The nodes are as good as new to another group.
  const Members again = overlay.group("h");
  const auto outcomes_again =
      on_all(again, [](Communicator& member) { return member.barrier_async(kLimit); });
  for (const Status& outcome : outcomes_again) CHECK_MESSAGE(outcome.is_ok(), outcome.to_string());
}
