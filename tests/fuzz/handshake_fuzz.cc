// What a peer says before a link carries anything, and addresses: whatever the bytes, a value or an error.
// libFuzzer; `make fuzz` runs it over tests/fuzz/corpus/handshake.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/net/address.h"
#include "base/net/percent.h"
#include "square/transport.h"
#include "transport/grpc/handshake.h"

namespace {

using namespace square;

void require(bool holds) {
  if (!holds) std::abort();
}

void decode(std::string_view text) {
  const auto decoded = net::percent_decode(text);
  if (decoded.is_ok()) require(net::percent_decode(rpc::percent_encode(*decoded)).value() == *decoded);
  const std::string encoded = rpc::percent_encode(text);
  require(net::percent_decode(encoded).value() == text);
}

void parse_address(std::string_view text) {
  const auto address = net::parse_host_port(text);
  (void)net::is_wildcard(text);
  if (!address.is_ok()) return;
  const auto again = net::parse_host_port(address->to_string());
  require(again.is_ok() && again->host == address->host && again->port == address->port);
}

// One line for each key; "@" in the place of a version is the right one.
void shake_hands(std::string_view text) {
  const auto metadata = [text](std::string_view key) -> std::string {
    for (std::size_t at = 0; at < text.size();) {
      const std::string_view line = text.substr(at, text.find('\n', at) - at);
      at += line.size() + 1;
      if (line.size() <= key.size() || !line.starts_with(key) || line[key.size()] != '=') continue;
      const std::string value(line.substr(key.size() + 1));
      const bool is_version = key == rpc::kVersionKey || key == rpc::kNewestKey;
      return is_version && value == "@" ? std::to_string(kProtocolVersion) : value;
    }
    return "";
  };
  const auto caller = rpc::check_handshake({"b", nullptr}, rpc::kMethod, metadata);
  if (!caller.is_ok()) return require(!caller.status().message().empty());
  require(!caller->name.empty() && caller->link_id.size() <= rpc::kMaxLinkIdBytes);
  require(caller->channel == 0 || !caller->link_id.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 3) {
    case 0: decode(text); break;
    case 1: parse_address(text); break;
    default: shake_hands(text); break;
  }
  return 0;
}
