// Communicators that are closed or let go of: what they wait for, and what is left of their groups.
#include <algorithm>
#include <atomic>

#include "collective/local_groups.h"
#include "collective/real_group.h"

using namespace square;
using namespace square::test;

namespace {

const std::vector<GroupCollective> kBroadcast = {{CollectiveOp::kBroadcast, Rank(0), 1.0, 0}};

bool eventually(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + kLimit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

bool is_forgotten(Fixture& overlay) {
  return overlay.controller->plan()->collectives.empty() &&
         std::ranges::all_of(overlay.nodes,
                             [](const auto& node) { return node->statistics().collectives <= 2; });
}

Status broadcast_once(const Members& members) {
  std::vector<std::vector<std::byte>> buffers(members.size(), pattern(10'000, 3));
  std::size_t next = 0;
  for (const Status& outcome : on_all(members, [&](Communicator& member) {
         return member.broadcast_async(buffers[next++], Rank(0), kLimit);
       })) {
    if (!outcome.is_ok()) return outcome;
  }
  return Status::ok();
}

}  // namespace

TEST_CASE("a closed group refuses calls, is forgotten, and its name is free for another") {
  Fixture overlay({"a", "b", "c"});
  for (int round = 0; round < 3; ++round) {
    Members members = overlay.group("g", kBroadcast);
    CHECK(broadcast_once(members).is_ok());
    for (const auto& member : members) CHECK(member->close().is_ok());
    std::vector<std::byte> bytes(10);
    const Status late = members[0]->broadcast(bytes, Rank(0), kLimit);
    CHECK(late.code() == StatusCode::kFailedPrecondition);
    CHECK(late.message().find("group \"g\" was closed") != std::string::npos);
    CHECK(members[1]->receive_any_async(bytes, 0, kLimit).status().code() == StatusCode::kFailedPrecondition);
    CHECK(members[2]
              ->all_reduce_async(bytes, bytes, {ElementType::kInt8, ReduceOp::kSum}, kLimit,
                                 AllReduceAlgorithm::kRing)
              .status()
              .code() == StatusCode::kFailedPrecondition);
    CHECK(members[0]->close().is_ok());  // again
  }
  CHECK(eventually([&] { return overlay.controller->plan()->collectives.empty(); }));
}

TEST_CASE("close() waits for what the member has called, and ends what is late on every member") {
  Fixture overlay({"a", "b"}, "square", 20e6);
  Members members = overlay.group("g", kBroadcast);
  std::vector<std::vector<std::byte>> buffers = {pattern(500'000, 1), std::vector<std::byte>(500'000)};
  const auto source = *members[0]->broadcast_async(buffers[0], Rank(0), kLimit);
  const auto destination = *members[1]->broadcast_async(buffers[1], Rank(0), kLimit);
  CHECK(members[0]->close().is_ok());
  CHECK(source->is_done());
  CHECK(source->wait().is_ok());
  CHECK(members[1]->close().is_ok());
  CHECK(buffers[0] == buffers[1]);

  members = overlay.group("g", kBroadcast);
  const auto alone = *members[1]->broadcast_async(buffers[1], Rank(0), kLimit);
  const Status late = members[1]->close(std::chrono::milliseconds(50));
  CHECK(late.code() == StatusCode::kDeadlineExceeded);
  REQUIRE(alone->is_done());
  CHECK(alone->wait().code() == StatusCode::kCancelled);
  // The other hears of it.
  CHECK(eventually([&] { return !members[0]->broadcast(buffers[0], Rank(0), kLimit).is_ok(); }));
}

TEST_CASE("who comes back to a name before all have closed it waits for them, and is told who has not") {
  Fixture overlay({"a", "b"});
  Members members = overlay.group_on({0, 0, 1}, "g", kBroadcast);
  const GroupSpec again{"g", "alice", {"a", "a", "b"}, kBroadcast};
  const auto create = [&](std::uint32_t rank, Duration timeout) {
    return Communicator::create(*overlay.nodes[rank / 2], again, Rank(rank), timeout);
  };
  CHECK(members[0]->close().is_ok());
  const auto here = create(0, std::chrono::milliseconds(50));
  CHECK(here.status().code() == StatusCode::kDeadlineExceeded);
  CHECK_MESSAGE(here.status().message().find("these ranks of node \"a\" have: 1") != std::string::npos,
                here.status().message());
  CHECK(members[1]->close().is_ok());
  const auto elsewhere = create(0, std::chrono::milliseconds(50));
  CHECK(elsewhere.status().code() == StatusCode::kDeadlineExceeded);
  CHECK_MESSAGE(elsewhere.status().message().find("when these have: b") != std::string::npos,
                elsewhere.status().message());
  CHECK(overlay.controller->plan()->collectives.size() == 1);
  std::thread closing([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    members[2].reset();
  });
  auto first = create(0, kLimit);
  closing.join();
  REQUIRE_MESSAGE(first.is_ok(), first.status().to_string());
  Members others;
  others.push_back(std::move(*first));
  for (const std::uint32_t rank : {1U, 2U}) others.push_back(std::move(*create(rank, kLimit)));
  CHECK(broadcast_once(others).is_ok());
}

TEST_CASE("a communicator that is let go of closes its part when what runs is over") {
  Fixture overlay({"a", "b"});
  std::vector<std::vector<std::byte>> buffers = {pattern(1'000'000, 1), std::vector<std::byte>(1'000'000)};
  std::vector<std::shared_ptr<Work>> works;
  {
    Members members = overlay.group("g", kBroadcast);
    for (std::size_t i = 0; i < 2; ++i)
      works.push_back(*members[i]->broadcast_async(buffers[i], Rank(0), kLimit));
  }
  for (const auto& work : works) CHECK(work->wait().is_ok());
  CHECK(buffers[0] == buffers[1]);
  for (int i = 0; i < 60; ++i) {
    Members members = overlay.group("g" + std::to_string(i % 7), kBroadcast);
    if (i % 3 == 0) CHECK(broadcast_once(members).is_ok());
  }
  CHECK(eventually([&] { return is_forgotten(overlay); }));
}

TEST_CASE("groups on a node alone end, too") {
  auto node = Node::alone("a");
  REQUIRE(node.is_ok());
  for (int i = 0; i < 50; ++i) {
    const GroupSpec group{"g", "alice", {"a", "a"}, {{CollectiveOp::kAllReduce, Rank(0), 1.0, 0}}};
    Members members;
    for (const std::uint32_t rank : {0U, 1U})
      members.push_back(std::move(*Communicator::create(**node, group, Rank(rank), kLimit)));
    std::vector<std::int32_t> values = {1, 2};
    const auto all = on_all(members, [&](Communicator& member) {
      const auto bytes = std::as_writable_bytes(std::span(&values[member.rank().index()], 1));
      return member.all_reduce_async(bytes, bytes, {ElementType::kInt32, ReduceOp::kSum}, kLimit);
    });
    for (const Status& outcome : all) REQUIRE_MESSAGE(outcome.is_ok(), outcome.to_string());
    CHECK(values == std::vector<std::int32_t>{3, 3});
    for (const auto& member : members) CHECK(member->close().is_ok());
    CHECK((*node)->statistics().collectives <= 4);
  }
}

TEST_CASE("a node closes a group with its last rank, and memberships may outlive it") {
  std::vector<std::string> closed;
  std::vector<Rank> left;
  auto groups = std::make_shared<LocalGroups>(
      "a",
      [&](const std::string& group, std::uint64_t number) { closed.push_back(group_label(group, number)); },
      [&](const std::string&, std::uint64_t, Rank rank) { left.push_back(rank); });
  const GroupSpec group{"g", "alice", {"a", "b", "a"}, {}};
  const auto join = [&](std::uint32_t rank) {
    return groups->join(group, Rank(rank), std::chrono::milliseconds(1), [](Duration) {
      return GroupRegistration{{}, Epoch(1), 7};
    });
  };
  auto first = join(0);
  auto twice = join(0);
  CHECK_FALSE(groups
                  ->join(group, Rank(2), kLimit,
                         [](Duration) -> Result<GroupRegistration> { return unavailable("no"); })
                  .is_ok());
  first->membership.reset();
  twice->membership.reset();
  CHECK(join(0).status().code() == StatusCode::kDeadlineExceeded);
  CHECK(closed.empty());  // rank 2 has not come
  auto last = join(2);
  last->membership.reset();
  CHECK(closed == std::vector<std::string>{"g#7"});
  CHECK(groups->size() == 0);
  CHECK(left == std::vector{Rank(0)});  // rank 2 was last
  auto late = join(0);
  groups->stop();
  CHECK(join(2).status().code() == StatusCode::kCancelled);
  groups.reset();
  late->membership.reset();
  CHECK(closed.size() == 1);
}

namespace {

// Two ranks of node "a", and how the controller is asked for the group that they go on in.
struct TwoRanks {
  const GroupSpec group{"g", "alice", {"a", "a"}, {}};
  const GroupSpec next = [] {
    GroupSpec spec{"g~1", "alice", {"a", "a"}, {}};
    spec.origin = {"g", 7, {Rank(0), Rank(1)}, {}};
    spec.number = 8;
    return spec;
  }();
  std::vector<std::string> closed;
  std::vector<Rank> left;
  std::shared_ptr<LocalGroups> groups = std::make_shared<LocalGroups>(
      "a",
      [this](const std::string& name, std::uint64_t number) { closed.push_back(group_label(name, number)); },
      [this](const std::string&, std::uint64_t, Rank rank) { left.push_back(rank); });

  std::shared_ptr<const void> join(const GroupSpec& spec, std::uint32_t rank, std::uint64_t number) {
    auto part = groups->join(spec, Rank(rank), kLimit, [&](Duration) {
      return GroupRegistration{{}, Epoch(1), number};
    });
    REQUIRE_MESSAGE(part.is_ok(), part.status().to_string());
    return part->membership;
  }
  std::vector<std::shared_ptr<const void>> join_all() { return {join(group, 0, 7), join(group, 1, 7)}; }
  // The ranks with which it asks; `asked` runs meanwhile.
  Result<std::vector<Rank>> regroup(
      const std::string& name, std::uint64_t number, std::uint32_t rank,
      const std::function<void()>& asked = [] {}) {
    std::vector<Rank> ranks;
    const auto answer = groups->regroup({name, number, {Rank(rank)}, 0, 0}, kLimit,
                                        [&](const RegroupRequest& request, Duration) {
                                          ranks = request.ranks;
                                          asked();
                                          return next;
                                        });
    if (!answer.is_ok()) return answer.status();
    return ranks;
  }
};

}  // namespace

TEST_CASE("the ranks that stay hear which one has left") {
  TwoRanks two;
  auto members = two.join_all();
  members[1].reset();
  CHECK(two.left == std::vector{Rank(1)});
  members[0].reset();
  CHECK(two.left.size() == 1);
  CHECK(two.closed == std::vector<std::string>{"g#7"});
}

TEST_CASE("a call that another rank of the node will not make any more fails, before it left or after") {
  for (const bool is_begun_before : {true, false}) {
    CAPTURE(is_begun_before);
    auto node = Node::alone("a");
    REQUIRE(node.is_ok());
    const GroupSpec group{"g", "alice", {"a", "a"}, {}};
    Members members;
    for (const std::uint32_t rank : {0U, 1U})
      members.push_back(std::move(*Communicator::create(**node, group, Rank(rank), kLimit)));
    std::vector<std::byte> bytes(4);
    const auto call = [&] { return members[0]->broadcast_async(bytes, Rank(0), kLimit); };
    std::shared_ptr<Work> work;
    if (is_begun_before) work = *call();
    CHECK(members[1]->close().is_ok());
    if (!is_begun_before) work = *call();
    REQUIRE(work->wait_for(kLimit / 2));
    CHECK(work->wait().code() == StatusCode::kFailedPrecondition);
    CHECK(work->wait().message().find("rank 1 on node \"a\" has closed the group") != std::string::npos);
  }
}

TEST_CASE("a rank that leaves while it waits for the others of its node does not go on with them") {
  TwoRanks two;
  auto memberships = two.join_all();
  Result<std::vector<Rank>> left = std::vector<Rank>{};
  std::atomic<bool> is_over = false;
  std::thread waiting([&] {
    left = two.regroup("g", 7, 1);
    is_over = true;
  });
  // It waits for rank 0, until it leaves.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK_FALSE(is_over);
  memberships[1].reset();
  waiting.join();
  CHECK(left.status().code() == StatusCode::kCancelled);
  const auto ranks = two.regroup("g", 7, 0);
  REQUIRE_MESSAGE(ranks.is_ok(), ranks.status().to_string());
  CHECK(*ranks == std::vector<Rank>{Rank(0)});
}

TEST_CASE(
    "a rank that leaves before it has joined the next group is out of that, and holds up nobody there") {
  for (const bool is_asking : {true, false}) {
    TwoRanks two;
    auto memberships = two.join_all();
    Result<std::vector<Rank>> other = std::vector<Rank>{};
    std::thread thread([&] { other = two.regroup("g", 7, 1); });
    // While the controller is asked, or after it has answered.
    const auto asked = two.regroup("g", 7, 0, [&] {
      if (is_asking) memberships[1].reset();
    });
    thread.join();
    REQUIRE(asked.is_ok());
    memberships[1].reset();
    auto next = two.join(two.next, 0, 8);
    memberships[0].reset();
    CHECK(two.closed == std::vector<std::string>{"g#7"});
    const auto ranks = two.regroup("g~1", 8, 0);
    REQUIRE_MESSAGE(ranks.is_ok(), ranks.status().to_string());
    CHECK(*ranks == std::vector<Rank>{Rank(0)});
    next.reset();
    CHECK(two.closed == std::vector<std::string>{"g#7", "g~1#8"});
    CHECK(two.groups->size() == 0);
  }
}

TEST_CASE("a group that nobody of a node joins, though its ranks were to go on in it, is closed there") {
  TwoRanks two;
  auto memberships = two.join_all();
  std::thread thread([&] { CHECK(two.regroup("g", 7, 1).is_ok()); });
  CHECK(two.regroup("g", 7, 0).is_ok());
  thread.join();
  memberships.clear();
  CHECK(two.closed == std::vector<std::string>{"g~1#8", "g#7"});
  CHECK(two.groups->size() == 0);
}
