// The parts of a gateway by themselves: messages, memory, room, ranks.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <vector>

#include "collective/gateway/frame.h"
#include "collective/gateway/group_table.h"
#include "collective/gateway/segment.h"
#include "collective/gateway/staging.h"

using namespace square;
using namespace square::gateway;

namespace {

Status open_own(const Segment& segment, std::uint64_t nonce, std::size_t size_bytes, SegmentUse use) {
  return open_segment(static_cast<std::uint32_t>(getpid()),
                      static_cast<std::uint32_t>(segment.descriptor.get()), nonce, size_bytes, use)
      .status();
}

bool has(const Status& status, const std::string& words) {
  return status.message().find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("a header is laid out as docs/gateway.md draws it, and any wrong byte is seen") {
  const std::vector<std::byte> body = {std::byte{1}, std::byte{2}, std::byte{3}};
  const Header header{MessageType::kChunk, 0x0102030405060708, 0x1112131415161718, 3};
  const HeaderBytes bytes = encode_header(header, body);
  const std::vector<std::uint8_t> expected = {'S',  'Q',  'G',  'W',  1, 8, 0,    0,    8,    7,
                                              6,    5,    4,    3,    2, 1, 0x18, 0x17, 0x16, 0x15,
                                              0x14, 0x13, 0x12, 0x11, 3, 0, 0,    0};
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(static_cast<std::uint8_t>(bytes[i]) == expected[i]);
  const auto read = decode_header(bytes);
  REQUIRE(read.is_ok());
  CHECK(read->number == header.number);
  CHECK(read->offset_bytes == header.offset_bytes);
  CHECK(check_body(bytes, body) == Status::ok());
  for (std::size_t i = 0; i < kHeaderBytes + body.size(); ++i) {
    HeaderBytes broken = bytes;
    auto broken_body = body;
    (i < kHeaderBytes ? broken[i] : broken_body[i - kHeaderBytes]) ^= std::byte{0x10};
    const auto decoded = decode_header(broken);
    const bool seen = !decoded.is_ok() || decoded->body_bytes != body.size() ||
                      check_body(broken, broken_body).code() == StatusCode::kDataLoss;
    CHECK_MESSAGE(seen, "byte ", i);
  }
}

TEST_CASE("a segment is what its process announced, or it is not mapped") {
  const std::vector<std::byte> data(10'000, std::byte{7});
  const auto input = make_input_segment(data);
  const auto output = make_output_segment(20'000);
  REQUIRE(input.is_ok());
  REQUIRE(output.is_ok());
  const auto self = static_cast<std::uint32_t>(getpid());
  {
    const auto mapped = open_segment(self, static_cast<std::uint32_t>(input->descriptor.get()), input->nonce,
                                     data.size(), SegmentUse::kInput);
    REQUIRE_MESSAGE(mapped.is_ok(), mapped.status().to_string());
    CHECK(std::ranges::equal(mapped->data(), data));
  }
  {
    const auto mapped = open_segment(self, static_cast<std::uint32_t>(output->descriptor.get()),
                                     output->nonce, 15'000, SegmentUse::kOutput);
    REQUIRE_MESSAGE(mapped.is_ok(), mapped.status().to_string());
    std::ranges::fill(mapped->data(), std::byte{9});
    CHECK(output->mapping.data()[14'999] == std::byte{9});
    CHECK(output->mapping.data()[15'000] == std::byte{0});
  }
  CHECK(has(open_own(*input, input->nonce + 1, 10, SegmentUse::kInput), "announced"));
  CHECK(has(open_own(*input, input->nonce, 10'001, SegmentUse::kInput), "bytes where"));
  CHECK(has(open_own(*output, output->nonce, 10, SegmentUse::kInput), "not sealed"));  // could change
  CHECK_FALSE(open_own(*input, input->nonce, 10, SegmentUse::kOutput).is_ok());
  CHECK_FALSE(open_segment(self, 9999, 1, 10, SegmentUse::kInput).is_ok());
  CHECK_FALSE(open_segment(0x7fffffff, 3, 1, 10, SegmentUse::kInput).is_ok());
  // Nobody can shorten what the gateway reads.
  CHECK(ftruncate(input->descriptor.get(), 4096) != 0);
  CHECK(ftruncate(output->descriptor.get(), 4096) != 0);
  CHECK(pwrite(input->descriptor.get(), "x", 1, 5000) != 1);
}

TEST_CASE("files that could be cut short, or are no memory at all, are refused") {
  Segment plain;
  plain.descriptor = FileDescriptor(memfd_create("plain", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(ftruncate(plain.descriptor.get(), 100'000) == 0);
  CHECK(has(open_own(plain, 0, 10, SegmentUse::kOutput), "not sealed"));
  Segment null;
  null.descriptor = FileDescriptor(open("/dev/null", O_RDWR | O_CLOEXEC));
  CHECK(has(open_own(null, 0, 10, SegmentUse::kOutput), "memory file"));
}

TEST_CASE("room is counted for each tenant and in all") {
  StagingBudget budget({100, 150});
  using Answer = StagingBudget::Answer;
  CHECK(budget.check("alice", 100) == Status::ok());
  CHECK(has(budget.check("alice", 101), "tenant_staging_bytes"));
  CHECK(has(StagingBudget({1000, 150}).check("alice", 200), "staging_bytes"));
  CHECK(budget.take("alice", 100) == Answer::kTaken);
  CHECK(budget.take("alice", 1) == Answer::kTenantIsFull);
  CHECK(budget.take("bob", 51) == Answer::kAllIsFull);
  CHECK(budget.take("bob", 50) == Answer::kTaken);
  CHECK(budget.take("carol", 0) == Answer::kTaken);
  budget.give_back("alice", 100);
  CHECK(budget.used_bytes() == 50);
  CHECK(budget.take("bob", 50) == Answer::kTaken);
}

TEST_CASE("a rank is one process's, and who left before a call is missed") {
  GroupTable table("a");
  const GroupSpec spec{"g", "alice", {"a", "a", "b"}, {{CollectiveOp::kBroadcast, Rank(0), 1.0, 0}}};
  const GroupRegistration registration{{CollectiveId(7)}, Epoch(1)};
  const auto claim = [&](std::uint64_t operation, std::uint32_t rank, AttachmentId attachment) {
    return table.claim(CollectiveId(7), OperationId(operation), Rank(rank), attachment,
                       "process " + std::to_string(attachment));
  };
  CHECK(claim(0, 0, 1).code() == StatusCode::kPermissionDenied);
  table.add(spec, registration, 1);
  table.add(spec, registration, 2);
  CHECK(claim(0, 0, 1) == Status::ok());
  CHECK(claim(0, 1, 2) == Status::ok());
  CHECK(claim(0, 2, 2).code() == StatusCode::kInvalidArgument);
  CHECK(claim(0, 0, 2).code() == StatusCode::kAlreadyExists);
  CHECK(has(claim(0, 0, 2), "process 1"));
  const auto departures = table.leave(2);
  REQUIRE(departures.size() == 1);
  CHECK(departures[0].ranks == std::vector<Rank>{Rank(1)});
  CHECK(departures[0].group->missing(CollectiveId(7), 0) == nullptr);  // it had posted that one
  REQUIRE(departures[0].group->missing(CollectiveId(7), 1) != nullptr);
  CHECK(claim(1, 0, 1).code() == StatusCode::kUnavailable);
  CHECK(has(claim(1, 0, 1), "process 2"));
  table.leave(1);
  table.prune();
  CHECK(table.find(CollectiveId(7)) == nullptr);
}
