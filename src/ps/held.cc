#include "ps/held.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "base/check.h"
#include "ps/layout.h"

namespace square::ps {
namespace {

Status check_name(std::string_view name) {
  if (!name.empty() && name.size() <= kMaxMemberNameBytes) return {};
  return invalid_argument(
      fmt::format("a name of {} bytes: a member's has 1 to {}", name.size(), kMaxMemberNameBytes));
}

Status check_layout(const v1::PsLayout& layout, std::uint64_t elements) {
  if (static_cast<std::size_t>(layout.shards_size()) > kMaxMembers) {
    return invalid_argument(
        fmt::format("a layout of {} shards: at most {} may be", layout.shards_size(), kMaxMembers));
  }
  std::set<std::string_view> servers;
  std::uint64_t end = 0;
  for (const v1::PsShard& shard : layout.shards()) {
    SQUARE_RETURN_IF_ERROR(check_name(shard.server()));
    if (!servers.insert(shard.server()).second) {
      return invalid_argument(fmt::format("a layout with two shards of server \"{}\"", shard.server()));
    }
    if (shard.begin() != end || shard.end() < end) {
      return invalid_argument(fmt::format("a shard from element {} to before {} behind one that ends at {}",
                                          shard.begin(), shard.end(), end));
    }
    end = shard.end();
  }
  if (!servers.empty() && end == elements) return {};
  return invalid_argument(
      fmt::format("a layout of {} elements for a model of {}", servers.empty() ? 0 : end, elements));
}

Status check_moves(const v1::PsRecord& record) {
  std::uint64_t before = 0;
  for (const std::uint64_t version : record.moves()) {
    if (version <= before || version > record.version()) {
      return invalid_argument(fmt::format("version {} with a move at version {}", record.version(), version));
    }
    before = version;
  }
  if (record.moves_size() <= kMostMoves) return {};
  return invalid_argument(
      fmt::format("a version with {} moves: at most {} may be", record.moves_size(), kMostMoves));
}

Status check_chunks(const v1::PsRecord& record) {
  std::uint64_t end = 0;
  for (const v1::PsRange& range : record.chunks_done()) {
    if (range.begin() < end || range.end() <= range.begin() || range.end() > kMaxChunks) {
      return invalid_argument(
          fmt::format("chunks {} to before {} behind those that end at {}", range.begin(), range.end(), end));
    }
    end = range.end();
  }
  return {};
}

Status check_server(const std::string& name, const v1::PsServerHello& hello) {
  if (hello.held().empty() && hello.model().tensors().empty()) return {};
  if (hello.held_size() > kMaxHeldVersions) {
    return invalid_argument(fmt::format("a server with {} versions: at most {} may be said",
                                        hello.held_size(), kMaxHeldVersions));
  }
  SQUARE_RETURN_IF_ERROR(check_model(hello.model()));
  for (const v1::PsHeld& held : hello.held()) {
    const Status good = check_record(held.record(), hello.model());
    if (!good.is_ok()) return good.with_context(fmt::format("snapshots of server \"{}\"", name));
  }
  return {};
}

bool is_move(const v1::PsRecord& record) {
  return !record.moves().empty() && *record.moves().rbegin() == record.version();
}

}  // namespace

Status check_record(const v1::PsRecord& record, const v1::PsModel& model) {
  if (record.version() == 0 || record.version() > kMaxVersion) {
    return invalid_argument(fmt::format("version {}: a version is 1 to {}", record.version(), kMaxVersion));
  }
  SQUARE_RETURN_IF_ERROR(check_layout(record.layout(), elements_of(model)));
  SQUARE_RETURN_IF_ERROR(check_moves(record));
  return check_chunks(record);
}

Status check_hello(const v1::PsHello& hello) {
  const ProtocolVersions said = versions_said(hello.protocol_version(), hello.newest_version());
  SQUARE_RETURN_IF_ERROR(agree_on_version("the parameter servers' protocol", {"the member", said},
                                          {"the master", parameter_server_versions()})
                             .status());
  SQUARE_RETURN_IF_ERROR(check_name(hello.name()));
  if (hello.ByteSizeLong() > kMaxHelloBytes) {
    return invalid_argument(
        fmt::format("\"{}\" says a hello of {} bytes: at most {} may be; use a model of "
                    "fewer tensors",
                    hello.name(), hello.ByteSizeLong(), kMaxHelloBytes));
  }
  if (hello.has_server()) return check_server(hello.name(), hello.server());
  if (hello.has_worker()) return check_model(hello.worker().model());
  return invalid_argument(
      fmt::format("\"{}\" is neither a server nor a worker: a hello names one of the two", hello.name()));
}

const v1::PsRecord* newest_part(std::span<const v1::PsHeld> held, const std::string& server) {
  const v1::PsRecord* newest = nullptr;
  for (const v1::PsHeld& one : held) {
    if (shard_of(one.record().layout(), server) == nullptr) continue;
    if (newest == nullptr || one.record().version() > newest->version()) newest = &one.record();
  }
  return newest;
}

bool keeps_part(std::span<const v1::PsHeld> held, const std::string& server) {
  std::set<std::uint64_t> versions;
  bool has_round = false;
  for (const v1::PsHeld& one : held) {
    const v1::PsRecord& record = one.record();
    if (shard_of(record.layout(), server) == nullptr) continue;
    versions.insert(record.version());
    has_round = has_round || (record.version() > 1 && !is_move(record));
  }
  return has_round || versions.size() > 1;
}

}  // namespace square::ps
