// The parts of a gateway by themselves: messages, memory, room, ranks.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <future>
#include <memory>
#include <random>
#include <vector>

#include "gateway/frame.h"
#include "gateway/group_table.h"
#include "gateway/message_socket.h"
#include "gateway/messages.h"
#include "gateway/registrations.h"
#include "gateway/segment_cache.h"
#include "gateway/site.h"
#include "gateway/staging.h"

using namespace square;
using namespace square::gateway;
using testing::has;

namespace {

SentSegment place_of(const Segment& segment) { return {segment.share(), segment.nonce}; }

Status open_own(const Segment& segment, std::uint64_t nonce, std::size_t size_bytes, SegmentUse use) {
  return open_segment({segment.share(), nonce}, size_bytes, use).status();
}

// The groups of its members never go on, until it stops.
class Patient final : public MemberHost {
 public:
  [[nodiscard]] const std::string& name() const override { return name_; }
  Result<GroupPart> join_group(const GroupSpec&, Rank, Duration) override { return unavailable("no"); }
  Result<GroupRegistration> register_group(const GroupSpec&, Duration) override { return unavailable("no"); }
  Result<GroupSpec> regroup(const RegroupRequest&, Duration) override {
    is_over_.wait(false);
    return unavailable("no");
  }
  void set_members(CollectiveId, std::string, std::vector<Rank>) override {}
  void post(MemberOperation) override {}
  void cancel(CollectiveId, OperationId) override {}
  void fail(CollectiveId, OperationId, Status) override {}
  void after(Duration, std::function<void()>) override {}
  void watch(CollectiveId, OperationId, Duration, std::function<void(Status)>) override {}
  void stop() {
    is_over_ = true;
    is_over_.notify_all();
  }

 private:
  const std::string name_ = "a";
  std::atomic<bool> is_over_ = false;
};

}  // namespace

TEST_CASE("members that wait for their groups to go on are bounded in all, whoever's they were") {
  Patient host;
  const auto loop = *EventLoop::make();
  {
    const auto registrations = std::make_shared<Registrations>(host, loop);
    std::size_t begun = 0;
    AttachmentId attachment = 0;
    for (std::uint32_t user = 1; registrations->check_regroup(++attachment, user).is_ok(); ++user) {
      std::size_t of_user = 0;
      for (; registrations->check_regroup(++attachment, user).is_ok(); ++of_user) {
        REQUIRE(begun < 2 * kMaxRegroups);
        registrations->begin_regroup(attachment, user, {"g", 1, {Rank(0)}, 0, 0}, std::chrono::hours(1),
                                     [](const Result<GroupSpec>&) {});
        ++begun;
      }
      CHECK(of_user == kMaxRegroupsOfUser);
    }
    CHECK(begun == kMaxRegroups);
    CHECK(registrations->check_regroup(++attachment, 0).code() == StatusCode::kResourceExhausted);
    host.stop();
  }
}

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

TEST_CASE("a header with right checksum is refused where its zeros are none, and with a body cut short") {
  const std::vector<std::byte> body(3, std::byte{7});
  Header header{MessageType::kChunk, 1, 2, 3};
  HeaderBytes bytes = encode_header(header, body);
  constexpr std::size_t kChecksumAt = kHeaderBytes - sizeof(std::uint32_t);
  bytes[6] = std::byte{1};
  const std::uint32_t checksum = crc32c(body, crc32c(std::span(bytes).first(kChecksumAt)));
  std::memcpy(bytes.data() + kChecksumAt, &checksum, sizeof checksum);
  CHECK(check_body(bytes, body).is_ok());
  CHECK(decode_header(bytes).status().code() == StatusCode::kDataLoss);
  header.body_bytes = 4;
  CHECK(check_body(encode_header(header, body), body).code() == StatusCode::kDataLoss);
}

