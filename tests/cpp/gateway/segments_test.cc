// Whose memory a gateway believes in: a process that speaks the protocol by hand, and one that
// writes where it should not.
#include <doctest/doctest.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <thread>

#include "controller/protocol.h"
#include "gateway/liar.h"
#include "gateway/site.h"
#include "gateway/staging.h"

using namespace square;
using namespace square::gateway;
using testing::join;
using testing::kLimit;
using testing::Liar;
using testing::open_descriptors;
using testing::Site;

namespace {

constexpr std::size_t kBytes = 1000;

// Rank 0, the root, broadcasts from `input`. Returns how that ends, if it is not cancelled first.
Status broadcast_from(const Site& site, const std::string& nodes_of_ranks, const Segment& input,
                      bool cancels = false, bool brings = true) {
  Liar liar(site.gateways[0]->socket_path());
  GroupSpec group{"group on " + nodes_of_ranks, "alice", {}, {{CollectiveOp::kBroadcast, Rank(0), 1.0, 0}}};
  for (const char node : nodes_of_ranks) group.nodes.emplace_back(1, node);
  const std::uint32_t collective = liar.add(group);
  v1::GatewayPost post;
  post.set_collective(collective);
  post.set_input_bytes(kBytes);
  post.set_element_type(static_cast<std::uint32_t>(kNoReduction.type));
  post.set_reduce_op(static_cast<std::uint32_t>(kNoReduction.op));
  post.set_group_size(static_cast<std::uint32_t>(group.nodes.size()));
  post.set_is_root(true);
  post.set_timeout_nanoseconds(to_nanoseconds(kLimit));
  liar.say(MessageType::kPost, 2, post);
  v1::GatewayStatus outcome;
  REQUIRE(liar.hear(outcome) == MessageType::kAdmitted);
  v1::GatewayStaged where;
  where.mutable_input()->set_nonce(input.nonce);
  liar.say(MessageType::kStaged, 2, where,
           brings ? std::vector<int>{input.descriptor.get()} : std::vector<int>{});
  if (cancels) liar.say(MessageType::kCancel, 2, v1::GatewayStatus());
  const MessageType type = liar.hear(outcome);
  CHECK((type == MessageType::kOutcome || type == MessageType::kClosing));
  return status_of(outcome);
}

}  // namespace

TEST_CASE("an input that other nodes get must be sealed, whatever its process says") {
  const Site site;
  const std::vector<std::byte> data(kBytes);
  const auto sealed = make_sealed_segment(data);
  const auto reusable = make_reusable_segment(kBytes);
  REQUIRE(sealed.is_ok());
  REQUIRE(reusable.is_ok());
  const Status refused = broadcast_from(site, "ab", *reusable);
  CHECK_MESSAGE(refused.message().find("not sealed") != std::string::npos, refused.to_string());
  CHECK(site.settles(0, 0));
  // Nothing of this group leaves the node.
  CHECK(broadcast_from(site, "a", *reusable) == Status::ok());
  CHECK(site.settles(0, 0));
  CHECK(broadcast_from(site, "aba", *sealed, true).code() == StatusCode::kCancelled);
  CHECK(site.settles(0, 0));
  const Status missing = broadcast_from(site, "abb", *sealed, false, false);
  CHECK_MESSAGE(missing.message().find("did not come with the message") != std::string::npos,
                missing.to_string());
  CHECK(site.settles(0, 0));
}

