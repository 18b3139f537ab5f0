// Spellings of addresses, and who reaches them.
#include "base/net/address.h"

#include <doctest/doctest.h>

#include <string>

using namespace square;

namespace {

// Whether this machine's resolver knows IPv4 and IPv6 at all is not asked: only addresses, and localhost.
struct Spelling {
  const char* host;
  bool is_loopback;
  bool is_wildcard;
};

constexpr Spelling kSpellings[] = {
    {"127.0.0.1", true, false},
    {"127.9.9.9", true, false},
    {"127.255.255.254", true, false},
    // What inet_aton() takes, the system takes.
    {"127.1", true, false},
    {"127.0.1", true, false},
    {"0x7f.1", true, false},
    {"0x7f000001", true, false},
    {"2130706433", true, false},
    {"0177.0.0.1", true, false},
    {"::1", true, false},
    {"0:0:0:0:0:0:0:1", true, false},
    {"::ffff:127.0.0.1", true, false},
    {"::ffff:7f00:1", true, false},
    {"localhost", true, false},
    {"0.0.0.0", false, true},
    {"0", false, true},
    {"0x0", false, true},
    {"::", false, true},
    {"0:0::0", false, true},
    {"::ffff:0.0.0.0", false, true},
    {"128.0.0.1", false, false},
    {"10.127.0.1", false, false},
    {"126.255.255.255", false, false},
    {"0127.0.0.1", false, false},  // octal: 87.0.0.1
    {"1.127", false, false},
    {"::ffff:10.0.0.1", false, false},
    {"::127.0.0.1", false, false},
    {"::2", false, false},
    {"fe80::1", false, false},
    {"127.evil.invalid", false, false},  // a name
    {"127.0.0.1.invalid", false, false},
    {"127.0.0.256", false, false},
    {"127.0.0.1 ", false, false},
    {"", false, false},
};

}  // namespace

TEST_CASE("whether other machines reach a host hangs on the host, not on its spelling") {
  for (const Spelling& spelling : kSpellings) {
    CAPTURE(spelling.host);
    const std::string host = spelling.host;
    const bool is_ipv6 = host.find(':') != std::string::npos;
    CHECK(net::is_loopback(host) == spelling.is_loopback);
    CHECK(net::is_wildcard(host) == spelling.is_wildcard);
    // With a port, and as it is parsed.
    const std::string address = (is_ipv6 ? "[" + host + "]" : host) + ":80";
    CHECK(net::is_loopback(address) == spelling.is_loopback);
    const auto parsed = net::parse_host_port(address);
    CHECK(parsed.is_ok() == !host.empty());
    if (!parsed.is_ok()) continue;
    CHECK(net::is_loopback(parsed->host) == spelling.is_loopback);
    CHECK(net::is_wildcard(parsed->host) == spelling.is_wildcard);
  }
  CHECK(net::is_loopback("[::1]"));
  CHECK_FALSE(net::is_loopback("[::1"));
  CHECK_FALSE(net::is_loopback("::1:80"));  // an address of its own
}

TEST_CASE("host:port is read and written") {
  const auto usual = [](const char* text) { return net::parse_host_port(text).value().to_string(); };
  CHECK(usual("localhost:80") == "localhost:80");
  CHECK(usual("[::1]:80") == "[::1]:80");
  CHECK(usual("node-1.example:0") == "node-1.example:0");
  CHECK(usual("127.1:65535") == "127.0.0.1:65535");
  CHECK(usual("[0:0:0:0:0:0:0:1]:7") == "[::1]:7");
  for (const char* wrong : {"", ":", "host", "host:", ":80", "host:65536", "host:99999", "host:x", "host:-1",
                            "host:+1", "::1:80", "[]:80", "host:8 ", "host: 8", "[::1]", "host:80x"}) {
    const auto parsed = net::parse_host_port(wrong);
    CHECK_MESSAGE(parsed.status().code() == StatusCode::kInvalidArgument, wrong);
    CHECK(parsed.status().message().find('"' + std::string(wrong) + '"') != std::string::npos);
  }
}
