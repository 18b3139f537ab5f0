// Transfers that end in the middle, and servers that do.
#include <doctest/doctest.h>

#include "coding/floats.h"
#include "ps/data/parts.h"
#include "ps/shard/rig.h"

using namespace square;
using namespace square::ps;
using namespace square::test;

namespace {

// More than are under way at once.
constexpr std::size_t kManyParts = (kPartsUnderWay + 1) * kPartElements;

// A worker that receives one part, and no more for now.
void receive_one_part(DataLine& line) {
  std::vector<std::byte> message(part_bytes(kPartElements, ElementType::kFloat32));
  const auto work = line.receive(message);
  REQUIRE(work.is_ok());
  CHECK((*work)->wait().is_ok());
}

// One that sends one.
Status send_one_part(DataLine& line, const v1::PsTransfer& transfer, bool is_damaged = false) {
  std::vector<std::byte> message(part_bytes(kPartElements, ElementType::kFloat32));
  seal(message, {transfer.version(), transfer.ticket(), transfer.shard().begin()});
  if (is_damaged) message.back() = std::byte{1};
  const auto work = line.send(message);
  return work.is_ok() ? (*work)->wait() : work.status();
}

bool ends_soon(const auto& future) {
  return future.wait_for(std::chrono::seconds(10)) == std::future_status::ready;
}

}  // namespace

TEST_CASE("a pull is cancelled in the middle") {
  const TemporaryFolder folder;
  ShardRig rig(folder, {.size = kManyParts});
  rig.begin_with(drawn(1, kManyParts));
  const v1::PsTransfer pull = rig.transfer(5, 1, 101);
  auto sent = rig.send(pull);
  const auto line = rig.lines().worker(pull.line());
  receive_one_part(*line);
  rig.on_strand([](Shard& shard) { shard.cancel(5); });
  REQUIRE(ends_soon(sent));
  CHECK(sent.get().code() == StatusCode::kCancelled);
  std::byte none{};
  CHECK(!line->receive({&none, 1}).is_ok());
  // Also before the worker is there: the server's end ends when it comes.
  auto waiting = rig.send(rig.transfer(6, 1, 101));
  rig.on_strand([](Shard& shard) { shard.cancel(6); });
  const auto late = rig.lines().worker("line 6");
  REQUIRE(ends_soon(waiting));
  CHECK(!waiting.get().is_ok());
  CHECK(rig.whole_pull(1).is_ok());
}

TEST_CASE("a push is dropped in the middle, and afterwards") {
  const TemporaryFolder folder;
  ShardRig rig(folder, {.size = kManyParts});
  rig.begin_with(drawn(1, kManyParts));
  const v1::PsTransfer push = rig.transfer(5, 1);
  auto taken = rig.take(push);
  const auto line = rig.lines().worker(push.line());
  CHECK(send_one_part(*line, push).is_ok());
  rig.on_strand([](Shard& shard) { shard.drop_push(5); });
  REQUIRE(ends_soon(taken));
  CHECK(taken.get().status().code() == StatusCode::kCancelled);
  CHECK(rig.average({{5, 1.0}}).get().status().code() == StatusCode::kInternal);

  const std::vector<float> values = drawn(2, kManyParts);
  CHECK(rig.whole_push(6, values).is_ok());
  rig.on_strand([](Shard& shard) { shard.drop_push(6); });
  CHECK(rig.average({{6, 1.0}}).get().status().code() == StatusCode::kInternal);
  // What comes once more takes the place of what did not go on.
  v1::PsTransfer again = rig.transfer(7, 1);
  auto first = rig.take(again);
  again.set_line("another line");
  auto second = rig.take(again);
  const auto unused = rig.lines().worker("line 7");
  CHECK(rig.push(again, values, false).get().is_ok());
  CHECK(second.get().is_ok());
  CHECK(!first.get().is_ok());
  CHECK(rig.average({{7, 1.0}}).get().is_ok());
}

