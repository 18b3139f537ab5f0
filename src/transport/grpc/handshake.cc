#include "transport/grpc/handshake.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>

#include "base/check.h"
#include "base/net/percent.h"
#include "square/grpc_transport.h"
#include "square/transport.h"

namespace square::rpc {
namespace {

// Enough of a stranger's text for a message.
constexpr std::size_t kMaxQuotedBytes = 100;

std::string_view quoted(std::string_view text) { return text.substr(0, kMaxQuotedBytes); }

Result<std::size_t> channel_number(std::string_view text) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  if (!text.empty() && (!is_number || number >= kMaxChannels)) {
    return invalid_argument(
        fmt::format("{} is \"{}\", not a number under {}", kChannelKey, quoted(text), kMaxChannels));
  }
  return number;
}

Result<std::uint32_t> agree(const Self& self, const MetadataLookup& metadata) {
  const std::string oldest = metadata(kVersionKey);
  const std::string newest = metadata(kNewestKey);
  const std::optional<std::uint32_t> first = version_of(oldest);
  const std::optional<std::uint32_t> last = newest.empty() ? first : version_of(newest);
  const std::string name = fmt::format("node \"{}\"", self.name);
  if (!first || !last) {
    return failed_precondition(fmt::format(
        "the peer names no version of Square's protocol: {} is \"{}\", {} \"{}\"; "
        "{} speaks {}",
        kVersionKey, quoted(oldest), kNewestKey, quoted(newest), name, to_string(link_versions())));
  }
  return agree_on_version("Square protocol", {"the peer", versions_said(*first, *last)},
                          {name, link_versions()});
}

}  // namespace

ProtocolVersions link_versions() { return versions_of_release(kOldestProtocol, kProtocolVersion); }

std::optional<std::uint32_t> version_of(std::string_view answered) {
  std::uint32_t version = 0;
  const auto [end, error] = std::from_chars(answered.data(), answered.data() + answered.size(), version);
  if (error != std::errc() || end != answered.data() + answered.size()) return std::nullopt;
  return version;
}

std::string percent_encode(std::string_view text) {
  return net::percent_encode(text, [](char c) { return c > 0x20 && c < 0x7f; });
}

Result<Caller> check_handshake(const Self& self, std::string_view method, const MetadataLookup& metadata) {
  if (method != kMethod && method != kAskMethod) {
    return Status(StatusCode::kUnimplemented,
                  fmt::format("node \"{}\" serves {} only, not {}", self.name, kMethod, quoted(method)));
  }
  SQUARE_ASSIGN_OR_RETURN(const std::uint32_t version, agree(self, metadata));
  auto to = net::percent_decode(metadata(kToKey));
  if (!to.is_ok()) return to.status().with_context(kToKey);
  if (*to != self.name) {
    return not_found(
        fmt::format("there is no node \"{}\" at this address, this is node \"{}\"; check the "
                    "address that \"{}\" advertises",
                    quoted(*to), self.name, quoted(*to)));
  }
  auto from = net::percent_decode(metadata(kFromKey));
  if (!from.is_ok()) return from.status().with_context(kFromKey);
  if (from->empty() || from->size() > kMaxNameBytes) {
    return invalid_argument(fmt::format("{} holds a name of {} bytes, allowed are 1 to {}", kFromKey,
                                        from->size(), kMaxNameBytes));
  }
  Caller caller{*std::move(from), version, metadata(kLinkKey), 0};
  if (caller.link_id.size() > kMaxLinkIdBytes) {
    return invalid_argument(
        fmt::format("{} has {} bytes, the limit is {}", kLinkKey, caller.link_id.size(), kMaxLinkIdBytes));
  }
  SQUARE_ASSIGN_OR_RETURN(caller.channel, channel_number(metadata(kChannelKey)));
  if (caller.channel > 0 && caller.link_id.empty()) {
    return invalid_argument(fmt::format("{} needs {}", kChannelKey, kLinkKey));
  }
  return caller;
}

}  // namespace square::rpc
