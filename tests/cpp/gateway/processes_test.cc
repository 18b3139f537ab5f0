// Gateways: two nodes and a controller in this process, members here or in processes of their own.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>

#include <cstring>
#include <future>
#include <random>
#include <thread>
#include <vector>

#include "gateway/local_socket.h"
#include "gateway/site.h"
#include "square/gateway.h"

using namespace square;
using testing::ChildProcess;
using testing::has;
using testing::join;
using testing::kLimit;
using testing::report;
using testing::Site;
using testing::variable;

namespace {

std::vector<std::byte> pattern(std::size_t size, std::size_t seed) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>((i * 131 + seed * 7 + (i >> 9U)) & 0xffU);
  }
  return bytes;
}

GroupSpec group_of(const std::string& name, const std::string& tenant, const std::string& nodes_of_ranks) {
  GroupSpec group{name, tenant, {}, {{CollectiveOp::kBroadcast, Rank(0), 1.0, 0}}};
  for (const char node : nodes_of_ranks) group.nodes.emplace_back(1, node);
  return group;
}

// Says `bytes` to a gateway and returns how long it kept the connection.
double seconds_until_closed(const std::string& address, const std::vector<std::byte>& bytes) {
  const auto connected = gateway::connect_local(address, kLimit);
  REQUIRE_MESSAGE(connected.is_ok(), connected.status().to_string());
  const int peer = connected->get();
  REQUIRE(fcntl(peer, F_SETFL, fcntl(peer, F_GETFL) & ~O_NONBLOCK) == 0);
  const auto begin = std::chrono::steady_clock::now();
  static_cast<void>(send(peer, bytes.data(), bytes.size(), MSG_NOSIGNAL));
  timeval limit{10, 0};
  setsockopt(peer, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  char answer[256];
  while (recv(peer, answer, sizeof answer, 0) > 0) {
  }
  return to_seconds(std::chrono::steady_clock::now() - begin);
}

}  // namespace

TEST_CASE("member process" * doctest::skip()) {
  AttachOptions options;
  options.socket_path = variable("SQUARE_TEST_GATEWAY");
  options.shared_memory = variable("SQUARE_TEST_STREAMED").empty();
  auto attached = AttachedNode::attach(options);
  if (!attached.is_ok()) return report(attached.status().to_string());
  const std::string tenant = variable("SQUARE_TEST_TENANT");
  const auto rank = static_cast<std::uint32_t>(std::stoul(variable("SQUARE_TEST_RANK")));
  auto member = Communicator::create(
      **attached, group_of("group of " + tenant, tenant, variable("SQUARE_TEST_NODES")), Rank(rank), kLimit);
  if (!member.is_ok()) return report(member.status().to_string());
  report((*attached)->is_shared() ? "shared" : "streamed");
  // Each word is the size of a broadcast; "wait" waits to be killed.
  std::string calls = variable("SQUARE_TEST_CALLS");
  for (std::size_t call = 0; !calls.empty(); ++call) {
    const std::string word = calls.substr(0, calls.find(' '));
    calls.erase(0, word.size() + 1);
    if (word == "wait") {
      report("waits");
      std::this_thread::sleep_for(std::chrono::minutes(5));
    }
    const std::size_t size = std::stoul(word);
    const auto expected = pattern(size, call + tenant.size());
    std::vector<std::byte> buffer = rank == 0 ? expected : std::vector<std::byte>(size);
    report("calls");
    const Status outcome = (*member)->broadcast(buffer, Rank(0), kLimit);
    report(!outcome.is_ok() ? outcome.to_string() : buffer == expected ? "right" : "WRONG BYTES");
  }
  // The node's part of the last call may not be over: a process leaves when the others are through.
  report("leaves");
}

