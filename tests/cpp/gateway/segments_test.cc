// Whose memory a gateway believes in: a process that speaks the protocol by hand, and one that
// writes where it should not.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/net/socket.h"
#include "controller/protocol.h"
#include "gateway/local_socket.h"
#include "gateway/message_socket.h"
#include "gateway/messages.h"
#include "gateway/segment.h"
#include "gateway/site.h"

using namespace square;
using namespace square::gateway;
using testing::join;
using testing::kLimit;
using testing::Site;

namespace {

constexpr std::size_t kBytes = 1000;

// An attachment that says whatever the test wants.
class Liar {
 public:
  explicit Liar(const std::string& address) : socket_(connect_local(address, kLimit).value()) {
    const timeval limit{20, 0};
    REQUIRE(setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    const int flags = fcntl(socket_.get(), F_GETFL);
    REQUIRE(fcntl(socket_.get(), F_SETFL, flags & ~O_NONBLOCK) == 0);
    const Segment probe = make_sealed_segment({}).value();
    v1::GatewayHello hello;
    hello.set_protocol_version(kGatewayProtocolVersion);
    hello.mutable_probe()->set_nonce(probe.nonce);
    say(MessageType::kHello, 0, hello, {probe.descriptor.get()});
    v1::GatewayWelcome welcome;
    REQUIRE(hear(welcome) == MessageType::kWelcome);
    REQUIRE(welcome.shared_memory());
  }

  void say(MessageType type, std::uint64_t number, const google::protobuf::MessageLite& message,
           const std::vector<int>& descriptors = {}) {
    const std::string body = body_of(message);
    const auto bytes = std::as_bytes(std::span(body));
    const HeaderBytes header =
        encode_header({type, number, 0, static_cast<std::uint32_t>(body.size())}, bytes);
    // At once: who is sent away for its descriptors could not send the rest.
    REQUIRE(send_with(header, body, descriptors) == static_cast<ssize_t>(kHeaderBytes + body.size()));
  }

  // Whether the other end has closed the connection.
  [[nodiscard]] bool is_sent_away() {
    std::array<char, 4096> bytes{};
    while (true) {
      const ssize_t got = recv(socket_.get(), bytes.data(), bytes.size(), 0);
      if (got <= 0) return got == 0 || errno == ECONNRESET;
    }
  }

  // The type of the next message; heartbeats aside.
  MessageType hear(google::protobuf::MessageLite& message) {
    while (true) {
      HeaderBytes bytes{};
      REQUIRE(recv(socket_.get(), bytes.data(), bytes.size(), MSG_WAITALL) == kHeaderBytes);
      const auto header = decode_header(bytes);
      REQUIRE(header.is_ok());
      std::string body(header->body_bytes, '\0');
      if (!body.empty()) {
        REQUIRE(recv(socket_.get(), body.data(), body.size(), MSG_WAITALL) ==
                static_cast<ssize_t>(body.size()));
      }
      if (header->type == MessageType::kHeartbeat) continue;
      if (header->type != MessageType::kAdmitted) REQUIRE(message.ParseFromString(body));
      return header->type;
    }
  }

 private:
  ssize_t send_with(HeaderBytes header, std::string body, const std::vector<int>& descriptors) {
    std::array<iovec, 2> pieces{{{header.data(), header.size()}, {body.data(), body.size()}}};
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = pieces.size();
    const std::size_t bytes = descriptors.size() * sizeof(int);
    std::vector<std::max_align_t> control(CMSG_SPACE(bytes) / sizeof(std::max_align_t) + 1);
    if (bytes > 0) {
      message.msg_control = control.data();
      message.msg_controllen = CMSG_SPACE(bytes);
      cmsghdr* const part = CMSG_FIRSTHDR(&message);
      part->cmsg_level = SOL_SOCKET;
      part->cmsg_type = SCM_RIGHTS;
      part->cmsg_len = CMSG_LEN(bytes);
      std::memcpy(CMSG_DATA(part), descriptors.data(), bytes);
    }
    return sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
  }

  FileDescriptor socket_;
};

std::ptrdiff_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

// Rank 0, the root, broadcasts from `input`. Returns how that ends, if it is not cancelled first.
Status broadcast_from(const Site& site, const std::string& nodes_of_ranks, const Segment& input,
                      bool cancels = false, bool brings = true) {
  Liar liar(site.gateways[0]->socket_path());
  GroupSpec group{"group on " + nodes_of_ranks, "alice", {}, {{CollectiveOp::kBroadcast, Rank(0), 1.0, 0}}};
  for (const char node : nodes_of_ranks) group.nodes.emplace_back(1, node);
  v1::GatewayRegister wanted;
  *wanted.mutable_group() = controller::to_message(group);
  wanted.set_timeout_nanoseconds(to_nanoseconds(kLimit));
  liar.say(MessageType::kRegister, 1, wanted);
  v1::GatewayRegistered registered;
  REQUIRE(liar.hear(registered) == MessageType::kRegistered);
  REQUIRE(registered.group().collectives_size() == 1);
  v1::GatewayPost post;
  post.set_collective(registered.group().collectives(0));
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
