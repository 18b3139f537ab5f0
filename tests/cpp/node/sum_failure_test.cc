// Reduces and all-reduces where something fails: a neighbour that lies, links and nodes that
// go, members that disagree, plans that change while somebody is absent. SQUARE_SEED reruns
// one random case; SQUARE_SEEDS sets how many.
#include <doctest/doctest.h>
#include <unistd.h>

#include <fstream>

#include "node/sum_plans.h"
#include "node/sums/sum_messages.h"

using namespace square;
using namespace square::test;

namespace {

constexpr std::uint32_t kLeast = 8U << 10U;  // of a block

std::size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  statm >> total >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

// 1 and 2 send to 3, which relays to 0; 3 may be a member.
std::shared_ptr<const Plan> star(bool relay_is_member, Epoch epoch = Epoch(1)) {
  PlanBuilder builder = full_mesh(4, 80e6, epoch);
  const std::vector<std::uint32_t> members =
      relay_is_member ? std::vector<std::uint32_t>{0, 1, 2, 3} : std::vector<std::uint32_t>{0, 1, 2};
  builder.add_reduce(0, members, {{{{1, 3}, {2, 3}, {3, 0}}, 40e6}});
  return builder.build();
}

// A program that has taken a node's name and says to its neighbours whatever it likes.
class Liar final : public TransportHandler {
 public:
  Liar(Overlay& overlay, std::size_t index) : overlay_(overlay) {
    overlay.transport(index).stop();
    transport_ = overlay.simulation.make_transport(node_name(index));
    if (!transport_->start(*this).is_ok()) std::abort();
  }
  ~Liar() override { transport_->stop(); }

  void on_link_up(LinkHandle link, LinkEnd end, std::string_view peer) override {
    if (end == LinkEnd::kTail) tails_[std::string(peer)] = link;
    if (end == LinkEnd::kHead) heads_[std::string(peer)] = link;
  }
  void on_frame(LinkHandle, Frame frame) override { heard.push_back(std::move(frame)); }
  void on_sent(LinkHandle) override {}
  void on_link_down(LinkHandle link, Status) override {
    std::erase_if(tails_, [&](const auto& entry) { return entry.second == link; });
    std::erase_if(heads_, [&](const auto& entry) { return entry.second == link; });
  }

  bool dial(std::size_t node) {
    transport_->open_link(node_name(node), overlay_.transport(node).address());
    return overlay_.run([&] { return tails_.contains(node_name(node)); }, std::chrono::seconds(5));
  }
  [[nodiscard]] bool reaches(std::size_t node) const { return tails_.contains(node_name(node)); }
  // Numbers blocks as the neighbour expects.
  void say(std::size_t node, FrameHeader header, const std::vector<std::byte>& payload) {
    const auto link = tails_.find(node_name(node));
    if (link == tails_.end()) return;
    if (header.type == FrameType::kBlock && header.hop_sequence == 0)
      header.hop_sequence = ++hops_[{node, header.stream.value()}];
    transport_->send(link->second, {header, Buffer::copy_of(payload)});
  }
  void answer(std::size_t node, const FrameHeader& header, const std::vector<std::byte>& payload) {
    const auto link = heads_.find(node_name(node));
    if (link != heads_.end()) transport_->send(link->second, {header, Buffer::copy_of(payload)});
  }

  std::vector<Frame> heard;

 private:
  Overlay& overlay_;
  std::unique_ptr<Transport> transport_;
  std::map<std::string, LinkHandle> tails_;
  std::map<std::string, LinkHandle> heads_;
  std::map<std::pair<std::size_t, std::uint16_t>, std::uint64_t> hops_;
};

FrameHeader part(std::uint64_t total, std::uint32_t block, std::uint16_t generation = 0) {
  FrameHeader header;
  header.epoch = Epoch(1);
  header.layout = Epoch(1);
  header.session = SessionId(0);
  header.stream = StreamIndex(0);
  header.operation = OperationId(0);
  header.attempt = to_wire({generation, 0});
  header.element_type = static_cast<std::uint8_t>(ElementType::kFloat32);
  header.reduce_op = static_cast<std::uint8_t>(ReduceOp::kSum);
  header.total_bytes = total;
  header.block_bytes = block;
  header.stream_sequence = 1;
  return header;
}

std::vector<std::byte> bytes_of(const Buffer& buffer) {
  std::vector<std::byte> bytes(buffer.size_bytes());
  buffer.copy_to(bytes.data());
  return bytes;
}

std::vector<std::byte> zeros(std::size_t size) { return std::vector<std::byte>(size); }

}  // namespace

