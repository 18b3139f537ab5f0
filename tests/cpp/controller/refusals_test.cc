// Who is dialled because nobody hears of it: hosts that do not answer hold up nobody else.
#include "controller/refusals.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <future>
#include <vector>

#include "base/net/socket.h"

using namespace square;
using namespace square::controller;

namespace {

// Connections to it are neither taken nor refused.
class SilentHost {
 public:
  SilentHost() {
    while (true) {
      auto reached = net::connect_to(*net::parse_host_port(address()), kRefusalTime);
      if (!reached.is_ok()) break;
      waiting_.push_back(*std::move(reached));
      REQUIRE(waiting_.size() < 64);
    }
  }
  [[nodiscard]] std::string address() const { return listener_.address.to_string(); }

 private:
  net::Listener listener_ = *net::listen_on(*net::parse_host_port("127.0.0.1:0"), 0);
  std::vector<net::FileDescriptor> waiting_;
};

std::string dead_address() {
  const auto listener = net::listen_on(*net::parse_host_port("127.0.0.1:0"), 1);
  return listener->address.to_string();
}

}  // namespace

TEST_CASE("a process that is no more is found soon, however many hosts do not answer") {
  const SilentHost silent;
  std::map<std::string, std::string> addresses{{"z", dead_address()}};
  // One after another they take 15 s a round.
  for (int i = 0; i < 60; ++i) addresses[fmt::format("silent {}", i)] = silent.address();
  std::promise<std::string> found;
  std::promise<void> found_again;
  auto first = found.get_future();
  auto second = found_again.get_future();
  int times = 0;
  Refusals refusals([&](const std::string& node, const std::string&) {
    if (++times == 1) found.set_value(node);
    if (times == 2) found_again.set_value();
  });
  refusals.watch(addresses);
  REQUIRE(first.wait_for(std::chrono::seconds(14)) == std::future_status::ready);
  CHECK(first.get() == "z");
  CHECK(second.wait_for(std::chrono::seconds(14)) == std::future_status::ready);
  const auto begun = std::chrono::steady_clock::now();
  refusals.stop();
  CHECK(std::chrono::steady_clock::now() - begun < std::chrono::seconds(10));
}