TEST_CASE("gateway process" * doctest::skip()) {
  NodeOptions joining;
  joining.name = "b";
  joining.controller_address = variable("SQUARE_TEST_CONTROLLER");
  const auto node = Node::join(joining);
  if (!node.is_ok()) return report(node.status().to_string());
  const auto gateway = Gateway::serve(**node, {});
  report(gateway.is_ok() ? (*gateway)->socket_path() : gateway.status().to_string());
  std::this_thread::sleep_for(std::chrono::minutes(5));
}

TEST_CASE("processes of two tenants broadcast through two gateways, shared and streamed") {
  const Site site;
  for (const bool is_streamed : {false, true}) {
    CAPTURE(is_streamed);
    const std::string calls = "3000001 0 1 70000 9000000";
    std::vector<std::unique_ptr<ChildProcess>> members;
    for (const std::string tenant : {"alice", "robert"}) {
      const std::string named = tenant + (is_streamed ? "-streamed" : "");
      for (const std::uint32_t rank : {0U, 1U})
        members.push_back(site.member(named, "ab", rank, calls, is_streamed));
    }
    for (const auto& member : members) CHECK(member->line() == (is_streamed ? "streamed" : "shared"));
    for (int call = 0; call < 5; ++call) {
      for (const auto& member : members) {
        CHECK(member->line() == "calls");
        CHECK(member->line() == "right");
      }
    }
    for (const auto& member : members) CHECK(member->line() == "leaves");
    CHECK(site.settles(0, 0));
    CHECK(site.settles(1, 0));
  }
}

TEST_CASE("two processes at one gateway are ranks of one group, beside a node of its own") {
  const Site site;
  const auto first = site.attach(0);
  const auto second = site.attach(0, {.socket_path = {}, .shared_memory = false});
  CHECK(first->is_shared());
  CHECK_FALSE(second->is_shared());
  CHECK(first->name() == "a");
  const GroupSpec group = group_of("g", "alice", "aab");
  std::vector<MemberHost*> hosts = {first.get(), second.get(), site.nodes[1].get()};
  std::vector<std::unique_ptr<Communicator>> members;
  for (std::uint32_t rank = 0; rank < 3; ++rank) members.push_back(join(*hosts[rank], group, rank));
  for (const std::uint32_t root : {0U, 0U, 1U, 2U}) {  // two roots are added on the way
    std::vector<std::vector<std::byte>> buffers(3, std::vector<std::byte>(2'500'000));
    buffers[root] = pattern(2'500'000, root);
    std::vector<Status> outcomes(3);
    std::vector<std::thread> threads;
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      threads.emplace_back(
          [&, rank] { outcomes[rank] = members[rank]->broadcast(buffers[rank], Rank(root), kLimit); });
    }
    for (auto& thread : threads) thread.join();
    for (const Status& outcome : outcomes) CHECK(outcome == Status::ok());
    for (const auto& buffer : buffers) CHECK(buffer == pattern(2'500'000, root));
  }
}