TEST_CASE("descriptors that nobody asked for are closed, and too many end the connection") {
  const Site site;
  const Segment segment = make_sealed_segment({}).value();
  const std::ptrdiff_t before = open_descriptors();
  constexpr std::ptrdiff_t kOthers = 10;  // of the connection's two ends, and of nodes; a hundred are sent
  {
    Liar liar(site.gateways[0]->socket_path());
    // Of a message that takes none: they go with it.
    for (int i = 0; i < 50; ++i)
      liar.say(MessageType::kCancel, 1, v1::GatewayStatus(),
               {segment.descriptor.get(), segment.descriptor.get()});
    // The gateway has read all that came before this is answered.
    v1::GatewayRegister wanted;
    liar.say(MessageType::kRegister, 3, wanted, {segment.descriptor.get()});
    v1::GatewayRegistered answer;
    REQUIRE(liar.hear(answer) == MessageType::kRegistered);
    CHECK(open_descriptors() < before + kOthers);
    liar.say(MessageType::kCancel, 1, v1::GatewayStatus(),
             std::vector<int>(kMaxDescriptors + 1, segment.descriptor.get()));
    CHECK(liar.is_sent_away());
  }
  CHECK(site.settles(0, 0));
  CHECK(open_descriptors() < before + kOthers);
}

TEST_CASE("operations beyond the segments of their tenant wait, however small they are") {
  const Site site;
  Liar liar(site.gateways[0]->socket_path());
  v1::GatewayPost post;
  post.set_collective(
      liar.add({"small", "alice", {"a", "a"}, {{CollectiveOp::kBroadcast, Rank(0), 1.0, 0}}}));
  post.set_input_bytes(4);
  post.set_element_type(static_cast<std::uint32_t>(kNoReduction.type));
  post.set_reduce_op(static_cast<std::uint32_t>(kNoReduction.op));
  post.set_group_size(2);
  post.set_is_root(true);
  post.set_timeout_nanoseconds(to_nanoseconds(kLimit));
  constexpr std::size_t kRoom = kMaxSegmentsOfTenant / (2 * kSegmentsOfRank);
  v1::GatewayStatus unused;
  for (std::size_t call = 0; call < kRoom + 10; ++call) {
    post.set_operation(call);
    liar.say(MessageType::kPost, 2 + call, post);
    if (call < kRoom) REQUIRE(liar.hear(unused) == MessageType::kAdmitted);
  }
  // This is answered after the calls before it, which wait.
  CHECK(liar.add({"other", "alice", {"a"}, {{CollectiveOp::kBroadcast, Rank(0), 1.0, 0}}}) > 0);
  CHECK(site.gateways[0]->statistics().operations == kRoom + 10);
  const auto of_another = site.attach(0);
  const auto member =
      join(*of_another, {"g", "bob", {"a"}, {{CollectiveOp::kBroadcast, Rank(0), 1.0, 0}}}, 0);
  std::vector<std::byte> buffer(1000);
  CHECK(member->broadcast(buffer, Rank(0), kLimit) == Status::ok());
}