TEST_CASE("a relay survives a newer beginning without a block size") {
  Overlay overlay(1, 4);
  overlay.set_members(CollectiveId(0), {0, 1, 2});
  Liar liar(overlay, 1);
  REQUIRE(overlay.publish(star(false)));
  REQUIRE(liar.dial(3));
  Sum sum(CollectiveId(0), {0, 1, 2}, inputs_of(3, 3, 1'000), 0);
  sum.timeout = std::chrono::seconds(10);
  sum.post(overlay, 0);
  sum.post(overlay, 2);
  liar.say(3, part(kLeast, kLeast), zeros(kLeast));
  liar.say(3, part(kLeast, 0, 1), zeros(0));
  CHECK(overlay.run([&] { return sum.outcomes[0] && sum.outcomes[2]; }, std::chrono::seconds(11)));
}

TEST_CASE("a beginning with blocks that cut elements is refused") {
  Overlay overlay(1, 4);
  overlay.set_members(CollectiveId(0), {0, 1, 3});
  Liar liar(overlay, 1);
  PlanBuilder builder = full_mesh(4);
  builder.add_reduce(0, {0, 1, 3}, {{{{1, 3}, {3, 0}}, 40e6}});
  REQUIRE(overlay.publish(builder.build()));
  REQUIRE(liar.dial(3));
  Sum sum(CollectiveId(0), {0, 1, 3}, inputs_of(3, 3, 5'000), 0);
  sum.timeout = std::chrono::seconds(10);
  sum.post(overlay, 0);
  sum.post(overlay, 2);
  FrameHeader odd = part(20'000, kLeast + 1, 1);
  odd.offset_bytes = 2 * (kLeast + 1);
  liar.say(3, odd, zeros(20'000 - odd.offset_bytes));
  CHECK(overlay.run([&] { return sum.outcomes[0] && sum.outcomes[2]; }, std::chrono::seconds(11)));
  CHECK(sum.outcomes[2]->code() != StatusCode::kDeadlineExceeded);
}

TEST_CASE("parts of one block from different streams are not added") {
  Overlay overlay(1, 4);
  overlay.set_members(CollectiveId(0), {0, 1, 2, 3});
  Liar liar(overlay, 3);
  PlanBuilder builder = full_mesh(4);
  builder.add_reduce(0, {0, 1, 2, 3}, {{{{1, 0}, {2, 0}, {3, 0}}, 40e6}, {{{1, 2}, {2, 0}, {3, 0}}, 40e6}});
  REQUIRE(overlay.publish(builder.build()));
  REQUIRE(liar.dial(0));
  Sum sum(CollectiveId(0), {0, 1, 2, 3}, inputs_of(3, 4, 5'000), 0);
  sum.timeout = std::chrono::seconds(10);
  sum.post(overlay, 0);
  pass(overlay, std::chrono::seconds(1));
  FrameHeader header = part(20'000, kLeast);
  liar.say(0, header, zeros(kLeast));
  header.stream = StreamIndex(1);
  liar.say(0, header, zeros(kLeast));
  pass(overlay, std::chrono::seconds(1));
  CHECK(overlay.run([&] { return sum.outcomes[0].has_value(); }, std::chrono::seconds(11)));
}

TEST_CASE("a relay does not add what it has no arithmetic for") {
  for (const std::uint8_t type : {std::uint8_t{0}, std::uint8_t{200}}) {
    CAPTURE(type);
    Overlay overlay(1, 4);
    overlay.set_members(CollectiveId(0), {0, 1, 2});
    Liar first(overlay, 1);
    Liar second(overlay, 2);
    REQUIRE(overlay.publish(star(false)));
    REQUIRE(first.dial(3));
    REQUIRE(second.dial(3));
    FrameHeader header = part(kLeast, kLeast);
    header.element_type = type;
    first.say(3, header, zeros(kLeast));
    second.say(3, header, zeros(kLeast));
    pass(overlay, std::chrono::seconds(2));
  }
}

TEST_CASE("a reduce whose root rank does not say that it is the root ends with an error") {
  Overlay overlay(1, 4);
  overlay.set_members(CollectiveId(0), {0, 1, 2});
  REQUIRE(overlay.publish(star(false)));
  Sum sum(CollectiveId(0), {0, 1, 2}, inputs_of(3, 3, 1'000), 99);
  sum.timeout = std::chrono::seconds(5);
  sum.post_all(overlay);
  REQUIRE(overlay.run([&] { return sum.is_over(); }, std::chrono::seconds(6)));
  CHECK_FALSE(sum.outcomes[0]->is_ok());
}

TEST_CASE("a contributor that waits in vain names the root") {
  Overlay overlay(1, 3);
  overlay.set_members(CollectiveId(0), {0, 1, 2});
  PlanBuilder builder = full_mesh(3);
  builder.add_reduce(2, {0, 1, 2}, {{{{0, 2}, {1, 2}}, 40e6}});
  REQUIRE(overlay.publish(builder.build()));
  Sum sum(CollectiveId(0), {0, 1, 2}, inputs_of(3, 3, 5'000), 2);
  sum.timeout = std::chrono::seconds(5);
  overlay.simulation.pause(node_name(2), std::chrono::seconds(30));
  sum.post(overlay, 0);
  REQUIRE(overlay.run([&] { return sum.outcomes[0].has_value(); }, std::chrono::seconds(6)));
  CHECK(sum.outcomes[0]->code() == StatusCode::kDeadlineExceeded);
  CAPTURE(sum.outcomes[0]->message());
  CHECK(sum.outcomes[0]->message().find("no word from the root \"n2\"") != std::string::npos);
}

TEST_CASE("a report of an operation that nobody called costs little") {
  // What a frame claims must not be allocated before a member has said the same.
  Overlay overlay(1, 4);
  overlay.set_members(CollectiveId(0), {0, 1, 2});
  Liar liar(overlay, 1);
  PlanBuilder builder = full_mesh(4);
  builder.add_reduce(0, {0, 1, 2}, {{{{1, 0}, {2, 0}}, 40e6}});
  REQUIRE(overlay.publish(builder.build()));
  REQUIRE(liar.dial(0));
  const std::size_t before = resident_bytes();
  for (std::uint64_t operation = 0; operation < 4; ++operation) {
    FrameHeader header = part(std::uint64_t{kLeast} << 23U, kLeast);
    header.type = FrameType::kReport;
    header.operation = OperationId(operation);
    liar.say(0, header, bytes_of(encode_report({NodeId(1), 0, true, false, 0})));
  }
  pass(overlay, std::chrono::seconds(1));
  CHECK(resident_bytes() < before + (std::size_t{16} << 20U));
}

TEST_CASE("a sum whose blocks take long on their way arrives all the same") {
  // 8 KiB need 3.3 s on each of three links.
  Overlay overlay(1, 4);
  overlay.set_members(CollectiveId(0), {0, 1});
  PlanBuilder builder = full_mesh(4, 20e3);
  builder.add_reduce(0, {0, 1}, {{{{1, 2}, {2, 3}, {3, 0}}, 20e3}});
  REQUIRE(overlay.publish(builder.build()));
  Sum sum(CollectiveId(0), {0, 1}, inputs_of(3, 2, 2'048), 0);
  sum.timeout = std::chrono::seconds(300);
  sum.post_all(overlay);
  CHECK(overlay.run([&] { return sum.is_over(); }, std::chrono::seconds(301)));
  CHECK(sum.is_right());
}

TEST_CASE("a plan is installed although members of a reduce are absent") {
  for (const bool relay_is_member : {false, true}) {
    CAPTURE(relay_is_member);
    Overlay overlay(1, 4);
    std::vector<std::uint32_t> ranks{0, 1, 2};
    if (relay_is_member) ranks.push_back(3);
    overlay.set_members(CollectiveId(0), ranks);
    REQUIRE(overlay.publish(star(relay_is_member, Epoch(1))));
    Sum sum(CollectiveId(0), ranks, inputs_of(3, ranks.size(), 100'000), 0);
    sum.post(overlay, 1);
    pass(overlay, std::chrono::seconds(1));
    REQUIRE(overlay.publish(star(relay_is_member, Epoch(2))));
    pass(overlay, std::chrono::seconds(1));
    std::size_t installed = 0;
    for (std::size_t n = 0; n < 4; ++n)
      overlay.node(n).install_plan(star(relay_is_member, Epoch(3)), [&](Epoch) { ++installed; });
    CHECK(overlay.run([&] { return installed == 4; }, std::chrono::seconds(30)));
    sum.post(overlay, 0);
    sum.post(overlay, 2);
    if (relay_is_member) sum.post(overlay, 3);
    CHECK(overlay.run([&] { return sum.is_over(); }));
    CHECK(sum.is_right());
  }
}

TEST_CASE("a contributor or root that was restarted is not told that its first reduces are done") {
  for (const std::uint32_t restarted : {0U, 1U, 3U}) {
    for (const bool all : {false, true}) {
      CAPTURE(restarted);
      CAPTURE(all);
      Overlay overlay(1, 4);
      PlanBuilder builder = full_mesh(4);
      if (all) {
        builder.add_all_reduce(
            {0, 1, 2, 3},
            {{0, 1'000, {{{{1, 3}, {2, 3}, {3, 0}}, 40e6}}, {{{{0, 3}, {3, 1}, {3, 2}}, 40e6}}},
             {1, 1'000, {{{{0, 3}, {2, 3}, {3, 1}}, 40e6}}, {{{{1, 3}, {3, 0}, {3, 2}}, 40e6}}}});
      } else {
        builder.add_reduce(0, {0, 1, 2, 3}, {{{{1, 3}, {2, 3}, {3, 0}}, 40e6}});
      }
      const auto plan = builder.build();
      overlay.set_members(CollectiveId(0), {0, 1, 2, 3});
      REQUIRE(overlay.publish(plan));
      const auto root = all ? std::nullopt : std::optional<std::uint32_t>(0);
      Sum first(CollectiveId(0), {0, 1, 2, 3}, inputs_of(3, 4, 1'000), root);
      first.post_all(overlay);
      REQUIRE(overlay.run([&] { return first.is_over(); }));
      REQUIRE(first.is_right());
      overlay.restart(restarted, 77);
      REQUIRE(overlay.publish(plan));
      overlay.set_members(CollectiveId(0), {0, 1, 2, 3});
      pass(overlay, std::chrono::seconds(2));
      Sum again(CollectiveId(0), {0, 1, 2, 3}, inputs_of(4, 4, 1'000), root);
      again.timeout = std::chrono::seconds(20);
      again.post(overlay, restarted);
      REQUIRE(overlay.run([&] { return again.outcomes[restarted].has_value(); }, std::chrono::seconds(21)));
      CHECK(again.outcomes[restarted]->code() == StatusCode::kFailedPrecondition);
    }
  }
}

namespace {

template <typename T>
T one_of(std::mt19937_64& random, std::initializer_list<T> values) {
  return values.begin()[random() % values.size()];
}

// A frame that could be right, but for a field or two.
FrameHeader nearly_right(std::mt19937_64& random, bool all) {
  FrameHeader header = part(20'000, kLeast);
  if (all) {
    const bool first = random() % 2 == 0;  // shares of 3 and 4 in 7
    header.session = SessionId(first ? 1'000 : 1'004);
    header.total_bytes = first ? 8'568 : 11'432;
    header.layout = Epoch(1);
  }
  header.stream = StreamIndex(static_cast<std::uint16_t>(random() % 2));
  header.offset_bytes = random() % 3 * kLeast;
  header.stream_sequence = 1 + random() % 3;
  for (std::uint64_t changes = random() % 3; changes > 0; --changes) {
    switch (random() % 10) {
      case 0:
        header.total_bytes =
            one_of<std::uint64_t>(random, {20'001, 0, kLeast, 1ULL << 20U, 1ULL << 36U, ~0ULL, ~0ULL - 5});
        break;
      case 1:
        header.block_bytes = one_of<std::uint32_t>(random, {kLeast + 1, kLeast + 64, 0, 1, ~0U, 1U << 20U});
        break;
      case 2:
        header.attempt = to_wire({one_of<std::uint16_t>(random, {0, 1, 2, 65'535}),
                                  one_of<std::uint16_t>(random, {0, 1, 65'535})});
        break;
      case 3: header.operation = OperationId(one_of<std::uint64_t>(random, {1, 2, 1'023, ~0ULL})); break;
      case 4: header.layout = Epoch(one_of<std::uint32_t>(random, {0, 1, 2, 999})); break;
      case 5: header.element_type = one_of<std::uint8_t>(random, {0, 2, 200}); break;
      case 6: header.reduce_op = one_of<std::uint8_t>(random, {0, 200}); break;
      case 7: header.offset_bytes = one_of<std::uint64_t>(random, {1, ~0ULL, kLeast + 1}); break;
      case 8: header.stream_sequence = one_of<std::uint64_t>(random, {0, 100, ~0ULL}); break;
      default: header.incarnation = 9; break;
    }
  }
  return header;
}

void say_anything(std::mt19937_64& random, Liar& liar, std::size_t to, bool all) {
  FrameHeader header = nearly_right(random, all);
  header.type = one_of<FrameType>(random, {FrameType::kBlock, FrameType::kBlock, FrameType::kReport,
                                           FrameType::kRequest, FrameType::kProbe, FrameType::kAck});
  if (header.type == FrameType::kBlock) {
    const std::uint64_t left = header.total_bytes - std::min(header.total_bytes, header.offset_bytes);
    const std::uint64_t fitting = std::min<std::uint64_t>({header.block_bytes, left, 1U << 14U});
    return liar.say(to, header, zeros(random() % 8 == 0 ? random() % 5 : fitting));
  }
  if (header.type == FrameType::kRequest) {
    SumRequest request;
    request.number = one_of<std::uint32_t>(random, {0, 1, ~0U});
    request.first_missing = one_of<std::uint32_t>(random, {0, 0, 1, 3, 4, ~0U});
    request.bits.resize(random() % 9, true);
    for (std::uint64_t i = random() % 4; i > 0; --i) {
      request.again.push_back(
          {one_of<std::uint32_t>(random, {0, 1, 2, 3, ~0U}), one_of<std::uint16_t>(random, {1, 2, 65'535})});
    }
    return liar.answer(to, header, bytes_of(encode_request(request)));
  }
  const SumReport report{NodeId(static_cast<std::uint32_t>(random() % 5)),
                         one_of<std::uint32_t>(random, {0, 1, ~0U}), random() % 2 == 0, random() % 2 == 0,
                         one_of<std::uint32_t>(random, {0, 1, 2, 100, ~0U})};
  liar.say(to, header, bytes_of(encode_report(report)));
}

}  // namespace

TEST_CASE("a neighbour that says anything at all brings no other node down") {
  const std::uint64_t first = seed_from_environment(1);
  for (std::uint64_t seed = first; seed < first + seeds(100); ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    Overlay overlay(seed, 5);
    const bool all = random() % 2 == 0;
    const auto liars = static_cast<std::uint32_t>(1 + random() % 3);
    overlay.set_members(CollectiveId(0), {0, 1, 2, 3});
    Liar liar(overlay, liars);
    REQUIRE(overlay.publish(sum_over_a_relay(all)));
    for (std::size_t n = 0; n < 5; ++n)
      if (n != liars) liar.dial(n);
    Sum sum(CollectiveId(0), {0, 1, 2, 3}, inputs_of(seed, 4, 5'000),
            all ? std::nullopt : std::optional<std::uint32_t>(0));
    sum.timeout = std::chrono::seconds(20);
    std::vector<std::uint32_t> waiting;
    for (std::uint32_t rank = 0; rank < 4; ++rank)
      if (rank != liars) waiting.push_back(rank);
    for (std::uint64_t frames = 1 + random() % 60; frames > 0; --frames) {
      if (!waiting.empty() && random() % 8 == 0) {
        sum.post(overlay, waiting.back());
        waiting.pop_back();
      }
      const auto to = static_cast<std::size_t>(random() % 5);
      if (to == liars) continue;
      if (!liar.reaches(to)) liar.dial(to);
      say_anything(random, liar, to, all);
      if (random() % 4 == 0) pass(overlay, std::chrono::milliseconds(random() % 100));
    }
    for (const std::uint32_t rank : waiting) sum.post(overlay, rank);
    CHECK(overlay.run(
        [&] {
          for (std::uint32_t rank = 0; rank < 4; ++rank)
            if (rank != liars && !sum.outcomes[rank]) return false;
          return true;
        },
        std::chrono::seconds(22)));
  }
}