TEST_CASE("a group of attached members ends when all have closed it, or are gone") {
  const Site site;
  const auto first = site.attach(0);
  auto second = site.attach(0, {.socket_path = {}, .shared_memory = false});
  const GroupSpec group = group_of("g", "alice", "aab");
  std::vector<MemberHost*> hosts = {first.get(), second.get(), site.nodes[1].get()};
  const auto is_over = [&] { return site.controller->plan()->collectives.empty(); };
  for (int round = 0; round < 3; ++round) {
    std::vector<std::unique_ptr<Communicator>> members;
    for (std::uint32_t rank = 0; rank < 3; ++rank) members.push_back(join(*hosts[rank], group, rank));
    std::vector<std::vector<std::byte>> buffers(3, pattern(100'000, 1));
    std::vector<std::shared_ptr<Work>> works;
    for (std::uint32_t rank = 0; rank < 3; ++rank)
      works.push_back(*members[rank]->broadcast_async(buffers[rank], Rank(0), kLimit));
    for (const auto& work : works) CHECK(work->wait().is_ok());
    CHECK(members[0]->close().is_ok());
    CHECK(members[2]->close().is_ok());
    CHECK(site.controller->plan()->collectives.size() == 1);
    const auto early = Communicator::create(*hosts[0], group, Rank(0), std::chrono::milliseconds(50));
    CHECK(early.status().code() == StatusCode::kDeadlineExceeded);
    if (round < 2) CHECK(members[1]->close().is_ok());
  }
  second.reset();  // the last one leaves without a word
  const auto end = std::chrono::steady_clock::now() + kLimit;
  while (!is_over() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  CHECK(is_over());
}

TEST_CASE("a killed process ends its group's operation by name, and nobody else's") {
  const Site site;
  for (const bool is_streamed : {false, true}) {
    const std::string suffix = is_streamed ? "-streamed" : "";
    const auto root = site.member("alice" + suffix, "aab", 0, "4000000 4000000 4000000", is_streamed);
    const auto killed = site.member("alice" + suffix, "aab", 1, "4000000 4000000", is_streamed);
    const auto absent = site.member("alice" + suffix, "aab", 2, "4000000 wait", is_streamed);
    const auto other_root = site.member("robert" + suffix, "ab", 0, "100000 wait", is_streamed);
    const auto other = site.member("robert" + suffix, "ab", 1, "100000 100000", is_streamed);
    for (const auto& member : {&root, &killed, &absent, &other_root, &other}) {
      CHECK((*member)->line() == (is_streamed ? "streamed" : "shared"));
      CHECK((*member)->line() == "calls");
      CHECK((*member)->line() == "right");
    }
    CHECK(absent->line() == "waits");
    CHECK(root->line() == "calls");
    CHECK(killed->line() == "calls");
    CHECK(root->line(std::chrono::milliseconds(200)) == "(silence)");
    killed->signal(SIGKILL);
    const std::string cause = root->line();
    CAPTURE(cause);
    CHECK(cause.find("UNAVAILABLE") == 0);
    for (const std::string& word : {"process " + std::to_string(killed->pid()), std::string("rank 1"),
                                    std::string("tenant \"alice"), std::string("node \"a\"")}) {
      CHECK(cause.find(word) != std::string::npos);
    }
    CHECK(root->line() == "calls");
    const std::string later = root->line();
    CHECK(later.find("FAILED_PRECONDITION") == 0);
    CHECK(later.find("make a new group") != std::string::npos);
    // The other tenant has noticed nothing: its member still waits for its root.
    CHECK(other->line() == "calls");
    CHECK(other->line(std::chrono::milliseconds(200)) == "(silence)");
    CHECK(site.gateways[0]->statistics().staging_bytes == 0);
  }
}

TEST_CASE("a member on another node hears of a process that was killed before it called") {
  const Site site;
  const auto root = site.member("alice", "ab", 0, "1000 1000");
  const auto killed = site.member("alice", "ab", 1, "1000 wait");
  for (const auto& member : {&root, &killed}) {
    for (const char* line : {"shared", "calls", "right"}) CHECK((*member)->line() == line);
  }
  CHECK(killed->line() == "waits");
  CHECK(root->line() == "calls");
  CHECK(root->line(std::chrono::milliseconds(200)) == "(silence)");
  killed->signal(SIGKILL);
  const std::string cause = root->line();
  CAPTURE(cause);
  CHECK(cause.find("UNAVAILABLE") == 0);
  for (const std::string& word :
       {"process " + std::to_string(killed->pid()), std::string("rank 1"), std::string("node \"b\"")}) {
    CHECK(cause.find(word) != std::string::npos);
  }
}

TEST_CASE("a gateway that is killed ends its processes' operations, by name") {
  Scenario scenario;
  scenario.topology = *full_mesh(std::vector<std::string>{"a", "b"}, {1e9, Duration(0), 0.0});
  const auto controller = std::move(Controller::start({}, scenario)).value();
  NodeOptions joining;
  joining.name = "a";
  joining.controller_address = controller->address();
  const auto node = std::move(Node::join(joining)).value();
  ChildProcess process("gateway process", {{"SQUARE_TEST_CONTROLLER", controller->address()}});
  const std::string address = process.line();
  for (const bool is_shared : {true, false}) {
    auto attached = AttachedNode::attach({.socket_path = address, .shared_memory = is_shared});
    REQUIRE_MESSAGE(attached.is_ok(), attached.status().to_string());
    const auto member = join(**attached, group_of(is_shared ? "g" : "h", "alice", "ab"), 1);
    std::vector<std::byte> buffer(3'000'000);
    const auto work = *member->broadcast_async(buffer, Rank(0), kLimit);
    CHECK_FALSE(work->wait_for(std::chrono::milliseconds(100)));
    if (is_shared) {
      work->cancel();
      CHECK(work->wait().code() == StatusCode::kCancelled);
      continue;
    }
    process.signal(SIGKILL);
    const Status outcome = work->wait();
    CHECK(outcome.code() == StatusCode::kUnavailable);
    CHECK(has(outcome, address));
    CHECK(has(outcome, "node \"b\""));
    const Status later = (*attached)->register_group(group_of("i", "alice", "ab"), kLimit).status();
    CHECK(later.code() == StatusCode::kUnavailable);
    CHECK(has(later, "attach again"));
  }
}

TEST_CASE("a gateway that is stopped says so, and a process that leaves is forgotten") {
  Site site;
  const auto attached = site.attach(0);
  const auto member = join(*attached, group_of("g", "alice", "ab"), 0);
  {
    const auto leaves = site.attach(0);
    CHECK(site.gateways[0]->statistics().attachments == 2);
  }
  CHECK(site.settles(0, 1));
  std::vector<std::byte> buffer(3'000'000);
  const auto work = *member->broadcast_async(buffer, Rank(0), kLimit);
  CHECK_FALSE(work->wait_for(std::chrono::milliseconds(100)));
  site.gateways[0]->stop();
  const Status outcome = work->wait();
  CHECK(outcome.code() == StatusCode::kUnavailable);
  CHECK(has(outcome, "was stopped"));
  CHECK(site.gateways[0]->statistics().attachments == 0);
}

TEST_CASE("a node that stops before its gateway ends what runs, and later calls fail") {
  Site site;
  const auto attached = site.attach(0);
  const auto member = join(*attached, group_of("g", "alice", "ab"), 0);
  std::vector<std::byte> buffer(3'000'000);
  const auto work = *member->broadcast_async(buffer, Rank(0), kLimit);
  CHECK_FALSE(work->wait_for(std::chrono::milliseconds(100)));
  const auto begun = std::chrono::steady_clock::now();
  site.nodes[0]->stop();
  CHECK(work->wait().code() == StatusCode::kCancelled);
  const auto late = Communicator::create(*attached, group_of("h", "alice", "ab"), Rank(0), kLimit);
  CHECK(late.status().code() == StatusCode::kCancelled);
  site.gateways[0]->stop();
  site.gateways[0].reset();
  CHECK(std::chrono::steady_clock::now() - begun < kLimit / 2);
}

TEST_CASE("who may not attach is told why") {
  GatewayOptions options;
  options.max_attachments = 1;
  const Site site(options);
  const std::string address = site.gateways[0]->socket_path();
  const auto held = site.attach(0, {});
  const auto second = AttachedNode::attach({.socket_path = address});
  CHECK(second.status().code() == StatusCode::kResourceExhausted);
  CHECK(has(second.status(), "max_attachments"));
  CHECK(AttachedNode::attach({.socket_path = "/nowhere/a.sock"}).status().code() == StatusCode::kUnavailable);
  const Status port = AttachedNode::attach({.socket_path = "127.0.0.1:1"}).status();
  CHECK(port.code() == StatusCode::kInvalidArgument);
  CHECK(has(port, "a node of its own"));
  GatewayOptions other;
  other.socket_path = address;
  CHECK(Gateway::serve(*site.nodes[0], other).status().code() == StatusCode::kAlreadyExists);
  other.socket_path = "/" + std::string(200, 'x');
  CHECK(Gateway::serve(*site.nodes[0], other).status().code() == StatusCode::kInvalidArgument);
  other = {};
  other.users = {{65534, "alice"}};
  CHECK(Gateway::serve(*site.nodes[0], other).status().code() == StatusCode::kInvalidArgument);
}

TEST_CASE("a process posts for its own groups, its own tenant and its own ranks only") {
  const Site site;
  const auto first = site.attach(0);
  const auto second = site.attach(0);
  const auto stranger = site.attach(0);
  const GroupSpec group = group_of("g", "alice", "aab");
  const auto zero = join(*first, group, 0);
  const auto clash = join(*second, group, 0);
  std::vector<std::byte> buffer(1000);
  const auto work = *zero->broadcast_async(buffer, Rank(0), kLimit);
  while (site.gateways[0]->statistics().operations == 0) std::this_thread::yield();
  const Status refused = clash->broadcast(buffer, Rank(0), kLimit);
  CHECK(refused.code() == StatusCode::kAlreadyExists);
  CHECK(has(refused, "rank 0 of group \"g\""));
  CHECK(has(refused, "process " + std::to_string(getpid())));
  CHECK_FALSE(work->is_done());

  const auto registered = second->register_group(group, kLimit);
  REQUIRE(registered.is_ok());
  const auto post = [&](AttachedNode& node, std::uint32_t rank) {
    const auto outcome = std::make_shared<std::promise<Status>>();
    MemberOperation call;
    call.collective = registered->collectives[0];
    call.operation = OperationId(0);
    call.rank = Rank(rank);
    call.output = buffer;
    call.done = [outcome](Status status) { outcome->set_value(std::move(status)); };
    node.post(std::move(call));
    return outcome->get_future().get();
  };
  CHECK(post(*stranger, 1).code() == StatusCode::kPermissionDenied);
  CHECK(post(*second, 2).code() == StatusCode::kInvalidArgument);  // lives on b
  const Status tenant = second->register_group(group_of("h", "bob", "ab"), kLimit).status();
  CHECK(tenant.code() == StatusCode::kPermissionDenied);
  CHECK(has(tenant, "tenant \"bob\""));
  CHECK_FALSE(work->is_done());
  work->cancel();
  CHECK(work->wait().code() == StatusCode::kCancelled);
}

TEST_CASE("staging memory is bounded: operations wait for room, or are refused by the limit's name") {
  GatewayOptions options;
  options.tenant_staging_bytes = 1'000'000;
  options.staging_bytes = 1'500'000;
  const Site site(options);
  for (const bool is_shared : {true, false}) {
    CAPTURE(is_shared);
    const std::string name = is_shared ? "shared" : "streamed";
    const auto a = site.attach(0, {.socket_path = {}, .shared_memory = is_shared});
    const auto b = site.attach(1, {.socket_path = {}, .shared_memory = is_shared});
    const auto root = join(*a, group_of(name, "alice", "ab"), 0);
    const auto member = join(*b, group_of(name, "alice", "ab"), 1);
    constexpr std::size_t kCalls = 6;
    std::vector<std::vector<std::byte>> sent;
    std::vector<std::vector<std::byte>> received(kCalls, std::vector<std::byte>(400'000));
    std::vector<std::shared_ptr<Work>> works;
    for (std::size_t call = 0; call < kCalls; ++call) sent.push_back(pattern(400'000, call));
    for (auto& buffer : sent) works.push_back(*root->broadcast_async(buffer, Rank(0), kLimit));
    CHECK_FALSE(works.back()->wait_for(std::chrono::milliseconds(100)));
    CHECK(site.gateways[0]->statistics().operations == kCalls);
    CHECK(site.gateways[0]->statistics().staging_bytes == 800'000);
    for (auto& buffer : received) works.push_back(*member->broadcast_async(buffer, Rank(0), kLimit));
    for (const auto& work : works) CHECK(work->wait() == Status::ok());
    CHECK(received == sent);
    std::vector<std::byte> large(1'000'001);
    const Status refused = root->broadcast(large, Rank(0), kLimit);
    CHECK(refused.code() == StatusCode::kResourceExhausted);
    CHECK(has(refused, "tenant_staging_bytes"));
    CHECK(has(refused, "1000000"));
  }
  CHECK(site.settles(0, 0));
}

TEST_CASE("ranks of one node that need room together are refused together") {
  GatewayOptions options;
  options.tenant_staging_bytes = 1'000'000;
  const Site site(options);
  const auto first = site.attach(0);
  const auto second = site.attach(0);
  const auto zero = join(*first, group_of("g", "alice", "aab"), 0);
  const auto one = join(*second, group_of("g", "alice", "aab"), 1);
  std::vector<std::byte> buffer(600'000);
  std::vector<std::byte> other(600'000);
  const Status refused = zero->broadcast(buffer, Rank(0), kLimit);
  CHECK(refused.code() == StatusCode::kResourceExhausted);
  CHECK(has(refused, "all ranks of this node together"));
  CHECK(one->broadcast(other, Rank(0), kLimit) == refused);
}

TEST_CASE("a rank that is ahead leaves the others of its node room for their part") {
  GatewayOptions options;
  options.tenant_staging_bytes = 1'000'000;
  const Site site(options);
  const auto first = site.attach(0);
  const auto second = site.attach(0);
  const auto zero = join(*first, group_of("g", "alice", "aab"), 0);
  const auto one = join(*second, group_of("g", "alice", "aab"), 1);
  const auto two = join(*site.nodes[1], group_of("g", "alice", "aab"), 2);
  constexpr std::size_t kCalls = 20;
  std::vector<std::vector<std::byte>> sent;
  std::vector<std::vector<std::byte>> received(2 * kCalls, std::vector<std::byte>(100'000));
  std::vector<std::shared_ptr<Work>> works;
  for (std::size_t call = 0; call < kCalls; ++call) sent.push_back(pattern(100'000, call));
  for (auto& buffer : sent) works.push_back(*zero->broadcast_async(buffer, Rank(0), kLimit));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  for (std::size_t call = 0; call < kCalls; ++call) {
    works.push_back(*one->broadcast_async(received[2 * call], Rank(0), kLimit));
    works.push_back(*two->broadcast_async(received[2 * call + 1], Rank(0), kLimit));
  }
  for (const auto& work : works) CHECK(work->wait() == Status::ok());
  for (std::size_t i = 0; i < received.size(); ++i) CHECK(received[i] == sent[i / 2]);
}

TEST_CASE("bytes that are no messages, silence, and lies about lengths end their own connection only") {
  const Site site;
  const auto attached = site.attach(0);
  const std::string address = site.gateways[0]->socket_path();
  const char* given = std::getenv("SQUARE_SEED");
  const auto seed = given != nullptr ? std::stoull(given) : std::random_device{}();
  MESSAGE("SQUARE_SEED=", seed);
  std::mt19937_64 random(seed);
  std::vector<std::byte> noise(5000);
  for (auto& byte : noise) byte = static_cast<std::byte>(random() & 0xffU);
  CHECK(seconds_until_closed(address, noise) < 5.0);
  CHECK(seconds_until_closed(address, {}) < 5.0);
  for (const std::uint8_t type : {std::uint8_t{1}, std::uint8_t{5}, std::uint8_t{8}, std::uint8_t{200}}) {
    std::vector<std::byte> lie(32);
    std::memcpy(lie.data(), "SQGW\1", 5);
    lie[5] = static_cast<std::byte>(type);
    const std::uint32_t body = 0x7fffffff;
    std::memcpy(lie.data() + 24, &body, sizeof body);
    CHECK(seconds_until_closed(address, lie) < 5.0);
  }
  const auto member = join(*attached, group_of("g", "alice", "a"), 0);
  std::vector<std::byte> buffer(1000);
  CHECK(member->broadcast(buffer, Rank(0), kLimit) == Status::ok());
}
