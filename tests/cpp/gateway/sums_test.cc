// Sums of members that are attached to gateways.
#include <doctest/doctest.h>

#include <atomic>
#include <future>
#include <thread>
#include <vector>

#include "gateway/site.h"

using namespace square;
using testing::ChildProcess;
using testing::join;
using testing::kLimit;
using testing::report;
using testing::Site;
using testing::variable;

namespace {

// Whole numbers, so that every order of additions gives the same bits.
template <typename Element>
std::vector<Element> values(std::size_t count, std::size_t rank, std::size_t call) {
  std::vector<Element> made(count);
  for (std::size_t i = 0; i < count; ++i) {
    made[i] = static_cast<Element>((i * 7 + (i >> 10U) + rank * 41 + call * 13) % 251);
  }
  return made;
}

template <typename Element>
std::vector<Element> sum_of(std::size_t count, std::size_t ranks, std::size_t call) {
  std::vector<Element> sum(count);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const auto part = values<Element>(count, rank, call);
    for (std::size_t i = 0; i < count; ++i) sum[i] += part[i];
  }
  return sum;
}

// One call, and what it came to in a word: "right", "WRONG BYTES", an error.
struct Call {
  bool is_reduce = false;  // to rank 1; otherwise an all-reduce
  bool is_in_place = false;
  std::size_t count = 0;
  std::size_t number = 0;
};

template <typename Element>
std::string run(Communicator& member, const Call& call, ElementType type) {
  const std::size_t rank = member.rank().index();
  const auto given = values<Element>(call.count, rank, call.number);
  auto input = given;
  std::vector<Element> elsewhere(call.count);
  auto& output = call.is_in_place ? input : elsewhere;
  const Reduction reduction{type, ReduceOp::kSum};
  const auto from = std::as_bytes(std::span(input));
  const auto to = std::as_writable_bytes(std::span(output));
  const Status outcome = call.is_reduce ? member.reduce(from, to, reduction, Rank(1), kLimit)
                                        : member.all_reduce(from, to, reduction, kLimit);
  if (!outcome.is_ok()) return outcome.to_string();
  const bool has_result = !call.is_reduce || rank == 1;
  if (has_result && output != sum_of<Element>(call.count, member.size(), call.number)) return "WRONG BYTES";
  const bool keeps_input = !call.is_in_place || !has_result;
  if (keeps_input && input != given) return "CHANGED INPUT";
  return "right";
}

GroupSpec adders(const std::string& tenant, const std::string& nodes_of_ranks) {
  GroupSpec group{"sums of " + tenant, tenant, {}, {}};
  group.collectives = {{CollectiveOp::kAllReduce, Rank(0), 1.0, 0}, {CollectiveOp::kReduce, Rank(1), 1.0, 0}};
  for (const char node : nodes_of_ranks) group.nodes.emplace_back(1, node);
  return group;
}

std::unique_ptr<ChildProcess> adder(const Site& site, const std::string& tenant, const std::string& nodes,
                                    std::uint32_t rank, const std::string& calls, bool is_streamed = false) {
  return site.member(tenant, nodes, rank, calls, is_streamed, "adding process");
}

bool names(const std::string& cause, const ChildProcess& process) {
  const std::string who = "process " + std::to_string(process.pid()) + " of tenant";
  return cause.starts_with("UNAVAILABLE") && cause.find(who) != std::string::npos &&
         cause.find("rank 1 of group \"sums of alice") != std::string::npos;
}

}  // namespace

// Each word is a call: a(ll-reduce) or r(educe), f(loat32) or i(nt64), i(n place) or o(ut of it),
// and how many elements; "wait" waits to be killed.
TEST_CASE("adding process" * doctest::skip()) {
  AttachOptions options;
  options.socket_path = variable("SQUARE_TEST_GATEWAY");
  options.shared_memory = variable("SQUARE_TEST_STREAMED").empty();
  auto attached = AttachedNode::attach(options);
  if (!attached.is_ok()) return report(attached.status().to_string());
  const GroupSpec group = adders(variable("SQUARE_TEST_TENANT"), variable("SQUARE_TEST_NODES"));
  const auto rank = static_cast<std::uint32_t>(std::stoul(variable("SQUARE_TEST_RANK")));
  auto member = Communicator::create(**attached, group, Rank(rank), kLimit);
  if (!member.is_ok()) return report(member.status().to_string());
  report((*attached)->is_shared() ? "shared" : "streamed");
  std::string calls = variable("SQUARE_TEST_CALLS");
  for (std::size_t number = 0; !calls.empty(); ++number) {
    const std::string word = calls.substr(0, calls.find(' '));
    calls.erase(0, word.size() + 1);
    if (word == "wait") {
      report("waits");
      std::this_thread::sleep_for(std::chrono::minutes(5));
    }
    const Call call{word[0] == 'r', word[2] == 'i', std::stoul(word.substr(3)), number};
    report("calls");
    report(word[1] == 'f' ? run<float>(**member, call, ElementType::kFloat32)
                          : run<std::int64_t>(**member, call, ElementType::kInt64));
  }
}