TEST_CASE("the cause of a failure is cut before every collective of its group keeps it") {
  const Site site;
  const auto first = site.attach(0);
  const auto second = site.attach(0);
  GroupSpec group{"g", "alice", {"a", "a"}, {}};
  for (const std::uint32_t channel : {0U, 1U})
    group.collectives.push_back({CollectiveOp::kBroadcast, Rank(0), 1.0, channel});
  const auto zero = join(*first, group, 0);
  const auto one = join(*second, group, 1);
  const auto registered = first->register_group(group, kLimit);
  REQUIRE(registered.is_ok());
  std::vector<std::byte> buffer(1000);
  const auto work = *zero->broadcast_async(buffer, Rank(0), kLimit);
  site.nodes[0]->fail(registered->collectives[0], OperationId(0), aborted(std::string(100'000, 'y')));
  const Status ended = work->wait();
  CHECK(ended.code() == StatusCode::kAborted);
  CHECK(ended.message().size() < 2 * kMaxErrorBytes);
  const Status later = one->broadcast(buffer, Rank(0), kLimit);
  CHECK(later.message().find("yyy") != std::string::npos);
  CHECK(later.message().size() < 2'000);
}

TEST_CASE("a process that writes over what its node adds harms its own group alone") {
  const Site site;
  const auto attached = site.attach(0);
  REQUIRE(attached->is_shared());
  const auto adders = [](const std::string& name, const std::vector<std::string>& nodes) {
    return GroupSpec{name, "alice", nodes, {{CollectiveOp::kAllReduce, Rank(0), 1.0, 0}}};
  };
  constexpr Reduction kSum{ElementType::kFloat32, ReduceOp::kSum};
  const auto zero = join(*attached, adders("near", {"a", "a"}), 0);
  const auto one = join(*attached, adders("near", {"a", "a"}), 1);
  const auto here = join(*site.nodes[0], adders("far", {"a", "b"}), 0);
  const auto there = join(*site.nodes[1], adders("far", {"a", "b"}), 1);
  std::atomic<bool> is_over = false;
  std::uint64_t written = 0;
  std::thread scribbler([&] {
    while (!is_over) written += testing::scribble();
  });
  const auto add = [&](Communicator& first, Communicator& second, std::size_t count) {
    std::vector<std::vector<float>> data(2, std::vector<float>(count, 1.0F));
    std::vector<std::shared_ptr<Work>> works;
    for (std::size_t rank = 0; rank < 2; ++rank) {
      const auto bytes = std::as_writable_bytes(std::span(data[rank]));
      works.push_back(*(rank == 0 ? first : second).all_reduce_async(bytes, bytes, kSum, kLimit));
    }
    for (const auto& work : works) CHECK(work->wait() == Status::ok());
    return data;
  };
  std::thread caller([&] {
    // Whatever the sums are now.
    for (int call = 0; call < 4; ++call) add(*zero, *one, 2'000'000);
  });
  for (int call = 0; call < 10; ++call) {
    for (const auto& sums : add(*here, *there, 100'000)) CHECK(std::ranges::count(sums, 2.0F) == 100'000);
  }
  caller.join();
  is_over = true;
  scribbler.join();
  CHECK(written > 0);
}

TEST_CASE("ranks of one node get the same sums again and again from the memory they reuse") {
  const Site site;
  const auto attached = site.attach(0);
  const GroupSpec group{
      "g",
      "alice",
      {"a", "a", "a"},
      {{CollectiveOp::kAllReduce, Rank(0), 1.0, 0}, {CollectiveOp::kReduce, Rank(1), 1.0, 0}}};
  constexpr Reduction kSum{ElementType::kInt32, ReduceOp::kSum};
  std::vector<std::unique_ptr<Communicator>> members;
  for (std::uint32_t rank = 0; rank < 2; ++rank) members.push_back(join(*attached, group, rank));
  members.push_back(join(*site.nodes[0], group, 2));
  for (const std::size_t count : {700'001U, 3U, 700'001U, 350'000U, 2'000'003U}) {
    for (const bool is_reduce : {false, true}) {
      std::vector<std::vector<std::int32_t>> inputs(3, std::vector<std::int32_t>(count));
      std::vector<std::vector<std::int32_t>> outputs = inputs;
      for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t rank = 0; rank < 3; ++rank)
          inputs[rank][i] = static_cast<std::int32_t>(i * (rank + 1) + count);
      }
      const auto given = inputs;
      std::vector<std::shared_ptr<Work>> works;
      for (std::size_t rank = 0; rank < 3; ++rank) {
        const auto from = std::as_bytes(std::span(inputs[rank]));
        const auto to = std::as_writable_bytes(std::span(outputs[rank]));
        works.push_back(is_reduce ? *members[rank]->reduce_async(from, to, kSum, Rank(1), kLimit)
                                  : *members[rank]->all_reduce_async(from, to, kSum, kLimit));
      }
      for (const auto& work : works) CHECK(work->wait() == Status::ok());
      CHECK(inputs == given);
      std::size_t wrong = 0;
      for (std::size_t rank = is_reduce ? 1 : 0; rank < (is_reduce ? 2U : 3U); ++rank) {
        for (std::size_t i = 0; i < count; ++i)
          wrong += outputs[rank][i] == static_cast<std::int32_t>(i * 6 + count * 3) ? 0U : 1U;
      }
      CHECK(wrong == 0);
    }
  }
}
