// As many processes at one gateway as it serves: they come, call and go on together.
#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "gateway/site.h"
#include "square/gateway.h"

using namespace square;
using testing::ChildProcess;
using testing::has;
using testing::join;
using testing::report;
using testing::Site;
using testing::variable;

namespace {

// The machine may be far busier than these processes make it.
constexpr Duration kPatience = std::chrono::seconds(120);
constexpr std::size_t kElements = 1'000;
// Processes that are killed before the others go on.
constexpr std::uint32_t kKilled = 2;

// All ranks live on a, and the last one on b, so that collectives are planned and data is sent.
GroupSpec crowd(std::uint32_t processes) {
  GroupSpec group{"crowd", "alice", std::vector<std::string>(processes, "a"), {}};
  group.nodes.emplace_back("b");
  return group;
}

// "right", or what it was.
std::string add_up(Communicator& group) {
  std::vector<std::int32_t> data(kElements, static_cast<std::int32_t>(group.rank().value()) + 1);
  const auto bytes = std::as_writable_bytes(std::span(data));
  const Status outcome = group.all_reduce(bytes, bytes, {ElementType::kInt32, ReduceOp::kSum}, kPatience);
  if (!outcome.is_ok()) return outcome.to_string();
  const auto size = static_cast<std::int32_t>(group.size());
  return data == std::vector<std::int32_t>(kElements, size * (size + 1) / 2) ? "right" : "WRONG SUM";
}

}  // namespace

TEST_CASE("process of a crowd" * doctest::skip()) {
  auto attached =
      AttachedNode::attach({.socket_path = variable("SQUARE_TEST_GATEWAY"), .timeout = kPatience});
  if (!attached.is_ok()) return report(attached.status().to_string());
  const auto rank = static_cast<std::uint32_t>(std::stoul(variable("SQUARE_TEST_RANK")));
  const auto processes = static_cast<std::uint32_t>(std::stoul(variable("SQUARE_TEST_CALLS")));
  auto member = Communicator::create(**attached, crowd(processes), Rank(rank), kPatience);
  if (!member.is_ok()) return report(member.status().to_string());
  report(add_up(**member));
  if (rank < kKilled) std::this_thread::sleep_for(std::chrono::minutes(5));
  auto next = (*member)->shrink(kPatience);
  if (!next.is_ok()) return report(next.status().to_string());
  report(add_up(**next));
  // The others may still be at it.
  static_cast<void>((*next)->close(kPatience));
  report("leaves");
}

TEST_CASE("processes at one gateway call their first collective at once, and after a shrink") {
  const std::uint32_t processes = std::getenv("SQUARE_LONG") != nullptr ? 256 : 48;
  const Site site;
  std::vector<std::unique_ptr<ChildProcess>> members;
  for (std::uint32_t rank = 0; rank < processes; ++rank) {
    members.push_back(site.member("alice", std::string(processes, 'a'), rank, std::to_string(processes),
                                  false, "process of a crowd"));
  }
  const auto own = Communicator::create(*site.nodes[1], crowd(processes), Rank(processes), kPatience);
  REQUIRE_MESSAGE(own.is_ok(), own.status().to_string());
  CHECK(add_up(**own) == "right");
  const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(kPatience);
  for (const auto& member : members) CHECK(member->line(limit) == "right");
  for (std::uint32_t rank = 0; rank < kKilled; ++rank) members[rank]->signal(SIGKILL);
  const auto next = (*own)->shrink(kPatience);
  REQUIRE_MESSAGE(next.is_ok(), next.status().to_string());
  CHECK((*next)->size() == processes + 1 - kKilled);
  CHECK(add_up(**next) == "right");
  for (std::uint32_t rank = kKilled; rank < processes; ++rank) {
    CHECK(members[rank]->line(limit) == "right");
    CHECK(members[rank]->line(limit) == "leaves");
  }
}

TEST_CASE("process that is stopped" * doctest::skip()) {
  const auto attached = AttachedNode::attach({.socket_path = variable("SQUARE_TEST_GATEWAY")});
  if (!attached.is_ok()) return report(attached.status().to_string());
  report("attached");
  kill(getpid(), SIGSTOP);
  // It may take a moment until its own thread has read what became of the attachment.
  Status outcome;
  for (int tries = 0; tries < 100 && !has(outcome, "gateway"); ++tries) {
    outcome = (*attached)->register_group(crowd(1), std::chrono::milliseconds(100)).status();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  report(outcome.to_string());
}

TEST_CASE(
    "a process that was stopped for longer than its lease reads that, and not that the gateway is gone") {
  GatewayOptions options;
  options.lease = std::chrono::seconds(1);
  const Site site(options);
  const auto member = site.member("alice", "a", 0, "", false, "process that is stopped");
  CHECK(member->line() == "attached");
  CHECK(site.settles(0, 0));
  member->signal(SIGCONT);
  const std::string line = member->line();
  CHECK_MESSAGE(line.find("serves this process no more (nothing was heard for 1.") != std::string::npos,
                line);
  CHECK(line.find("is gone") == std::string::npos);
}