TEST_CASE("processes of two tenants add through two gateways, shared and streamed") {
  const Site site;
  for (const bool is_streamed : {false, true}) {
    CAPTURE(is_streamed);
    const std::string suffix = is_streamed ? "-streamed" : "";
    std::vector<std::unique_ptr<ChildProcess>> members;
    for (const std::string tenant : {"alice", "robert"}) {
      for (const std::uint32_t rank : {0U, 1U}) {
        members.push_back(adder(site, tenant + suffix, "ab", rank,
                                "afi700001 afo700001 rfi300000 rio100001 aii1 afo0 aio250000", is_streamed));
      }
    }
    for (const auto& member : members) CHECK(member->line() == (is_streamed ? "streamed" : "shared"));
    for (int call = 0; call < 7; ++call) {
      for (const auto& member : members) {
        CHECK(member->line() == "calls");
        CHECK(member->line() == "right");
      }
    }
    CHECK(site.settles(0, 0));
    CHECK(site.settles(1, 0));
  }
}

TEST_CASE("ranks that share a gateway add with those of another and of a node in this process") {
  const Site site;
  for (const std::string nodes : {"aabb", "aaa"}) {
    CAPTURE(nodes);
    const auto shared = site.attach(0);
    const auto streamed = site.attach(0, {.socket_path = {}, .shared_memory = false});
    const auto third = site.attach(nodes[2] == 'a' ? 0 : 1);
    std::vector<MemberHost*> hosts = {shared.get(), streamed.get(), third.get(), site.nodes[1].get()};
    hosts.resize(nodes.size());
    std::vector<std::unique_ptr<Communicator>> members;
    for (std::uint32_t rank = 0; rank < nodes.size(); ++rank)
      members.push_back(join(*hosts[rank], adders("alice " + nodes, nodes), rank));
    std::vector<std::string> outcomes(members.size());
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < members.size(); ++rank) {
      threads.emplace_back([&, rank] {
        for (std::size_t call = 0; call < 6; ++call) {
          outcomes[rank] += run<float>(*members[rank], {call % 3 == 2, call % 2 == 0, 400'001, call},
                                       ElementType::kFloat32);
        }
      });
    }
    for (auto& thread : threads) thread.join();
    for (const auto& outcome : outcomes) CHECK(outcome == "rightrightrightrightrightright");
  }
  CHECK(site.settles(0, 0));
}

TEST_CASE("a process killed in the middle of an all-reduce is named on every member, others go on") {
  const Site site({}, 40e6);
  for (const bool is_streamed : {false, true}) {
    const std::string suffix = is_streamed ? "-streamed" : "";
    // At this rate the second call takes many seconds.
    const std::string calls = "afo1000 afi8000000 afi1000";
    const auto near = adder(site, "alice" + suffix, "aab", 0, calls, is_streamed);
    const auto killed = adder(site, "alice" + suffix, "aab", 1, calls, is_streamed);
    const auto far = adder(site, "alice" + suffix, "aab", 2, calls, is_streamed);
    const auto other = adder(site, "robert" + suffix, "ab", 0, "afo1000 afo100000", is_streamed);
    const auto other_far = adder(site, "robert" + suffix, "ab", 1, "afo1000 afo100000", is_streamed);
    for (const auto& member : {&near, &killed, &far, &other, &other_far}) {
      CHECK((*member)->line() == (is_streamed ? "streamed" : "shared"));
      CHECK((*member)->line() == "calls");
      CHECK((*member)->line() == "right");
    }
    for (const auto& member : {&near, &killed, &far}) CHECK((*member)->line() == "calls");
    CHECK(site.holds(0, 2));
    CHECK(site.holds(1, 1));
    CHECK(near->line(std::chrono::milliseconds(200)) == "(silence)");
    killed->signal(SIGKILL);
    for (const auto& member : {&near, &far}) {
      const std::string cause = (*member)->line();
      CHECK_MESSAGE(names(cause, *killed), cause);
      CHECK((*member)->line() == "calls");
      const std::string later = (*member)->line();
      CHECK_MESSAGE(later.starts_with("FAILED_PRECONDITION"), later);
    }
    for (const auto& member : {&other, &other_far}) {
      CHECK((*member)->line() == "calls");
      CHECK((*member)->line() == "right");
    }
    CHECK(site.settles(0, 0));
    CHECK(site.settles(1, 0));
  }
}

TEST_CASE("a process killed before it calls is named to those who have begun to add") {
  const Site site;
  const auto waiting = adder(site, "alice", "ab", 0, "aio1000 afi2000000");
  const auto killed = adder(site, "alice", "ab", 1, "aio1000 wait");
  for (const auto& member : {&waiting, &killed}) {
    for (const char* line : {"shared", "calls", "right"}) CHECK((*member)->line() == line);
  }
  CHECK(killed->line() == "waits");
  CHECK(waiting->line() == "calls");
  CHECK(waiting->line(std::chrono::milliseconds(100)) == "(silence)");
  killed->signal(SIGKILL);
  const std::string cause = waiting->line();
  CHECK_MESSAGE(names(cause, *killed), cause);
}