TEST_CASE("parts that are not what they should be are refused, and the line ends") {
  const TemporaryFolder folder;
  ShardRig rig(folder, {.size = kManyParts});
  rig.begin_with(drawn(1, kManyParts));
  for (const std::uint64_t ticket : {5, 6}) {
    v1::PsTransfer push = rig.transfer(ticket, 1);
    auto taken = rig.take(push);
    const auto line = rig.lines().worker(push.line());
    if (ticket == 6) push.set_version(2);
    CHECK(send_one_part(*line, push, ticket == 5).is_ok());
    REQUIRE(ends_soon(taken));
    CHECK(taken.get().status().code() == StatusCode::kDataLoss);
    CHECK(!send_one_part(*line, push).is_ok());
  }
}

TEST_CASE("opening ends transfers and forgets pushes") {
  const TemporaryFolder folder;
  ShardRig rig(folder, {.size = kManyParts});
  rig.begin_with(drawn(1, kManyParts));
  CHECK(rig.whole_push(5, drawn(2, kManyParts)).is_ok());
  const v1::PsTransfer push = rig.transfer(6, 1);
  auto taken = rig.take(push);
  const auto line = rig.lines().worker(push.line());
  CHECK(send_one_part(*line, push).is_ok());
  CHECK(rig.open(1, 101).is_ok());
  REQUIRE(ends_soon(taken));
  CHECK(!taken.get().is_ok());
  CHECK(rig.average({{5, 1.0}}).get().status().code() == StatusCode::kInternal);
}

TEST_CASE("pushes of parameters are of one version, also when the next one comes in the middle") {
  const TemporaryFolder folder;
  constexpr std::size_t kTwoParts = kPartElements + 9;
  ShardRig rig(folder, {.size = kTwoParts, .pushes_parameters = true, .kept = 2});
  const std::vector<float> first(kTwoParts, 1.0F);
  rig.begin_with(first);
  const v1::PsTransfer push = rig.transfer(5, 1);
  auto taken = rig.take(push);  // of version 1 now
  for (std::uint64_t version = 2; version < 5; ++version) {
    rig.whole_round(version, std::vector<float>(kTwoParts), 0.5);
  }
  CHECK(rig.push(push, first, false).get().is_ok());
  const auto squared = taken.get();
  REQUIRE(squared.is_ok());
  CHECK(*squared == 0);
}

TEST_CASE("a server stops in the middle of everything") {
  const TemporaryFolder folder;
  ShardRig rig(folder, {.size = kManyParts});
  rig.begin_with(drawn(1, kManyParts));
  CHECK(rig.whole_push(4, drawn(2, kManyParts)).is_ok());
  const v1::PsTransfer pull = rig.transfer(5, 1, 101);
  auto sent = rig.send(pull);
  receive_one_part(*rig.lines().worker(pull.line()));
  auto nobody = rig.take(rig.transfer(6, 1));  // waits for its worker
  auto averaged = rig.average({{4, 1.0}});
  auto made = rig.make(2, 1);
  const auto made_pull = rig.transfer(7, 2, 102);
  auto of_made = rig.send(made_pull);
  const auto line = rig.lines().worker(made_pull.line());
  rig.on_strand([](Shard& shard) { shard.stop(); });
  CHECK(ends_soon(sent));
  CHECK(ends_soon(nobody));
  CHECK(ends_soon(averaged));
  REQUIRE(ends_soon(made));
  CHECK(ends_soon(of_made));
  CHECK(made.get().status().code() == StatusCode::kCancelled);
  CHECK(nobody.get().status().code() == StatusCode::kCancelled);
  CHECK(folder.files().size() == 1);
  CHECK(rig.take(rig.transfer(8, 1)).get().status().code() == StatusCode::kCancelled);
  CHECK(rig.make(3, 1).get().status().code() == StatusCode::kCancelled);
  CHECK(rig.open(1, 101).code() == StatusCode::kCancelled);
  CHECK(rig.drop_made().code() == StatusCode::kCancelled);
}
