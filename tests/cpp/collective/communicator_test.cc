// One communicator's life over real nodes: broadcasts, failure, stop.
#include "square/communicator.h"

#include <doctest/doctest.h>

#include <thread>
#include <vector>

#include "collective/real_group.h"

using namespace square;
using namespace square::test;

namespace {

// Every member calls, from its own thread, and gets its outcome.
std::vector<Status> broadcast(std::vector<std::unique_ptr<Communicator>>& members,
                              std::vector<std::vector<std::byte>>& buffers, Rank root,
                              Duration timeout = kLimit) {
  std::vector<Status> outcomes(members.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < members.size(); ++rank) {
    threads.emplace_back(
        [&, rank] { outcomes[rank] = members[rank]->broadcast(buffers[rank], root, timeout); });
  }
  for (auto& thread : threads) thread.join();
  return outcomes;
}

}  // namespace

TEST_CASE("members broadcast from any root; a root that was not registered is added") {
  Fixture overlay({"a", "b", "c", "d"});
  auto members = overlay.group("g", {{CollectiveOp::kBroadcast, Rank(0), 1.0, 100'000}});
  for (const std::uint32_t root : {0U, 2U, 0U, 3U}) {
    std::vector<std::vector<std::byte>> buffers(4, std::vector<std::byte>(300'001));
    buffers[root] = pattern(300'001, root);
    for (const Status& outcome : broadcast(members, buffers, Rank(root))) CHECK(outcome == Status::ok());
    for (const auto& buffer : buffers) CHECK(buffer == pattern(300'001, root));
  }
}

TEST_CASE("several operations of one group are under way at once") {
  Fixture overlay({"a", "b", "c"});
  auto members = overlay.group("g", {{CollectiveOp::kBroadcast, Rank(0), 1.0, 0}});
  constexpr std::size_t kCalls = 8;
  std::vector<std::vector<std::vector<std::byte>>> buffers(kCalls);
  std::vector<std::shared_ptr<Work>> works;
  for (unsigned call = 0; call < kCalls; ++call) {
    for (std::size_t rank = 0; rank < 3; ++rank) {
      buffers[call].push_back(rank == 0 ? pattern(50'000, call) : std::vector<std::byte>(50'000));
    }
    for (std::size_t rank = 0; rank < 3; ++rank) {
      works.push_back(*members[rank]->broadcast_async(buffers[call][rank], Rank(0), kLimit));
    }
  }
  for (const auto& work : works) CHECK(work->wait() == Status::ok());
  for (unsigned call = 0; call < kCalls; ++call) CHECK(buffers[call][2] == pattern(50'000, call));
}

TEST_CASE("a failure poisons the group, by name") {
  Fixture overlay({"a", "b", "c"});
  auto members = overlay.group("g", {{CollectiveOp::kBroadcast, Rank(0), 1.0, 0}});
  std::vector<std::vector<std::byte>> buffers(3, std::vector<std::byte>(1'000));
  buffers[1].resize(999);
  const auto outcomes = broadcast(members, buffers, Rank(0));
  for (const std::size_t rank : {0U, 1U}) {  // rank 2 may have had all its bytes before
    CHECK(outcomes[rank].code() == StatusCode::kInvalidArgument);
    CHECK(outcomes[rank].message().find("rank 1") != std::string::npos);
  }
  buffers[1].resize(1'000);
  const auto later = broadcast(members, buffers, Rank(0));
  for (const std::size_t rank : {0U, 1U}) {
    CHECK(later[rank].code() == StatusCode::kFailedPrecondition);
    CHECK(later[rank].message().find("make a new group") != std::string::npos);
  }
  // Who saw the first call end well hears of the failure from the others, in its own words.
  CHECK(!later[2].is_ok());
  CHECK(later[2].message().find(outcomes[2].is_ok() ? "rank 1" : "make a new group") != std::string::npos);
  auto again = overlay.group("h", {{CollectiveOp::kBroadcast, Rank(0), 1.0, 0}});
  for (const Status& outcome : broadcast(again, buffers, Rank(0))) CHECK(outcome == Status::ok());
}

TEST_CASE("a source that comes back and counts from 0 again is refused, not told that all is done") {
  Fixture overlay({"a", "b"});
  const std::vector<GroupCollective> known{{CollectiveOp::kBroadcast, Rank(0), 1.0, 0}};
  auto members = overlay.group("g", known);
  std::vector<std::vector<std::byte>> buffers(2, std::vector<std::byte>(1'000));
  for (const Status& outcome : broadcast(members, buffers, Rank(0))) REQUIRE(outcome == Status::ok());
  // Its process ends before it has closed the group.
  overlay.nodes[0]->stop();
  members[0].reset();
  overlay.nodes[0].reset();
  NodeOptions options;
  options.name = "a";
  options.controller_address = overlay.controller->address();
  overlay.nodes[0] = std::move(Node::join(options)).value();
  auto again = Communicator::create(*overlay.nodes[0], {"g", "alice", {"a", "b"}, known}, Rank(0), kLimit);
  REQUIRE_MESSAGE(again.is_ok(), again.status().to_string());
  const Status outcome = (*again)->broadcast(buffers[0], Rank(0), kLimit);
  CHECK(outcome.code() == StatusCode::kFailedPrecondition);
  CHECK(outcome.message().find("restarted") != std::string::npos);
}

TEST_CASE("a cancelled work ends on every member") {
  Fixture overlay({"a", "b"});
  auto members = overlay.group("g", {{CollectiveOp::kBroadcast, Rank(0), 1.0, 0}});
  std::vector<std::byte> buffer(1'000'000);
  const auto work = *members[0]->broadcast_async(buffer, Rank(0), kLimit);
  CHECK_FALSE(work->wait_for(std::chrono::milliseconds(100)));  // nobody else calls
  work->cancel();
  CHECK(work->wait().code() == StatusCode::kCancelled);
}

TEST_CASE("calls on a node that stopped return") {
  Fixture overlay({"a", "b"});
  auto members = overlay.group("g", {{CollectiveOp::kBroadcast, Rank(0), 1.0, 0}});
  std::vector<std::byte> buffer(1'000'000);
  const auto work = *members[0]->broadcast_async(buffer, Rank(0), kLimit);
  overlay.nodes[0]->stop();
  CHECK(work->wait().code() == StatusCode::kCancelled);
  CHECK(members[0]->broadcast(buffer, Rank(0), kLimit).code() != StatusCode::kOk);
  static_cast<void>(overlay.nodes[0]->statistics());
}

TEST_CASE("a member that is not of this node, or no member at all, is refused") {
  Fixture overlay({"a", "b"});
  const GroupSpec group{"g", "alice", {"a", "b"}, {}};
  const auto other = Communicator::create(*overlay.nodes[0], group, Rank(1), kLimit);
  CHECK(other.status().code() == StatusCode::kInvalidArgument);
  CHECK(other.status().message().find("lives on node \"b\"") != std::string::npos);
  CHECK(Communicator::create(*overlay.nodes[0], group, Rank(2), kLimit).status().code() ==
        StatusCode::kInvalidArgument);
  const GroupSpec nobody{"h", "alice", {}, {}};
  CHECK(Communicator::create(*overlay.nodes[0], nobody, Rank(0), kLimit).status().code() ==
        StatusCode::kInvalidArgument);
}

TEST_CASE("without a controller joining fails and says so") {
  NodeOptions options;
  options.name = "a";
  options.controller_address = "127.0.0.1:1";
  const auto joined = Node::join(options);
  REQUIRE_FALSE(joined.is_ok());
  CHECK(joined.status().code() == StatusCode::kUnavailable);
  CHECK(joined.status().message().find("127.0.0.1:1") != std::string::npos);
}
