// Groups that go on without members that are gone, and with others that join.
#include <doctest/doctest.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "real_group.h"

namespace square {
namespace {

using test::Fixture;
using test::kLimit;
using test::Members;

using Next = Result<std::unique_ptr<Communicator>>;

// All that are there call it at once.
std::vector<Next> grow_all(const Members& members, std::uint32_t joiners = 0, Duration timeout = kLimit) {
  std::vector<std::optional<Next>> made(members.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (members[i]) threads.emplace_back([&, i] { made[i] = members[i]->grow(joiners, timeout); });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<Next> found;
  for (auto& one : made) {
    if (one) found.push_back(std::move(*one));
  }
  return found;
}

Members value_of(std::vector<Next> made) {
  Members members;
  for (Next& one : made) {
    REQUIRE_MESSAGE(one.is_ok(), one.status().to_string());
    members.push_back(std::move(one).value());
  }
  return members;
}

// Each gives its rank, plus 1.
void check_sums(const Members& members) {
  std::vector<float> values(members.size());
  std::vector<std::shared_ptr<Work>> works;
  for (const auto& member : members) {
    float& value = values[member->rank().index()];
    value = static_cast<float>(member->rank().value() + 1);
    const std::span data = std::as_writable_bytes(std::span(&value, 1));
    auto started = member->all_reduce_async(data, data, {ElementType::kFloat32, ReduceOp::kSum}, kLimit);
    REQUIRE_MESSAGE(started.is_ok(), started.status().to_string());
    works.push_back(std::move(started).value());
  }
  for (const auto& work : works) CHECK_MESSAGE(work->wait().is_ok(), work->wait().to_string());
  const auto count = static_cast<float>(members.size());
  for (const float value : values) CHECK(value == count * (count + 1) / 2);
}

TEST_CASE("the survivors of a group keep their order, and the next may die after that") {
  Fixture overlay({"a", "b", "c", "d"}, "exact");
  Members members = overlay.group("g");
  members[1].reset();
  overlay.nodes[1]->stop();
  Members three = value_of(grow_all(members));
  REQUIRE(three.size() == 3);
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    CHECK(three[rank]->rank() == Rank(rank));
    CHECK(three[rank]->size() == 3);
    CHECK(three[rank]->name() == "g~1");
  }
  check_sums(three);
  // The one before is closed.
  CHECK(members[0]->barrier(kLimit).code() == StatusCode::kFailedPrecondition);
  three[0].reset();
  overlay.nodes[0]->stop();
  Members two = value_of(grow_all(three));
  REQUIRE(two.size() == 2);
  CHECK(two[0]->name() == "g~2");
  check_sums(two);
}

TEST_CASE("where nobody is gone the group goes on with all") {
  Fixture overlay({"a", "b"}, "exact");
  const Members members = overlay.group("g");
  const Members next = value_of(grow_all(members));
  REQUIRE(next.size() == 2);
  check_sums(next);
}

TEST_CASE("a member that does not ask is waited for, and named") {
  Fixture overlay({"a", "b", "c"}, "exact");
  Members members = overlay.group("g");
  const std::unique_ptr<Communicator> silent = std::move(members[2]);
  for (const Next& late : grow_all(members, 0, std::chrono::seconds(1))) {
    CHECK(late.status().code() == StatusCode::kDeadlineExceeded);
    CHECK(late.status().message().find("node \"c\" (rank 2)") != std::string::npos);
  }
  // They ask again, and it does.
  std::optional<Next> third;
  std::thread other([&] { third = silent->shrink(kLimit); });
  Members next = value_of(grow_all(members));
  other.join();
  REQUIRE(third->is_ok());
  next.push_back(std::move(*third).value());
  check_sums(next);
}

TEST_CASE("of the ranks of one node those go on that have not closed the group") {
  Fixture overlay({"a", "b"}, "exact");
  Members members = overlay.group_on({0, 0, 1, 1}, "g");
  members[0].reset();
  Members next = value_of(grow_all(members));
  REQUIRE(next.size() == 3);
  CHECK(next[0]->rank() == Rank(0));
  check_sums(next);
}

TEST_CASE("what a member had called ends before the group goes on") {
  Fixture overlay({"a", "b"}, "exact");
  const Members members = overlay.group("g");
  const auto lonely = members[0]->barrier_async(kLimit);
  REQUIRE(lonely.is_ok());
  const Members next = value_of(grow_all(members));
  CHECK((*lonely)->is_done());
  check_sums(next);
}

TEST_CASE("joiners follow the members, in the order of their nodes") {
  Fixture overlay({"a", "b", "d", "c"}, "exact");
  Members members = overlay.group_on({0, 1}, "g");
  std::vector<std::optional<Next>> joined(2);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 2; ++i)
    threads.emplace_back([&, i] { joined[i] = Communicator::join(*overlay.nodes[2 + i], "g", kLimit); });
  Members next = value_of(grow_all(members, 2));
  for (std::thread& thread : threads) thread.join();
  for (auto& one : joined) {
    REQUIRE_MESSAGE(one->is_ok(), one->status().to_string());
    next.push_back(std::move(*one).value());
  }
  CHECK(next[0]->rank() == Rank(0));
  CHECK(next[1]->rank() == Rank(1));
  CHECK(next[2]->rank() == Rank(3));  // on "d"
  CHECK(next[3]->rank() == Rank(2));  // on "c"
  check_sums(next);
}

TEST_CASE("members that do not ask alike are told so") {
  Fixture overlay({"a", "b"}, "exact");
  const Members members = overlay.group("g");
  std::optional<Next> other;
  std::thread thread([&] { other = members[1]->grow(1, kLimit); });
  const Next first = members[0]->shrink(kLimit);
  thread.join();
  CHECK(first.status().code() == StatusCode::kInvalidArgument);
  CHECK(other->status().code() == StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace square
