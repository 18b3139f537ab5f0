// Links between nodes that show one another certificates.
#include <doctest/doctest.h>

#include <string>

#include "../trust/issued.h"
#include "heard.h"
#include "raw_peer.h"
#include "recorder.h"
#include "transport/grpc/ask.h"
#include "transport/grpc/handshake.h"

using namespace square;
using namespace square::testing;
using namespace std::chrono_literals;

namespace {

GrpcTransportOptions with(std::shared_ptr<Identity> identity) {
  GrpcTransportOptions options;
  options.identity = std::move(identity);
  return options;
}

Frame large_block(std::size_t size_bytes) {
  Frame frame;
  frame.payload = Buffer::copy_of(std::vector<std::byte>(size_bytes, std::byte{0x5a}));
  return frame;
}

bool carries(Node& tail, Node& head, const std::string& from, const std::string& to) {
  const LinkHandle out = tail.open(to, head);
  if (!tail.recorder.wait_up(out)) return false;
  const auto in = head.recorder.wait_incoming(from);
  if (!in) return false;
  tail.transport->send(out, large_block(100'000));
  return head.recorder.wait(*in, [](const LinkRecord& record) { return record.received == 1; });
}

// OK where `link` comes up, else why it does not.
Status refusal_of(Node& tail, LinkHandle link) {
  const bool is_known =
      tail.recorder.wait(link, [](const LinkRecord& record) { return record.up || record.down; });
  const LinkRecord record = tail.recorder.record(link);
  if (record.up) return {};
  return is_known ? *record.down : deadline_exceeded("the link is neither up nor down");
}

// Why a link from `tail` to `name` at `head` does not come up.
Status refusal(Node& tail, Node& head, const std::string& name) {
  const LinkHandle out = tail.open(name, head);
  const Status down = tail.recorder.wait_down(out);
  CHECK_FALSE(tail.recorder.record(out).up);
  CHECK(head.recorder.link_count() == 0);
  return down;
}

}  // namespace

TEST_CASE("nodes of one authority have links, both ways, of several channels") {
  const Issuer issuer;
  Node a("a", with(issuer.node("a")));
  Node b("b", with(issuer.node("b")));
  CHECK(carries(a, b, "a", "b"));
  CHECK(carries(b, a, "b", "a"));
  const LinkHandle out = a.open("b", b);
  REQUIRE(a.recorder.wait_up(out));
  a.transport->set_channels(out, 3);
  const auto in = b.recorder.wait_incoming("a", 2);
  REQUIRE(in.has_value());
  constexpr std::size_t kFrames = 100;
  for (std::size_t i = 0; i < kFrames; ++i) a.transport->send(out, large_block(50'000));
  CHECK(b.recorder.wait(*in, [](const LinkRecord& record) { return record.received == kFrames; }));
}

TEST_CASE("a node is believed to be who its certificate names, and nobody else") {
  const Issuer issuer;
  Node b("b", with(issuer.node("b")));
  Heard heard;
  // What it calls itself is its own affair in the options of a forger: it is spoken by hand here.
  const auto mallory = issuer.node("mallory");
  RawPeer forged(
      b.transport->address(),
      {{"square-version", std::to_string(kProtocolVersion)}, {"square-from", "a"}, {"square-to", "b"}},
      rpc::kMethod, mallory);
  const grpc::Status refused = forged.finish();
  CHECK(refused.error_code() == grpc::StatusCode::PERMISSION_DENIED);
  CHECK(refused.error_message().find("spiffe://square.test/node/mallory") != std::string::npos);
  CHECK(b.recorder.link_count() == 0);
  CHECK(heard.has("refused a link from ipv4:127.0.0.1:"));
  CHECK(heard.has("(spiffe://square.test/node/mallory)"));
  // And it does not pass for the node that is dialled.
  Node a("a", with(issuer.node("a")));
  Node listening("mallory", with(mallory));
  const Status down = refusal(a, listening, "b");
  CHECK(down.message().find("spiffe://square.test/node/mallory") != std::string::npos);
  CHECK(make_grpc_transport({.node_name = "a", .identity = mallory}).status().code() ==
        StatusCode::kInvalidArgument);
}

TEST_CASE("strangers are refused: of another authority, without a certificate, without TLS") {
  const Issuer issuer;
  const Issuer other;
  Node b("b", with(issuer.node("b")));
  Node stranger("a", with(other.node("a")));
  Node unknown("a", with(Identity::make_own().value()));
  Node plain("a");
  for (Node* tail : {&stranger, &unknown, &plain})
    CHECK(refusal(*tail, b, "b").code() == StatusCode::kUnavailable);
  Node open("c");
  Node a("a", with(issuer.node("a")));
  CHECK(refusal(a, open, "c").code() == StatusCode::kUnavailable);
}

TEST_CASE("identities of their own have links once each was told the other's fingerprint") {
  const auto of_a = Identity::make_own().value();
  const auto of_b = Identity::make_own().value();
  Node a("a", with(of_a));
  Node b("b", with(of_b));
  REQUIRE(of_a->believe({of_b->fingerprint()}).is_ok());
  CHECK_FALSE(refusal(a, b, "b").is_ok());
  REQUIRE(of_b->believe({of_a->fingerprint()}).is_ok());
  CHECK(carries(a, b, "a", "b"));
}

TEST_CASE(
    "a link ends with the word that its peer's certificate was revoked, and comes up with a newer one") {
  const Issuer issuer;
  const auto of_b = issuer.node("b");
  Node a("a", with(issuer.node("a")));
  Node c("c", with(issuer.node("c")));
  Node b("b", with(of_b));
  const LinkHandle out = a.open("b", b);
  const LinkHandle other = c.open("b", b);
  REQUIRE(a.recorder.wait_up(out));
  REQUIRE(c.recorder.wait_up(other));
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  of_b->set_revoked({{Role::kNode, "a", now + 1}});
  b.transport->recheck_peers();
  CHECK_FALSE(a.recorder.wait_down(out).is_ok());
  const Status again = a.recorder.wait_down(a.open("b", b));
  CHECK_FALSE(again.is_ok());
  CHECK_FALSE(c.recorder.record(other).down.has_value());
}

TEST_CASE("certificates that are replaced are shown by new connections, and no link ends") {
  const Issuer issuer;
  const auto of_b = issuer.node("b");
  Node a("a", with(issuer.node("a")));
  Node b("b", with(of_b));
  const LinkHandle out = a.open("b", b);
  REQUIRE(a.recorder.wait_up(out));
  std::this_thread::sleep_for(1100ms);
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  issuer.issue(Role::kNode, "a");
  issuer.issue(Role::kNode, "b");
  // From here on only the new one of `a` will do. gRPC looks at the files once in a kWatchInterval, from a
  // thread that a busy machine may keep waiting.
  of_b->set_revoked({{Role::kNode, "a", now}});
  const auto last_try = std::chrono::steady_clock::now() + kPatience;
  Status refused = refusal_of(a, a.open("b", b));
  while (!refused.is_ok() && std::chrono::steady_clock::now() < last_try) {
    std::this_thread::sleep_for(100ms);
    refused = refusal_of(a, a.open("b", b));
  }
  CHECK_MESSAGE(refused.is_ok(), refused.to_string());
  CHECK_FALSE(a.recorder.record(out).down.has_value());
}

TEST_CASE("asked: a stranger is told from a node that would accept a link") {
  const Issuer issuer;
  const Issuer other;
  Node b("b", with(issuer.node("b")));
  const std::atomic<bool> is_cancelled = false;
  const auto reach = [&](const rpc::Self& self) {
    return rpc::ask_all(self, {{"b", b.transport->address()}}, kPatience, is_cancelled).front().reach;
  };
  CHECK(reach({"a", issuer.node("a")}) == rpc::Reach::kReached);
  CHECK(reach({"a", other.node("a")}) == rpc::Reach::kStranger);
  CHECK(reach({"a", nullptr}) != rpc::Reach::kReached);
}
