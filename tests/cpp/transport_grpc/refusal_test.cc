// Who is not let in, what they are told, and what a broken peer cannot do.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "base/net/address.h"
#include "base/net/percent.h"
#include "raw_peer.h"
#include "recorder.h"
#include "transport/grpc/handshake.h"
#include "transport/grpc/limits.h"

using namespace square;
using namespace square::testing;
using namespace std::chrono_literals;

namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::string version() { return std::to_string(kProtocolVersion); }

RawPeer::Metadata greeting(const std::string& from, const std::string& to) {
  return {{"square-version", version()}, {"square-from", from}, {"square-to", to}};
}

Status option_error(GrpcTransportOptions options) {
  if (options.node_name.empty()) options.node_name = "a";
  const auto made = make_grpc_transport(std::move(options));
  return made.is_ok() ? Status::ok() : made.status();
}

// A socket on the loopback that takes connections and never says a word.
class SilentServer {
 public:
  SilentServer() : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    REQUIRE(bind(socket_, reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(listen(socket_, 8) == 0);
    REQUIRE(getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port_ = ntohs(address.sin_port);
  }
  ~SilentServer() { close(socket_); }
  [[nodiscard]] std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  int socket_;
  int port_ = 0;
};

}  // namespace

TEST_CASE("names of any bytes reach the other end") {
  const std::string name = "m\u00fcnchen 1%\n\x01";
  Node tail(name), head("stra\u00dfe");
  const LinkHandle out = tail.open("stra\u00dfe", head);
  REQUIRE(tail.recorder.wait_up(out));
  CHECK(tail.recorder.record(out).peer == "stra\u00dfe");
  CHECK(tail.recorder.record(out).end == LinkEnd::kTail);
  CHECK(head.recorder.wait_incoming(name).has_value());
  CHECK(net::percent_decode(rpc::percent_encode(name)).value() == name);
  CHECK(rpc::percent_encode("a%\n") == "a%25%0A");
  CHECK_FALSE(net::percent_decode("%4").is_ok());
  CHECK_FALSE(net::percent_decode("%G0").is_ok());
}

TEST_CASE("another version is refused by name") {
  Node node("b");
  RawPeer::Metadata metadata = greeting("a", "b");
  const std::string other = std::to_string(kProtocolVersion + 1);
  metadata["square-version"] = other;
  RawPeer peer(node.transport->address(), metadata);
  const grpc::Status status = peer.finish();
  CHECK(status.error_code() == grpc::StatusCode::FAILED_PRECONDITION);
  CHECK(contains(status.error_message(), "the peer speaks Square protocol " + other + ", node \"b\" " +
                                             to_string(rpc::link_versions()) + "; upgrade node \"b\""));
  metadata["square-version"] = std::to_string(kOldestProtocol - 1);
  RawPeer old(node.transport->address(), metadata);
  CHECK(contains(old.finish().error_message(), "; upgrade the peer"));
  metadata["square-version"] = version();
  metadata["square-newest-version"] = "the newest";
  RawPeer odd(node.transport->address(), metadata);
  CHECK(contains(odd.finish().error_message(), "square-newest-version \"the newest\""));
  RawPeer mute(node.transport->address(), {});
  CHECK(mute.finish().error_code() == grpc::StatusCode::FAILED_PRECONDITION);
  CHECK(node.recorder.link_count() == 0);
}

TEST_CASE("a link speaks the lower of the newest versions of its ends") {
  Node node("b");
  const auto spoken = [&](std::uint32_t oldest, const std::string& newest) {
    RawPeer::Metadata metadata = greeting("a", "b");
    metadata["square-version"] = std::to_string(oldest);
    if (!newest.empty()) metadata["square-newest-version"] = newest;
    const RawPeer peer(node.transport->address(), metadata);
    return peer.answered("square-version");
  };
  CHECK(spoken(kOldestProtocol, "") == std::to_string(kOldestProtocol));
  CHECK(spoken(kOldestProtocol, version()) == version());
  CHECK(spoken(kProtocolVersion, std::to_string(kProtocolVersion + 1)) == version());
  CHECK(spoken(kOldestProtocol - 1, std::to_string(kOldestProtocol)) == std::to_string(kOldestProtocol));
}

TEST_CASE("another node's name at this address is refused") {
  Node tail("a"), head("b");
  const LinkHandle link = tail.open("c", head);
  const Status down = tail.recorder.wait_down(link);
  CHECK(down.code() == StatusCode::kNotFound);
  CHECK(contains(down.message(), "no node \"c\" at this address, this is node \"b\""));
  CHECK_FALSE(tail.recorder.record(link).up);
  CHECK(head.recorder.link_count() == 0);
}

TEST_CASE("other methods and callers without a name are refused") {
  Node node("b");
  RawPeer other(node.transport->address(), greeting("a", "b"), "/square.v1.Link/Fetch");
  CHECK(other.finish().error_code() == grpc::StatusCode::UNIMPLEMENTED);
  RawPeer nameless(node.transport->address(), {{"square-version", version()}, {"square-to", "b"}});
  CHECK(nameless.finish().error_code() == grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_CASE("nobody at the address: told in bounded time, by name") {
  Node node("a");
  std::string closed_port;
  { closed_port = SilentServer().address(); }
  const LinkHandle closed = node.transport->open_link("b", closed_port);
  const Status refused = node.recorder.wait_down(closed, 1s);
  CHECK_MESSAGE(refused.code() == StatusCode::kNotFound, refused.to_string());  // as its host says
  CHECK(contains(refused.message(), "cannot reach node \"b\" at " + closed_port));
  CHECK(contains(refused.message(), "is it running?"));

  const SilentServer silent;
  const auto begin = std::chrono::steady_clock::now();
  const LinkHandle mute = node.transport->open_link("b", silent.address());
  const Status unanswered = node.recorder.wait_down(mute);
  CHECK(unanswered.code() == StatusCode::kUnavailable);
  CHECK(contains(unanswered.message(), "cannot reach node \"b\" at " + silent.address()));
  CHECK(std::chrono::steady_clock::now() - begin < rpc::kConnectDeadline + rpc::kHandshakeDeadline + 1s);

  const Status nonsense = node.recorder.wait_down(node.transport->open_link("b", "no such host.invalid:1"));
  CHECK(nonsense.code() == StatusCode::kUnavailable);
}

TEST_CASE("a peer is dialled by name, and an unknown name is told") {
  Node a("a"), b("b");
  const std::string address = b.transport->address();
  const LinkHandle known = a.transport->open_link("b", "localhost" + address.substr(address.rfind(':')));
  CHECK(a.recorder.wait_up(known));
  const LinkHandle unknown = a.transport->open_link("c", "nowhere.invalid:4711");
  const Status reason = a.recorder.wait_down(unknown);
  CHECK(reason.code() == StatusCode::kUnavailable);
  CHECK(reason.message().find("nowhere.invalid:4711") != std::string::npos);
}

TEST_CASE("names beyond a bound are refused, and a link by name that is closed goes at once") {
  Node a("a");
  std::vector<LinkHandle> links;
  for (int i = 0; i < 3 * rpc::kMaxNameDials; ++i) {
    links.push_back(a.transport->open_link("c", "name-" + std::to_string(i) + ".invalid:4711"));
  }
  for (const LinkHandle link : links) a.transport->close_link(link);
  for (const LinkHandle link : links) CHECK_FALSE(a.recorder.wait_down(link).is_ok());
}

TEST_CASE("garbage closes its link with DATA_LOSS and leaves others alone") {
  Node tail("a"), head("b");
  const LinkHandle good = tail.open("b", head);
  REQUIRE(tail.recorder.wait_up(good));
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 10; ++round) {
    const std::string name = "villain-" + std::to_string(round);
    RawPeer peer(head.transport->address(), greeting(name, "b"));
    REQUIRE(peer.was_accepted());
    std::vector<std::byte> garbage(round == 0 ? 0 : random() % 5000);
    for (std::byte& byte : garbage) byte = static_cast<std::byte>(random());
    peer.write(garbage);
    const auto in = head.recorder.wait_incoming(name);
    REQUIRE(in.has_value());
    const Status down = head.recorder.wait_down(*in);
    CHECK(down.code() == StatusCode::kDataLoss);
    CHECK(contains(down.message(), name));
    CHECK(head.recorder.record(*in).received == 0);
    CHECK(peer.finish().error_code() == grpc::StatusCode::DATA_LOSS);
  }
  tail.transport->send(good, block(1));
  const auto in = head.recorder.wait_incoming("a");
  REQUIRE(in.has_value());
  CHECK(head.recorder.wait(*in, [](const LinkRecord& record) { return record.received == 1; }));
}

TEST_CASE("a frame damaged after its checksum was taken is not delivered") {
  Node head("b");
  RawPeer peer(head.transport->address(), greeting("a", "b"));
  Frame frame = block(1, CountedPayload(1000).take());
  const auto header = encode_header(frame);
  std::vector<std::byte> bytes(header.begin(), header.end());
  bytes.resize(header.size() + 1000, std::byte{0x42});
  REQUIRE(peer.write(bytes));
  bytes.back() ^= std::byte{1};
  peer.write(bytes);
  const auto in = head.recorder.wait_incoming("a");
  REQUIRE(in.has_value());
  CHECK(head.recorder.wait_down(*in).code() == StatusCode::kDataLoss);
  CHECK(head.recorder.record(*in).received == 1);
}

TEST_CASE("a message past the largest frame ends its link and leaves others alone") {
  Node tail("a"), head("b");
  const LinkHandle good = tail.open("b", head);
  REQUIRE(tail.recorder.wait_up(good));
  RawPeer peer(head.transport->address(), greeting("glutton", "b"));
  REQUIRE(peer.was_accepted());
  peer.write(std::vector<std::byte>(kMaxFrameBytes + 1));
  const auto in = head.recorder.wait_incoming("glutton");
  REQUIRE(in.has_value());
  CHECK_FALSE(head.recorder.wait_down(*in).is_ok());
  CHECK(head.recorder.record(*in).received == 0);
  MESSAGE(head.recorder.wait_down(*in).to_string());
  const grpc::Status verdict = peer.finish();
  MESSAGE(verdict.error_code() << " " << verdict.error_message());
  CHECK_FALSE(verdict.ok());
  tail.transport->send(good, block(1, CountedPayload(kMaxPayloadBytes).take()));
  const auto fine = head.recorder.wait_incoming("a");
  REQUIRE(fine.has_value());
  CHECK(head.recorder.wait(*fine, [](const LinkRecord& record) { return record.received == 1; }));
}

TEST_CASE("options that cannot work are refused by name") {
  CHECK(contains(option_error({.bind_address = "0.0.0.0:0"}).message(), "identity"));
  CHECK(contains(option_error({.bind_address = "10.1.2.3:0"}).message(), "identity"));
  CHECK(contains(option_error({.bind_address = "0.0.0.0:0", .insecure = true}).message(),
                 "advertised_address"));
  CHECK(contains(option_error({.bind_address = "127.0.0.1"}).message(), "bind_address"));
  CHECK(contains(option_error({.bind_address = "127.0.0.1:65536"}).message(), "65535"));
  CHECK(contains(option_error({.bind_address = "::1:5"}).message(), "brackets"));
  CHECK(contains(option_error({.advertised_address = "x"}).message(), "advertised_address"));
  CHECK(contains(option_error({.threads = 0}).message(), "threads"));
  CHECK(contains(option_error({.memory_quota_bytes = 1}).message(), "memory_quota_bytes"));
  CHECK(contains(option_error({.node_name = std::string(2000, 'x')}).message(), "node_name"));
  CHECK(option_error({.bind_address = "[::1]:0"}).is_ok());
  CHECK(option_error({.bind_address = "localhost:0"}).is_ok());
  CHECK(option_error({.bind_address = "0.0.0.0:0", .advertised_address = "node.example:0", .insecure = true})
            .is_ok());
}

TEST_CASE("a port in use is UNAVAILABLE, with the address") {
  Node first("a");
  GrpcTransportOptions options;
  options.node_name = "b";
  options.bind_address = first.transport->address();
  auto second = make_grpc_transport(options);
  REQUIRE(second.is_ok());
  Recorder recorder;
  const Status status = (*second)->start(recorder);
  CHECK(status.code() == StatusCode::kUnavailable);
  CHECK(contains(status.message(), first.transport->address()));
  CHECK(contains(status.message(), "in use"));
  (*second)->stop();
}

TEST_CASE("the advertised address takes the bound port where it names none") {
  GrpcTransportOptions options;
  options.advertised_address = "node.example:0";
  Node node("a", options);
  const auto address = net::parse_host_port(node.transport->address());
  REQUIRE(address.is_ok());
  CHECK(node.transport->address().starts_with("node.example:"));
  CHECK(node.transport->address() != "node.example:0");
}