TEST_CASE("a process that writes over its output while it is summed harms itself alone") {
  const Site site;
  const auto hostile = site.attach(0);
  const auto honest = site.attach(1, {.socket_path = {}, .shared_memory = false});
  REQUIRE(hostile->is_shared());
  const auto zero = join(*hostile, adders("alice", "ab"), 0);
  const auto one = join(*honest, adders("alice", "ab"), 1);
  std::atomic<bool> is_over = false;
  std::uint64_t written = 0;
  std::thread scribbler([&] {
    while (!is_over) written += testing::scribble();
  });
  std::thread caller([&] {
    for (std::size_t call = 0; call < 5; ++call) {
      auto data = values<float>(1'000'000, 0, call);
      const auto bytes = std::as_writable_bytes(std::span(data));
      CHECK(zero->all_reduce(bytes, bytes, {ElementType::kFloat32, ReduceOp::kSum}, kLimit) == Status::ok());
    }
  });
  for (std::size_t call = 0; call < 5; ++call)
    CHECK(run<float>(*one, {false, true, 1'000'000, call}, ElementType::kFloat32) == "right");
  caller.join();
  is_over = true;
  scribbler.join();
  CHECK(written > 0);
}

TEST_CASE("an average of attached members is of all ranks, and its operation is carried") {
  const Site site;
  const auto shared = site.attach(0);
  const auto streamed = site.attach(1, {.socket_path = {}, .shared_memory = false});
  std::vector<std::unique_ptr<Communicator>> members;
  for (std::uint32_t rank = 0; rank < 3; ++rank)
    members.push_back(join(rank < 2 ? *shared : *streamed, adders("alice", "aab"), rank));
  for (const auto& [op, expected] :
       {std::pair{ReduceOp::kAverage, 7.0}, {ReduceOp::kMax, 15.0}, {ReduceOp::kProduct, 30.0}}) {
    std::vector<std::vector<double>> data;
    std::vector<std::shared_ptr<Work>> works;
    for (const double value : {1.0, 2.0, 15.0})
      data.emplace_back(10'001, op == ReduceOp::kAverage ? value + 1 : value);
    for (std::size_t rank = 0; rank < 3; ++rank) {
      const auto bytes = std::as_writable_bytes(std::span(data[rank]));
      auto work = members[rank]->all_reduce_async(bytes, bytes, {ElementType::kFloat64, op}, kLimit);
      REQUIRE(work.is_ok());
      works.push_back(std::move(work).value());
    }
    for (std::size_t rank = 0; rank < 3; ++rank) {
      CHECK(works[rank]->wait() == Status::ok());
      CHECK(data[rank] == std::vector<double>(10'001, expected));
    }
  }
}

TEST_CASE("an impossible part in a sum is refused before a node relies on it") {
  const Site site;
  const auto attached = site.attach(0);
  const auto registered = attached->register_group(adders("alice", "aa"), kLimit);
  REQUIRE(registered.is_ok());
  std::vector<std::byte> buffer(64);
  const auto post = [&](MemberOperation call) {
    const auto outcome = std::make_shared<std::promise<Status>>();
    call.rank = Rank(1);
    call.input = buffer;
    call.output = buffer;
    call.timeout = kLimit;
    call.done = [outcome](Status status) { outcome->set_value(std::move(status)); };
    attached->post(std::move(call));
    return outcome->get_future().get();
  };
  MemberOperation call;
  call.collective = registered->collectives[1];
  call.operation = OperationId(7);
  call.reduction = {ElementType::kFloat32, ReduceOp::kSum};
  call.is_root = true;
  const Status ahead = post(call);
  CHECK(ahead.code() == StatusCode::kInvalidArgument);
  CHECK(ahead.message().find("0 comes next") != std::string::npos);
  call.operation = OperationId(0);
  call.is_root = false;
  CHECK(post(call).message().find("rank 1 is the root") != std::string::npos);
  const auto again = attached->register_group(
      {"h", "alice", {"a", "a"}, {{CollectiveOp::kAllReduce, Rank(0), 1.0, 64}}}, kLimit);
  REQUIRE(again.is_ok());
  call.collective = again->collectives[0];
  call.reduction.type = static_cast<ElementType>(77);
  const Status unknown = post(call);
  CHECK(unknown.code() == StatusCode::kInvalidArgument);
  CHECK(unknown.message().find("rank 1") != std::string::npos);
  const auto third = attached->register_group(
      {"i", "alice", {"a", "a"}, {{CollectiveOp::kAllReduce, Rank(0), 1.0, 64}}}, kLimit);
  REQUIRE(third.is_ok());
  call.collective = third->collectives[0];
  call.reduction = {ElementType::kInt32, ReduceOp::kAverage};
  CHECK(post(call).message().find("rank 1: average of int32") != std::string::npos);
}
