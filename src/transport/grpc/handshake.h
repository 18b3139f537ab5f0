// What two nodes tell one another before the first frame: docs/wire.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/protocol_versions.h"
#include "square/identity.h"
#include "square/status.h"

namespace square::rpc {

inline constexpr char kMethod[] = "/square.v1.Link/Carry";
// The same handshake, without a link: who asks learns whether one would be accepted.
inline constexpr char kAskMethod[] = "/square.v1.Link/Ask";

// Keys of the call's metadata. kVersionKey is the oldest version that the caller speaks: releases that speak
// a single one accept no other. The answer of a node that accepts carries kVersionKey too, with the version
// that both speak; nothing else that speaks gRPC does.
inline constexpr char kVersionKey[] = "square-version";
inline constexpr char kNewestKey[] = "square-newest-version";
inline constexpr char kFromKey[] = "square-from";
inline constexpr char kToKey[] = "square-to";
// Of an answer to kAskMethod: who listens there.
inline constexpr char kNodeKey[] = "square-node";
// A random text that the tail draws for each link, and the channel's number in it.
inline constexpr char kLinkKey[] = "square-link";
inline constexpr char kChannelKey[] = "square-channel";
inline constexpr std::size_t kMaxLinkIdBytes = 64;

// Metadata values are ASCII. Bytes other than 0x21 to 0x7e, and '%', become %XX.
std::string percent_encode(std::string_view text);

// A node, as it meets others.
struct Self {
  std::string name;
  std::shared_ptr<Identity> identity;  // none: without TLS
};

// The value of a metadata key, empty where it is missing.
using MetadataLookup = std::function<std::string(std::string_view key)>;

// Of this process.
ProtocolVersions link_versions();
// The version that an answer carries; nothing where it is no number.
std::optional<std::uint32_t> version_of(std::string_view answered);

// Who calls, and for which channel.
struct Caller {
  std::string name;
  std::uint32_t version = 0;  // that both speak
  std::string link_id;        // may be empty: then the link has one channel
  std::size_t channel = 0;
};

// Whether `self` accepts the channel that this metadata asks for, and if so the caller.
// Errors: UNIMPLEMENTED for another method, FAILED_PRECONDITION where no version is spoken by both,
// NOT_FOUND for another node's name, INVALID_ARGUMENT.
Result<Caller> check_handshake(const Self& self, std::string_view method, const MetadataLookup& metadata);

}  // namespace square::rpc