TEST_CASE("a segment is what its process announced, or it is not mapped") {
  const std::vector<std::byte> data(10'000, std::byte{7});
  const auto input = make_sealed_segment(data);
  const auto output = make_reusable_segment(20'000);
  REQUIRE(input.is_ok());
  REQUIRE(output.is_ok());
  {
    const auto file = open_segment(place_of(*input), data.size(), SegmentUse::kSealed);
    REQUIRE_MESSAGE(file.is_ok(), file.status().to_string());
    const auto mapped = map_segment(*file, data.size(), SegmentUse::kSealed);
    REQUIRE_MESSAGE(mapped.is_ok(), mapped.status().to_string());
    CHECK(std::ranges::equal(mapped->data(), data));
  }
  {
    const auto file = open_segment(place_of(*output), 15'000, SegmentUse::kReusable);
    REQUIRE_MESSAGE(file.is_ok(), file.status().to_string());
    CHECK(file->capacity_bytes == 20'000);
    const auto mapped = map_segment(*file, 15'000, SegmentUse::kReusable);
    REQUIRE_MESSAGE(mapped.is_ok(), mapped.status().to_string());
    std::ranges::fill(mapped->data(), std::byte{9});
    CHECK(output->mapping.data()[14'999] == std::byte{9});
    CHECK(output->mapping.data()[15'000] == std::byte{0});
  }
  CHECK(has(open_own(*input, input->nonce + 1, 10, SegmentUse::kSealed), "announced"));
  CHECK(has(open_own(*input, input->nonce, 10'001, SegmentUse::kSealed), "bytes where"));
  CHECK(has(open_own(*output, output->nonce, 10, SegmentUse::kSealed), "not sealed"));  // could change
  const auto written = open_segment(place_of(*input), 10, SegmentUse::kReusable);
  CHECK((!written.is_ok() || !map_segment(*written, 10, SegmentUse::kReusable).is_ok()));
  CHECK(has(open_segment({}, 10, SegmentUse::kSealed).status(), "did not come"));
  const std::string own = "/proc/self/fd/" + std::to_string(output->descriptor.get());
  FileDescriptor only_read(open(own.c_str(), O_RDONLY | O_CLOEXEC));
  CHECK(has(open_segment({std::move(only_read), output->nonce}, 10, SegmentUse::kReusable).status(),
            "cannot be written"));
  // Nobody can shorten what the gateway reads.
  CHECK(ftruncate(input->descriptor.get(), 4096) != 0);
  CHECK(ftruncate(output->descriptor.get(), 4096) != 0);
  CHECK(pwrite(input->descriptor.get(), "x", 1, 5000) != 1);
}

TEST_CASE("files that could be cut short, or are no memory at all, are refused") {
  Segment plain;
  plain.descriptor = FileDescriptor(memfd_create("plain", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(ftruncate(plain.descriptor.get(), 100'000) == 0);
  CHECK(has(open_own(plain, 0, 10, SegmentUse::kReusable), "not sealed"));
  Segment null;
  null.descriptor = FileDescriptor(open("/dev/null", O_RDWR | O_CLOEXEC));
  CHECK(has(open_own(null, 0, 10, SegmentUse::kReusable), "memory file"));
}

TEST_CASE("a segment that lacks pages is refused: the node would pay for them") {
  Segment sparse;
  sparse.descriptor = FileDescriptor(memfd_create("sparse", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const std::array<std::uint64_t, 2> header{0x746e656d67655153, 7};
  REQUIRE(ftruncate(sparse.descriptor.get(), 1'000'000) == 0);
  REQUIRE(pwrite(sparse.descriptor.get(), header.data(), sizeof header, 0) == sizeof header);
  REQUIRE(fcntl(sparse.descriptor.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
  CHECK(has(open_own(sparse, 7, 10, SegmentUse::kReusable), "allocate all of them"));
  REQUIRE(fallocate(sparse.descriptor.get(), 0, 0, 1'000'000) == 0);
  CHECK(open_own(sparse, 7, 10, SegmentUse::kReusable) == Status::ok());
}

TEST_CASE("the text of an error that comes is cut, as is that of one that is sent") {
  v1::GatewayStatus message;
  message.set_code(static_cast<std::uint32_t>(StatusCode::kAborted));
  message.set_message(std::string(100'000, 'y'));
  CHECK(status_of(message) == aborted(std::string(kMaxErrorBytes, 'y')));
}

TEST_CASE("what the kernel does not let a loop wait for is refused, and ends its connection alone") {
  const auto loop = *EventLoop::make();
  const Segment file = make_sealed_segment({}).value();
  CHECK_FALSE(loop->watch(file.descriptor.get(), EPOLLIN, [](std::uint32_t) {}));
  struct Handler final : MessageHandler {
    Result<ChunkTarget> on_header(const Header&) override { return ChunkTarget{}; }
    Status on_message(const Header&, std::span<const std::byte>, Descriptors) override { return {}; }
    void on_streamed(std::uint64_t) override {}
    void on_down(const Status& reason) override { down.set_value(reason); }
    std::promise<Status> down;
  } handler;
  MessageSocket connection(*loop, file.share(), handler);
  connection.send(MessageType::kHeartbeat, 0);
  REQUIRE(loop->start("test", std::chrono::milliseconds(20), [] {}).is_ok());
  CHECK(handler.down.get_future().get().code() == StatusCode::kResourceExhausted);
  loop->stop();
}

TEST_CASE("a gateway maps a segment once, and keeps no more than its bounds") {
  const auto made = make_reusable_segment(20'000);
  const auto other = make_reusable_segment(20'000);
  REQUIRE(made.is_ok());
  REQUIRE(other.is_ok());
  SegmentCache cache(50'000);
  const auto first = cache.open(1, place_of(*made), 10);
  REQUIRE_MESSAGE(first.is_ok(), first.status().to_string());
  made->mapping.data()[19'999] = std::byte{5};
  const auto again = cache.open(1, place_of(*made), 20'000);
  REQUIRE(again.is_ok());
  CHECK(again->get() == first->get());
  CHECK((*again)->data()[19'999] == std::byte{5});
  // It is checked each time, and never shown to another process.
  CHECK_FALSE(cache.open(1, place_of(*made), 20'001).is_ok());
  CHECK(has(cache.open(1, {made->share(), made->nonce + 1}, 10).status(), "announced"));
  const auto of_another = cache.open(2, place_of(*made), 10);
  REQUIRE(of_another.is_ok());
  CHECK(of_another->get() != first->get());
  CHECK(cache.kept_bytes() == 40'000);
  // The one that was not used for the longest time goes; who uses it does not notice.
  REQUIRE(cache.open(2, place_of(*other), 10).is_ok());
  CHECK(cache.kept_segments() == 2);
  CHECK((*first)->data()[19'999] == std::byte{5});
  CHECK(cache.open(1, place_of(*made), 10)->get() != first->get());
  cache.drop(1);
  cache.drop(2);
  CHECK(cache.kept_bytes() == 0);
  CHECK(cache.kept_segments() == 0);
  // Larger than may be kept: mapped as far as needed.
  const auto large = make_reusable_segment(60'000);
  REQUIRE(large.is_ok());
  CHECK((*cache.open(1, place_of(*large), 30'000))->data().size() == 30'000);
  CHECK(cache.kept_segments() == 0);
}

TEST_CASE("one process makes a gateway keep only so many segments") {
  SegmentCache cache(std::uint64_t{1} << 30U);
  std::vector<Segment> segments;
  for (std::size_t i = 0; i < kMaxKeptSegments + 3; ++i) {
    auto made = make_reusable_segment(100);
    REQUIRE(made.is_ok());
    segments.push_back(std::move(*made));
    REQUIRE(cache.open(1, place_of(segments.back()), 100).is_ok());
    CHECK(cache.kept_segments() == std::min(i + 1, kMaxKeptSegments));
  }
  auto half = make_reusable_segment(kMaxKeptBytes / 2 + 1);
  REQUIRE(half.is_ok());
  REQUIRE(cache.open(1, place_of(*half), 1).is_ok());
  auto second = make_reusable_segment(kMaxKeptBytes / 2 + 1);
  REQUIRE(second.is_ok());
  REQUIRE(cache.open(1, place_of(*second), 1).is_ok());
  CHECK(cache.kept_bytes() <= kMaxKeptBytes);
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

TEST_CASE("segments are counted as bytes are") {
  StagingBudget budget({100, 150});
  using Answer = StagingBudget::Answer;
  CHECK(has(budget.check("alice", 1, kMaxSegmentsOfTenant + 1), "segments"));
  CHECK(budget.take("alice", 1, kMaxSegmentsOfTenant) == Answer::kTaken);
  CHECK(budget.take("alice", 1, 1) == Answer::kTenantIsFull);
  CHECK(budget.take("bob", 1, kMaxSegmentsOfTenant) == Answer::kTaken);
  CHECK(budget.take("carol", 1, kMaxSegments - 2 * kMaxSegmentsOfTenant + 1) == Answer::kAllIsFull);
  CHECK(has(Status(StatusCode::kUnknown, budget.describe("alice")),
            "1 of 100 bytes and 4096 of 4096 segments"));
  budget.give_back("alice", 1, kMaxSegmentsOfTenant);
  CHECK(budget.take("carol", 1, 1) == Answer::kTaken);
}

TEST_CASE("a collective stays on a node if all its members do") {
  const GroupSpec spec{"g", "alice", {"a", "a", "b"}, {}};
  const GroupCollective all{CollectiveOp::kAllReduce, Rank(0), 1.0, 0};
  GroupCollective near{CollectiveOp::kBroadcast, Rank(0), 1.0, 0};
  near.members = {Rank(0), Rank(1)};
  GroupCollective far = near;
  far.members = {Rank(0), Rank(2)};
  CHECK_FALSE(stays_on(spec, all, "a"));
  CHECK(stays_on({"g", "alice", {"a", "a"}, {}}, all, "a"));
  CHECK_FALSE(stays_on({"g", "alice", {"a", "a"}, {}}, all, "b"));
  CHECK(stays_on(spec, near, "a"));
  CHECK_FALSE(stays_on(spec, far, "a"));
  GroupTable table("a");
  table.add({"g", "alice", {"a", "a", "b"}, {all, near, far}},
            {{CollectiveId(1), CollectiveId(2), CollectiveId(3)}, Epoch(1)}, 1);
  CHECK_FALSE(table.stays_here(CollectiveId(1)));
  CHECK(table.stays_here(CollectiveId(2)));
  CHECK_FALSE(table.stays_here(CollectiveId(3)));
  CHECK_FALSE(table.stays_here(CollectiveId(4)));
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

TEST_CASE("a rank that has closed its group is missed only by collectives that it is a member of") {
  GroupTable table("a");
  GroupCollective message;
  message.root = Rank(1);
  message.members = {Rank(1), Rank(2)};
  const GroupSpec spec{"g", "alice", {"a", "a", "a"}, {{}, message}};
  table.add(spec, {{CollectiveId(7), CollectiveId(8)}, Epoch(1), 5}, 1);
  table.add(spec, {{CollectiveId(7), CollectiveId(8)}, Epoch(1), 5}, 2);
  const auto claim = [&](std::uint32_t collective, std::uint32_t rank) {
    return table.claim(CollectiveId(collective), OperationId(0), Rank(rank), rank == 0 ? 1 : 2, "process");
  };
  int memberships = 0;
  for (const std::uint32_t rank : {0U, 1U, 2U}) {
    const std::shared_ptr<const void> membership(nullptr, [&](const void*) { --memberships; });
    ++memberships;
    table.join("g", rank == 0 ? 1 : 2, Rank(rank), membership);
  }
  CHECK(claim(7, 0) == Status::ok());
  CHECK(table.close("g", 2, Rank(0)) == nullptr);  // another's
  CHECK(table.close("h", 1, Rank(0)) == nullptr);
  REQUIRE(table.close("g", 1, Rank(0)) != nullptr);
  CHECK(memberships == 2);
  CHECK(claim(7, 1) == Status::ok());  // it had called that one
  CHECK(claim(8, 1) == Status::ok());
  CHECK(claim(8, 2) == Status::ok());
  CHECK(table.find(CollectiveId(7))->missing(CollectiveId(7), 1) != nullptr);
  CHECK(table.find(CollectiveId(8))->missing(CollectiveId(8), 1) == nullptr);
  CHECK(table.count_of(1) == 0);
  for (const std::uint32_t rank : {1U, 2U}) REQUIRE(table.close("g", 2, Rank(rank)) != nullptr);
  table.prune();
  CHECK(table.find(CollectiveId(8)) == nullptr);
  CHECK(memberships == 0);
}
