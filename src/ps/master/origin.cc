#include "ps/master/origin.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <utility>
#include <vector>

#include "ps/held.h"
#include "ps/layout.h"

namespace square::ps {
namespace {

using Id = std::pair<std::uint64_t, std::uint64_t>;  // a version, and its maker
// Several servers may say different things of one version.
using Claims = std::multimap<Id, const v1::PsRecord*, std::greater<>>;

struct Holders {
  std::string absent;  // a server of its layout that is not there
  bool have_it = true;
};

const ServerEntry* server_of(const Members& members, const std::string& name) {
  const auto found = members.servers().find(name);
  return found == members.servers().end() ? nullptr : &found->second;
}

// Other fields may differ from server to server: each has the factor of its own shard.
bool are_same(const v1::PsRecord& one, const v1::PsRecord& other) {
  return one.training() == other.training() && one.tokens() == other.tokens() &&
         one.layout().SerializeAsString() == other.layout().SerializeAsString();
}

Holders holders_of(const Members& members, const v1::PsRecord& record) {
  Holders holders;
  for (const v1::PsShard& shard : record.layout().shards()) {
    const ServerEntry* const server = server_of(members, shard.server());
    if (server == nullptr || server->peer == 0) {
      holders.absent = shard.server();
    } else {
      const v1::PsHeld* const held = server->find(record.version(), record.maker());
      if (held == nullptr || !are_same(held->record(), record)) holders.have_it = false;
    }
  }
  return holders;
}

std::string servers_in(const v1::PsLayout& layout) {
  std::vector<std::string> names;
  for (const v1::PsShard& shard : layout.shards()) names.push_back(fmt::format("\"{}\"", shard.server()));
  return fmt::format("{}", fmt::join(names, ", "));
}

// Names a connected server whose snapshots contradict the version; empty: there is none.
std::string contradiction_of(const Members& members, const v1::PsRecord& record) {
  for (const auto& [name, server] : members.servers()) {
    if (server.peer == 0 || shard_of(record.layout(), name) != nullptr) continue;
    const v1::PsRecord* const own = newest_part(server.held, name);
    if (!keeps_part(server.held, name) || own->training() != record.training()) continue;
    if (own->version() > record.version()) continue;  // check_standby() refuses it
    return fmt::format(
        "an operator: version {} of servers {} has no part for server \"{}\", which keeps version {} of the "
        "same training; stop the servers whose snapshots are wrong",
        record.version(), servers_in(record.layout()), name, own->version());
  }
  return {};
}

}  // namespace

Origin find_origin(const Members& members) {
  Claims claims;
  for (const auto& [name, server] : members.servers()) {
    for (const v1::PsHeld& held : server.held) {
      claims.emplace(Id{held.record().version(), held.record().maker()}, &held.record());
    }
  }
  Origin origin;
  for (const auto& [id, record] : claims) {
    const Holders holders = holders_of(members, *record);
    std::string missing;
    if (!holders.absent.empty()) {
      missing = fmt::format("server \"{}\", which has a shard of version {}", holders.absent, id.first);
    }
    if (!holders.have_it) {  // it never counted, whichever other server is away
      if (origin.trouble.empty()) origin.trouble = missing;
      continue;
    }
    if (missing.empty()) missing = contradiction_of(members, *record);
    if (!missing.empty()) return {nullptr, nullptr, missing};
    // Not the claim of a server outside the layout.
    const ServerEntry& first = *server_of(members, record->layout().shards(0).server());
    return {&first.find(id.first, id.second)->record(), &first.model, {}};
  }
  // A first version that was never committed does not count.
  if (origin.trouble.empty() && !claims.empty() && claims.begin()->first.first != 1) {
    origin.trouble =
        "a version that all its servers have: their snapshots have none in common; to begin anew, give them "
        "empty folders";
  }
  return origin;
}

Status check_standby(const ServerEntry& server, const v1::PsRecord& committed) {
  for (const v1::PsHeld& held : server.held) {
    if (held.record().training() == committed.training()) continue;
    return failed_precondition(fmt::format(
        "server \"{}\" has snapshots of another training, which a new shard would replace; give it an empty "
        "folder, or, if its snapshots are the right ones, stop servers {} and start the master again",
        server.name, servers_in(committed.layout())));
  }
  if (!keeps_part(server.held, server.name)) return {};
  return failed_precondition(fmt::format(
      "server \"{}\" keeps a part of version {} of this training, and version {}, which servers {} say that "
      "they have, has none for it. Nothing was removed. If its snapshots are right, stop those servers, and "
      "start the master and this server again; if not, give it an empty folder",
      server.name, newest_part(server.held, server.name)->version(), committed.version(),
      servers_in(committed.layout())));
}

}  // namespace square::ps
