// What is told of an address, without a link.
#include "transport/grpc/ask.h"

#include <doctest/doctest.h>

#include "base/net/socket.h"
#include "recorder.h"

using namespace square;
using namespace square::testing;
using rpc::Asked;
using rpc::Reach;

namespace {

Asked ask(const rpc::Self& self, const rpc::AskedNode& node) {
  const std::atomic<bool> is_cancelled = false;
  std::vector<Asked> answers = rpc::ask_all(self, {node}, kPatience, is_cancelled);
  REQUIRE(answers.size() == 1);
  return answers.front();
}

Asked ask(const std::string& name, const std::string& address) {
  return ask({"a", nullptr}, {name, address});
}

}  // namespace

TEST_CASE("asked: a node says who it is, and has no link of it") {
  Node b("b");
  const Asked there = ask("b", b.transport->address());
  CHECK(there.reach == Reach::kReached);
  CHECK(there.node == "b");
  CHECK(there.at == b.transport->address());
  CHECK(there.round_trip.has_value());
  CHECK_FALSE(there.congestion.empty());
  const Asked other = ask("c", b.transport->address());
  CHECK(other.reach == Reach::kOtherNode);
  CHECK(other.node == "b");
  CHECK(b.recorder.link_count() == 0);
}

TEST_CASE("asked: a port that is closed, a name that nobody knows, a program that is silent") {
  const auto nobody = net::listen_on({"127.0.0.1", 0}, 1);
  REQUIRE(nobody.is_ok());
  const std::string silent = nobody->address.to_string();
  std::string closed;
  {
    const auto gone = net::listen_on({"127.0.0.1", 0}, 1);
    REQUIRE(gone.is_ok());
    closed = gone->address.to_string();
  }
  const std::atomic<bool> is_cancelled = false;
  const auto answers = rpc::ask_all(
      {"a", nullptr}, {{"b", closed}, {"c", "no-such-host.invalid:1"}, {"d", silent}, {"e", "nonsense"}},
      kPatience, is_cancelled);
  REQUIRE(answers.size() == 4);
  CHECK(answers[0].reach == Reach::kRefused);
  CHECK(answers[1].reach == Reach::kUnresolved);
  CHECK(answers[2].reach == Reach::kSilent);
  CHECK(answers[2].at == silent);
  CHECK(answers[3].reach == Reach::kOther);
}

TEST_CASE("asked: who cancels, or has no time, is not kept waiting") {
  const auto silent = net::listen_on({"127.0.0.1", 0}, 1);
  REQUIRE(silent.is_ok());
  const std::vector<rpc::AskedNode> many(2 * rpc::kMaxAsksAtOnce, {"b", silent->address.to_string()});
  const std::atomic<bool> is_cancelled = true;
  for (const Asked& asked : rpc::ask_all({"a", nullptr}, many, kPatience, is_cancelled)) {
    CHECK(asked.reach == Reach::kUnfinished);
  }
  const std::atomic<bool> goes_on = false;
  for (const Asked& asked : rpc::ask_all({"a", nullptr}, many, std::chrono::milliseconds(50), goes_on)) {
    CHECK(asked.reach == Reach::kUnfinished);
  }
}
