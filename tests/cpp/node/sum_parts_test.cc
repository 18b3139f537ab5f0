// The parts that a sum's root and its forwarders are made of, each alone.
#include <doctest/doctest.h>

#include <array>

#include "node/sums/block_retries.h"
#include "node/sums/contribution.h"
#include "node/sums/leaving_queue.h"
#include "node/sums/loss_watch.h"
#include "node/sums/own_blocks.h"
#include "node/sums/sum_messages.h"
#include "node/sums/sum_shape.h"
#include "node/sums/waiting_parts.h"

namespace square {
namespace {

constexpr StreamIndex kFirst{0};
constexpr StreamIndex kSecond{1};

SumPart part(std::uint64_t sequence, std::shared_ptr<void> guard = nullptr) {
  return {Buffer(), std::move(guard), sequence};
}

PlanSession session_of_two() {
  PlanSession session;
  session.streams = {{{{NodeId(1), NodeId(0)}}, 1e6}, {{{NodeId(1), NodeId(0)}}, 1e6}};
  return session;
}

std::vector<std::uint32_t> blocks_of(std::span<const std::uint32_t> passed) {
  return {passed.begin(), passed.end()};
}

}  // namespace

TEST_CASE("a block waits until each parent's part is here, and a part that comes twice counts once") {
  WaitingParts waiting;
  const auto slot = std::make_shared<int>(0);
  CHECK(waiting.add(4, kFirst, 2, 1, part(1, slot)));
  CHECK_FALSE(waiting.is_complete(4));
  CHECK_FALSE(waiting.add(4, kFirst, 2, 1, part(1, slot)));
  CHECK(slot.use_count() == 2);
  CHECK_FALSE(waiting.has(4, 0));
  CHECK(waiting.has(4, 1));
  CHECK_FALSE(waiting.may_come_on(4, kSecond));
  CHECK(waiting.may_come_on(5, kSecond));
  CHECK(waiting.add(4, kFirst, 2, 0, part(7)));
  CHECK(waiting.is_complete(4));
  const auto parts = waiting.take(4);
  REQUIRE(parts.size() == 2);
  CHECK(parts[0].sequence == 7);
  CHECK(parts[1].guard == slot);
  CHECK_FALSE(waiting.is_complete(4));
  CHECK(waiting.size() == 0);
}

TEST_CASE(
    "what waits passes in the order of its streams, retries last, and frees its slots when it is dropped") {
  WaitingParts waiting;
  const auto slot = std::make_shared<int>(0);
  waiting.add(1, kSecond, 1, 0, part(9));
  waiting.add(2, kFirst, 1, 0, part(0));
  waiting.add(3, kFirst, 1, 0, part(5, slot));
  std::vector<std::size_t> order;
  for (const auto& [block, stream] : waiting.in_order()) order.push_back(block);
  CHECK(order == std::vector<std::size_t>{3, 1, 2});
  waiting.drop(3);
  CHECK(slot.use_count() == 1);
  CHECK(waiting.size() == 2);
  waiting.clear();
  CHECK(waiting.in_order().empty());
}

TEST_CASE("retries count what the root asked for, and by which request") {
  BlockRetries retries;
  CHECK(retries.of(3) == 0);
  CHECK_FALSE(retries.is_asked_after(3, 0));
  CHECK(retries.ask(3, 7) == 1);
  CHECK(retries.ask(3, 9) == 2);
  CHECK(retries.of(3) == 2);
  CHECK(retries.is_asked_after(3, 8));
  CHECK_FALSE(retries.is_asked_after(3, 9));
  retries.set(3, 6);
  CHECK(retries.of(3) == 6);
  retries.clear();
  CHECK(retries.of(3) == 0);
}

TEST_CASE("what a parent passed over is lost, once, and nothing beyond the order") {
  const std::vector<std::uint32_t> order{10, 11, 12, 13};
  LossWatch watch(2);
  CHECK(watch.on_part(order, 0, 1).empty());
  CHECK(blocks_of(watch.on_part(order, 0, 3)) == std::vector<std::uint32_t>{11});
  CHECK(watch.on_part(order, 0, 2).empty());  // late, and of the other parent nothing is known
  CHECK(blocks_of(watch.on_part(order, 1, 3)) == std::vector<std::uint32_t>{10, 11});
  CHECK(blocks_of(watch.on_part(order, 0, 99)) == std::vector<std::uint32_t>{13});
  CHECK(watch.on_part(order, 0, 200).empty());
}

TEST_CASE("what all contributors have reported past is the least of each, whatever order reports come in") {
  LossWatch watch(1);
  watch.on_report({NodeId(1), 5, true, false, 20});
  CHECK_FALSE(watch.reported_by(2));
  watch.on_report({NodeId(2), 4, true, false, 30});
  watch.on_report({NodeId(1), 3, true, false, 10});  // overtaken
  const auto reported = watch.reported_by(2);
  REQUIRE(reported);
  CHECK(reported->number == 4);
  CHECK(reported->position == 20);
}

TEST_CASE("sums leave in the order in which they began, with reports in their places") {
  LeavingQueue leaving;
  FrameHeader header;
  header.type = FrameType::kBlock;
  const auto first = leaving.reserve(header);
  FrameHeader report = header;
  report.type = FrameType::kReport;
  leaving.push({report, {}});
  const auto second = leaving.reserve(header);
  second->is_ready = true;
  CHECK(leaving.take_ready() == nullptr);
  first->is_ready = true;
  CHECK(leaving.take_ready() == first);
  CHECK(leaving.take_ready()->frame.header.type == FrameType::kReport);
  CHECK(leaving.take_ready() == second);
  CHECK(leaving.take_ready() == nullptr);
  CHECK(leaving.size() == 0);
}

TEST_CASE("a contributor sends what is asked for again, then its report, then the next of its order") {
  const std::vector<std::uint32_t> order{4, 6};
  OwnBlocks own;
  CHECK_FALSE(own.take_report());
  auto turn = own.take(order);
  CHECK(turn.block == 4);
  CHECK(turn.sequence == 1);
  own.report(3);
  own.report(2);
  own.ask_again(4);
  CHECK_FALSE(own.take_report());
  turn = own.take(order);
  CHECK(turn.block == 4);
  CHECK(turn.sequence == 0);
  CHECK(own.take_report() == 3);
  CHECK_FALSE(own.take_report());
  CHECK(own.position() == 1);
  turn = own.take(order);
  CHECK(turn.block == 6);
  CHECK(turn.sequence == 2);
  CHECK_FALSE(own.has_turn(order));
}

TEST_CASE("blocks take their streams once the members have called and the beginning is known") {
  const PlanSession session = session_of_two();
  const std::array<std::byte, 8> input{};
  const auto pin = std::make_shared<int>(0);
  Contribution own;
  own.deal(session, 4);
  CHECK(own.interleave().order(0).empty());
  own.begin(0, {}, {}, false);
  own.open({input.data()}, pin);
  own.deal(session, 4);
  CHECK_FALSE(own.is_ready());
  CHECK(own.interleave().order(0).empty());
  own.begin(1, {false, true}, {}, true);
  own.deal(session, 4);
  CHECK(own.is_ready());
  CHECK_FALSE(own.interleave().is_dealt(0));
  CHECK_FALSE(own.interleave().is_dealt(2));
  CHECK(own.interleave().order(0).size() + own.interleave().order(1).size() == 2);
  CHECK(pin.use_count() == 2);
  {
    const Buffer shown = own.show(4, 2);
    CHECK(shown.size_bytes() == 2);
    own.close();
    CHECK(pin.use_count() == 2);  // as long as a frame shows the input
  }
  CHECK(pin.use_count() == 1);
}

TEST_CASE("a newer cut comes before a newer generation, and that before a newer plan") {
  const SumAge present{Epoch(3), 2, Epoch(5)};
  CHECK(SumAge{Epoch(3), 2, Epoch(6)} > present);
  CHECK(SumAge{Epoch(3), 3, Epoch(4)} > present);
  CHECK(SumAge{Epoch(4), 0, Epoch(4)} > present);
  CHECK(SumAge{Epoch(2), 9, Epoch(9)} < present);
  SumLabel label{SessionId(1), OperationId(2), 7, 0, {8192, 8192, {}, Epoch(3)}, 2};
  const FrameHeader header = label.block_header({Epoch(5), SessionId(1), kSecond}, 0, 4);
  CHECK(age_of(header) == present);
  CHECK(age_of(header) == label.age(Epoch(5)));
  CHECK(attempt_from_wire(header.attempt) == Attempt{2, 4});
  CHECK(header.stream == kSecond);
  CHECK(header.incarnation == 7);
}

TEST_CASE("a shape knows its blocks, and refuses another sum's") {
  const SumShape shape{20'000, 8192, {ElementType::kFloat32, ReduceOp::kSum}, Epoch(0)};
  CHECK(check(shape).is_ok());
  CHECK(shape.block_count() == 3);
  CHECK(shape.bytes_of(2) == 20'000 - 2 * 8192);
  const SumShape empty{0, 8192, {ElementType::kFloat32, ReduceOp::kSum}, Epoch(0)};
  CHECK(empty.block_count() == 1);
  CHECK(empty.bytes_of(0) == 0);
  SumLabel label{SessionId(1), OperationId(2), 0, 0, shape, 0};
  FrameHeader header = label.block_header({Epoch(1), SessionId(1), kFirst}, 2, 0);
  CHECK(shape.check_block(header, shape.bytes_of(2)).is_ok());
  CHECK(shape.check_block(header, 8192).code() == StatusCode::kDataLoss);
  header.offset_bytes += 1;
  CHECK(shape.check_block(header, shape.bytes_of(2)).code() == StatusCode::kDataLoss);
  header.total_bytes += 4;
  CHECK(shape.check_block(header, shape.bytes_of(2)).code() == StatusCode::kInvalidArgument);
  CHECK(check({20'001, 8192, shape.reduction, Epoch(0)}).code() == StatusCode::kDataLoss);
  CHECK(check({20'000, 8200, shape.reduction, Epoch(0)}).code() == StatusCode::kDataLoss);
}

}  // namespace square
