// Operations, and the two ends of sums, without the class that dispatches to them.
#include "node/operations/operation.h"

#include <doctest/doctest.h>

#include <cstring>

#include "node/operation_place.h"
#include "node/operations/sum_layout.h"
#include "node/sums/sum_forwarder.h"
#include "node/sums/sum_messages.h"
#include "node/sums/sum_root.h"

namespace square::test {
namespace {

constexpr OperationId kOperation{3};
constexpr std::uint32_t kBlockBytes = 8192;
constexpr StreamIndex kStream{0};
constexpr Reduction kReduction{ElementType::kInt32, ReduceOp::kSum};

Buffer bytes_of(std::size_t size, std::byte value) {
  return Buffer::copy_of(std::vector<std::byte>(size, value));
}

Buffer numbers(std::size_t count, std::int32_t value) {
  const std::vector<std::int32_t> values(count, value);
  return Buffer::copy_of(std::as_bytes(std::span(values)));
}

std::shared_ptr<const Plan> broadcast_plan() {
  PlanBuilder builder(2);
  builder.add_link(0, 1, 1e9);
  builder.add_broadcast(0, {0, 1}, {{{{0, 1}}, 1e8}});
  return builder.build();
}

// Members 0 to 2 add at node 0; what 2 gives goes through 1, or through 3, which has no member.
std::shared_ptr<const Plan> reduce_plan() {
  PlanBuilder builder(4);
  for (std::uint32_t from = 1; from < 4; ++from) builder.add_link(from, 0, 1e9);
  builder.add_link(2, 1, 1e9);
  builder.add_link(2, 3, 1e9);
  builder.add_reduce(0, {0, 1, 2}, {{{{2, 1}, {1, 0}}, 1e8}, {{{1, 0}, {2, 3}, {3, 0}}, 1e8}});
  return builder.build();
}

FrameHeader block_header(std::size_t size, std::size_t block) {
  FrameHeader header;
  header.type = FrameType::kBlock;
  header.epoch = Epoch(1);
  header.operation = kOperation;
  header.offset_bytes = block * kBlockBytes;
  header.stream_sequence = block + 1;
  header.total_bytes = size;
  header.block_bytes = kBlockBytes;
  return header;
}

MemberOperation call_of(Rank rank, std::span<std::byte> buffer, bool is_root) {
  MemberOperation call;
  call.operation = kOperation;
  call.rank = rank;
  call.input = buffer;
  call.output = buffer;
  call.reduction = kReduction;
  call.group_size = 3;
  call.is_root = is_root;
  return call;
}

std::shared_ptr<Operation> operation_on(OperationPlace& host, CollectiveOp op, std::size_t members) {
  auto operation =
      std::make_shared<Operation>(host.node, host, OperationKey{CollectiveId(0), kOperation}, op);
  operation->set_member_count(members);
  return operation;
}

SumLabel label_of(std::size_t size) {
  return {SessionId(0), kOperation, 1, 0, {size, kBlockBytes, kReduction, Epoch(1)}, 0};
}

std::shared_ptr<SumForwarder> forwarder_of(OperationPlace& host, const SumLabel& label) {
  SumForwarder::Host said;
  said.answer = [&host](const LocalStream&, const Frame& frame) { host.answers.push_back(frame); };
  said.progress = [] {};
  said.fill = [&host](const StreamKey& key) { host.filled.insert(key); };
  said.on_restart = [&host] { ++host.restarts; };
  return std::make_shared<SumForwarder>(host.node, host.links(), host.plan, label, std::move(said));
}

// What a transport says of its links.
struct LinkLog final : TransportHandler {
  void on_link_up(LinkHandle link, LinkEnd, std::string_view) override { up.push_back(link); }
  void on_frame(LinkHandle, Frame) override {}
  void on_sent(LinkHandle) override {}
  void on_link_down(LinkHandle link, Status) override { std::erase(up, link); }
  std::vector<LinkHandle> up;
};

}  // namespace

TEST_CASE("a destination holds what comes before its members call, and ends when they have all") {
  OperationPlace host(broadcast_plan(), 1);
  const auto operation = operation_on(host, CollectiveOp::kBroadcast, 2);
  std::vector<std::byte> one(kBlockBytes + 10);
  std::vector<std::byte> other(one.size());
  operation->on_arrival(host.arrival(block_header(one.size(), 1), bytes_of(10, std::byte{2})));
  CHECK(host.node->held_bytes == 10);
  operation->post(call_of(Rank(1), one, false), host.plan);
  operation->post(call_of(Rank(2), other, false), host.plan);
  CHECK(host.node->held_bytes == 0);
  operation->on_arrival(host.arrival(block_header(one.size(), 0), bytes_of(kBlockBytes, std::byte{1})));
  host.run();
  REQUIRE(host.outcomes.size() == 1);
  CHECK(host.outcomes.front().is_ok());
  CHECK(one == other);
  CHECK(one.front() == std::byte{1});
  CHECK(one.back() == std::byte{2});
  REQUIRE_FALSE(host.answers.empty());
  const auto ack = decode_acknowledgement(host.answers.back().payload);
  REQUIRE(ack.is_ok());
  CHECK(ack->done);
}

TEST_CASE("a destination's word is awaited where a source asked, or was refused") {
  OperationPlace host(broadcast_plan(), 1);
  host.node->hold_limit_bytes = 0;
  const auto operation = operation_on(host, CollectiveOp::kBroadcast, 2);
  std::vector<std::byte> one(2 * kBlockBytes);
  std::vector<std::byte> other(one.size());
  const auto block = [&] {
    operation->on_arrival(host.arrival(block_header(one.size(), 0), bytes_of(kBlockBytes, std::byte{1})));
  };
  block();
  REQUIRE(host.answers.size() == 1);  // no room
  CHECK_FALSE(is_routine(host.answers.back().payload));
  operation->post(call_of(Rank(1), one, false), host.plan);
  operation->post(call_of(Rank(2), other, false), host.plan);
  REQUIRE(host.answers.size() == 2);  // room again
  CHECK_FALSE(is_routine(host.answers.back().payload));
  block();
  host.simulation.run_until([&] { return host.answers.size() == 3; }, TimePoint(std::chrono::seconds(1)));
  REQUIRE(host.answers.size() == 3);  // in its time
  CHECK(is_routine(host.answers.back().payload));
  FrameHeader probe = block_header(one.size(), 0);
  probe.type = FrameType::kProbe;
  operation->on_arrival(host.arrival(probe, {}));
  REQUIRE(host.answers.size() == 4);
  CHECK_FALSE(is_routine(host.answers.back().payload));
  operation->fail(cancelled("enough"), false);
}

TEST_CASE("a source is done when its destination says so, and lets go of the buffer") {
  OperationPlace host(broadcast_plan(), 0);
  const auto operation = operation_on(host, CollectiveOp::kBroadcast, 1);
  std::vector<std::byte> data(kBlockBytes);
  operation->post(call_of(Rank(0), data, true), host.plan);
  CHECK(operation->runs_before(Epoch(2)));
  Acknowledgement ack;
  ack.destination = NodeId(1);
  ack.done = true;
  operation->on_acknowledgement(block_header(data.size(), 0), ack);
  host.run();
  REQUIRE(host.outcomes.size() == 1);
  CHECK(host.outcomes.front().is_ok());
  CHECK_FALSE(operation->runs_before(Epoch(2)));
}

TEST_CASE("a neighbour that takes little by little keeps a source's buffer for some seconds, not for ever") {
  OperationPlace host(broadcast_plan(), 0);
  LinkLog here;
  LinkLog there;
  const auto peer = host.simulation.make_transport(node_name(1));
  REQUIRE(host.transport->start(here).is_ok());
  REQUIRE(peer->start(there).is_ok());
  host.transport->open_link(node_name(1), peer->address());
  host.run();
  REQUIRE(here.up.size() == 1);
  host.outgoing.at(node_name(1))->on_up(here.up.front());
  const auto operation = operation_on(host, CollectiveOp::kBroadcast, 1);
  std::vector<std::byte> data(kBlockBytes);
  operation->post(call_of(Rank(0), data, true), host.plan);
  auto frame = operation->make_pin(data.data());
  Acknowledgement ack;
  ack.destination = NodeId(1);
  ack.done = true;
  operation->on_acknowledgement(block_header(data.size(), 0), ack);
  const auto pass = [&](int milliseconds) {
    const TimePoint when = host.simulation.clock().now() + std::chrono::milliseconds(milliseconds);
    host.simulation.run_until([] { return false; }, when);
  };
  pass(4'000);
  CHECK(here.up.size() == 1);  // it may be only slow
  pass(2'000);
  CHECK(here.up.empty());
  frame.reset();
  host.run();
  REQUIRE(host.outcomes.size() == 1);
  CHECK(host.outcomes.front().is_ok());
  peer->stop();
}

TEST_CASE("an operation that failed says so once, answers the root's questions, and takes no block") {
  OperationPlace host(reduce_plan(), 1);
  const auto operation = operation_on(host, CollectiveOp::kReduce, 1);
  std::vector<std::byte> data(kBlockBytes);
  operation->post(call_of(Rank(1), data, false), host.plan);
  operation->fail(cancelled("enough"), true);
  operation->fail(cancelled("again"), true);
  CHECK(host.failures.size() == 1);
  host.answers.clear();
  FrameHeader question = label_of(data.size()).header(FrameType::kRequest, {Epoch(1), SessionId(0), kStream});
  operation->on_arrival(host.arrival(question, encode_request({})));
  CHECK(host.answers.size() == 1);
  host.run();
  REQUIRE(host.outcomes.size() == 1);
  CHECK(host.outcomes.front().code() == StatusCode::kCancelled);
}

TEST_CASE("the root answers many that are behind with one question, and with one more after a while") {
  OperationPlace host(reduce_plan(), 0);
  SumRoot::Host said;
  said.answer = [&](const LocalStream&, const Frame& frame) { host.answers.push_back(frame); };
  said.progress = [] {};
  said.on_sum = [](std::size_t) {};
  std::vector<std::byte> data(4 * kBlockBytes);
  const SumLabel label = label_of(data.size());
  const auto root = std::make_shared<SumRoot>(host.node, host.plan, label, std::move(said));
  root->open({{data.data()}, {data.data()}, kReduction, 3}, nullptr);
  const std::size_t streams = host.plan->sessions().front().streams.size();
  const auto come_behind = [&](int times) {
    SumReport report{NodeId(1), 0, true, true, 0};
    const FrameHeader header = label.header(FrameType::kReport, {Epoch(1), SessionId(0), kStream});
    for (int i = 0; i < times; ++i)
      CHECK(root->on_report(host.arrival(header, encode_report(report))).is_ok());
  };
  come_behind(100);
  CHECK(host.answers.size() == streams);
  // A part comes: nothing else makes the root ask soon.
  const auto interleave = deal_out(host.plan->sessions().front(), 4, {});
  FrameHeader part = label.block_header({Epoch(1), SessionId(0), StreamIndex(0)}, interleave->order(0)[0], 0);
  part.stream_sequence = 1;
  CHECK(root->on_block(host.arrival(part, numbers(kBlockBytes / 4, 10), 0)).is_ok());
  const auto pass = [&](Duration time) {
    host.simulation.run_until([] { return false; }, host.simulation.clock().now() + time);
  };
  pass(kMinAskWait);
  CHECK(host.answers.size() == 2 * streams);
  pass(kMinAskWait / 4);
  come_behind(100);
  CHECK(host.answers.size() == 2 * streams);
  root->cancel();
}

TEST_CASE("the root adds its own to the parts of the tree, asks for what a parent passed over, and is done") {
  OperationPlace host(reduce_plan(), 0);
  const std::size_t count = 4 * kBlockBytes / sizeof(std::int32_t);
  std::vector<std::int32_t> sums(count, 1);
  auto* bytes = reinterpret_cast<std::byte*>(sums.data());
  std::size_t made = 0;
  SumRoot::Host said;
  said.answer = [&](const LocalStream&, const Frame& frame) { host.answers.push_back(frame); };
  said.progress = [] {};
  said.on_sum = [&](std::size_t) { ++made; };
  const SumLabel label = label_of(4 * kBlockBytes);
  const auto root = std::make_shared<SumRoot>(host.node, host.plan, label, std::move(said));
  root->open({{bytes}, {bytes}, kReduction, 3}, nullptr);
  const auto interleave = deal_out(host.plan->sessions().front(), 4, {});
  const auto part = [&](std::size_t block, std::uint64_t sequence, std::uint16_t retry, std::size_t parent) {
    const StreamIndex stream(static_cast<std::uint16_t>(interleave->stream_of(block)));
    FrameHeader header = label.block_header({Epoch(1), SessionId(0), stream}, block, retry);
    header.stream_sequence = sequence;
    return root->on_block(host.arrival(header, numbers(kBlockBytes / 4, 10), parent));
  };
  // Of the first stream, with one parent, the second block comes before the first.
  const auto& order = interleave->order(0);
  REQUIRE(order.size() == 2);
  CHECK(part(order[1], 2, 0, 0).is_ok());
  host.run();
  CHECK(made == 1);
  REQUIRE(host.answers.size() == 1);
  const auto request = decode_request(host.answers.front().payload);
  REQUIRE(request.is_ok());
  CHECK(request->again == std::vector<SumRequest::Again>{{order[0], 1}});
  CHECK_FALSE(part(order[0], 0, 2, 0).is_ok());  // nobody asked for that
  CHECK(part(order[0], 1, 0, 0).is_ok());        // too late
  host.run();
  CHECK(made == 1);
  CHECK(part(order[0], 0, 1, 0).is_ok());
  // The second stream has two.
  for (std::size_t i = 0; i < 2; ++i) {
    for (std::size_t parent = 0; parent < 2; ++parent)
      CHECK(part(interleave->order(1)[i], i + 1, 0, parent).is_ok());
  }
  host.run();
  CHECK(root->is_done());
  CHECK(root->is_drained());
  CHECK(std::ranges::count(sums, 11) == static_cast<std::ptrdiff_t>(count / 2));
  CHECK(std::ranges::count(sums, 21) == static_cast<std::ptrdiff_t>(count / 2));
  const auto last = decode_request(host.answers.back().payload);
  REQUIRE(last.is_ok());
  CHECK(last->done);
  root->cancel();
}

TEST_CASE("a node without a member passes parts on, a member waits until it has called") {
  const std::size_t size = 2 * kBlockBytes;
  const SumLabel label = label_of(size);
  const auto part_on = [&](OperationPlace& host, std::uint16_t stream, std::size_t block) {
    FrameHeader header = label.block_header({Epoch(1), SessionId(0), StreamIndex(stream)}, block, 0);
    header.stream_sequence = 1;
    return host.arrival(header, numbers(kBlockBytes / 4, 10));
  };
  const auto interleave = deal_out(*reduce_plan()->find_session(SessionId(0)), 2, {});
  OperationPlace relay(reduce_plan(), 3);
  const auto passing = forwarder_of(relay, label);
  CHECK(passing->on_block(part_on(relay, 1, interleave->order(1)[0])).is_ok());
  CHECK(relay.queued_to(0, SessionId(0)) == 1);
  CHECK(passing->on_block(part_on(relay, 1, interleave->order(1)[0])).is_ok());  // again: once is enough
  CHECK(relay.queued_to(0, SessionId(0)) == 1);
  OperationPlace member(reduce_plan(), 1);
  const auto adding = forwarder_of(member, label);
  CHECK(adding->on_block(part_on(member, 0, interleave->order(0)[0])).is_ok());
  member.run();
  CHECK(member.queued_to(0, SessionId(0)) == 0);
  std::vector<std::byte> input(size);
  adding->open({{input.data()}, {}, kReduction, 3}, nullptr);
  member.run();
  CHECK(member.queued_to(0, SessionId(0)) == 1);
  // Where the stream starts here the node is asked for blocks, and gives what there is room for.
  const StreamKey starts{Epoch(1), SessionId(0), StreamIndex(1)};
  CHECK(member.filled.contains(starts));
  adding->cancel();
  CHECK(member.queued_to(0, SessionId(0)) == 0);
  passing->cancel();
}

// Who sent them may have no room left to send them again: its window is full of what waits for others.
TEST_CASE("parts that came ahead of the request that begins their sums again are kept") {
  OperationPlace host(reduce_plan(), 1);
  const std::size_t size = 8 * kBlockBytes;
  const auto forwarder = forwarder_of(host, label_of(size));
  std::vector<std::byte> input(size);
  forwarder->open({{input.data()}, {}, kReduction, 3}, nullptr);
  // The root begins again, without the first two blocks.
  const std::vector<bool> done{true, true, false, false, false, false, false, false};
  const auto interleave = deal_out(*reduce_plan()->find_session(SessionId(0)), 8, done);
  SumLabel next = label_of(size);
  next.generation = 1;
  const auto part = [&](std::size_t block) {
    FrameHeader header = next.block_header({Epoch(1), SessionId(0), kStream}, block, 0);
    header.stream_sequence = 1;
    return host.arrival(header, numbers(kBlockBytes / 4, 10));
  };
  CHECK(forwarder->on_block(part(interleave->order(0)[0])).is_ok());
  host.run();
  CHECK(host.queued_to(0, SessionId(0)) == 1);
  SumRequest begins;
  begins.number = 1;
  begins.first_missing = 2;
  const FrameHeader header = next.header(FrameType::kRequest, {Epoch(1), SessionId(0), kStream});
  CHECK(forwarder->on_request(host.arrival(header, encode_request(begins))).is_ok());
  CHECK(host.queued_to(0, SessionId(0)) == 1);
  CHECK(forwarder->on_block(part(interleave->order(0)[1])).is_ok());
  host.run();
  CHECK(host.queued_to(0, SessionId(0)) == 2);
  forwarder->cancel();
}

TEST_CASE("shares carry bytes in the plan's order, and an empty operation tells in one of them") {
  PlanBuilder builder(2);
  builder.add_link(0, 1, 1e9);
  builder.add_link(1, 0, 1e9);
  const PlanBuilder::Trees to_first{{{{1, 0}}, 1e8}};
  const PlanBuilder::Trees to_second{{{{0, 1}}, 1e8}};
  builder.add_all_reduce({0, 1}, {{0, 3'000, to_first, to_second}, {1, 1'000, to_second, to_first}});
  const InstalledPlan installed(builder.build(), "n0", kMinWindowBytes);
  const InstalledCollective& plan = *installed.find(CollectiveId(0));
  std::vector<std::byte> data(400);
  const SumLayout layout(plan, call_of(Rank(0), data, false));
  REQUIRE(layout.shares().size() == 4);
  CHECK(layout.shares()[0].range.size_bytes == 300);
  CHECK(layout.shares()[2].range.offset_bytes == 300);
  CHECK(layout.shares()[2].range.size_bytes == 100);
  for (const SumLayout::Share& share : layout.shares()) {
    REQUIRE(share.pair != nullptr);
    CHECK(layout.find(share.pair->id)->pair == share.session);
  }
  CHECK(layout.find(SessionId(99)) == nullptr);
  const SumLayout empty(plan, call_of(Rank(0), {}, false));
  REQUIRE(empty.shares().size() == 2);
  CHECK(empty.shares()[0].pair == empty.shares()[1].session);
  const PlanFrame frame(installed.plan(), nullptr, NodeId(0));
  const InstalledCollective local(frame, PlanCollective{}, {});
  CHECK(SumLayout(local, call_of(Rank(0), data, false)).is_local());
}

}  // namespace square::test
