#include "controller/protocol.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace square::controller {

ProtocolVersions control_versions() {
  return versions_of_release(kOldestControlProtocol, kControlProtocolVersion);
}

void put_versions(v1::Hello& hello) {
  const ProtocolVersions own = control_versions();
  hello.set_protocol_version(own.oldest);
  hello.set_newest_version(own.newest);
}

Result<std::uint32_t> agree_on_version(const v1::Hello& hello) {
  const ProtocolVersions said = versions_said(hello.protocol_version(), hello.newest_version());
  return square::agree_on_version("control protocol", {fmt::format("node \"{}\"", hello.node()), said},
                                  {"the controller", control_versions()});
}

std::uint32_t version_of(const v1::Welcome& welcome) {
  return welcome.protocol_version() > 0 ? welcome.protocol_version() : kMovingSince - 1;
}

v1::RegisterGroupRequest to_message(const GroupSpec& group) {
  v1::RegisterGroupRequest message;
  message.set_name(group.name);
  message.set_tenant(group.tenant);
  for (const std::string& node : group.nodes) message.add_nodes(node);
  for (const GroupCollective& collective : group.collectives) {
    v1::GroupCollective& added = *message.add_collectives();
    added.set_op(std::string(to_string(collective.op)));
    added.set_root(collective.root.value());
    added.set_weight(collective.weight);
    added.set_size_bytes(collective.size_bytes);
    for (const Rank member : collective.members) added.add_members(member.value());
    added.set_channel(collective.channel);
  }
  message.set_node(group.registrant);
  message.set_closed_number(group.closed_number);
  message.set_number(group.number);
  message.set_redundancy(group.redundancy);
  message.set_grant(group.grant);
  message.set_keys(group.keys);
  if (group.origin.group.empty()) return message;
  v1::GroupOrigin& origin = *message.mutable_origin();
  origin.set_group(group.origin.group);
  origin.set_number(group.origin.number);
  for (const Rank rank : group.origin.ranks) origin.add_ranks(rank.value());
  origin.mutable_joiners()->Add(group.origin.joiners.begin(), group.origin.joiners.end());
  return message;
}

Result<GroupSpec> from_message(const v1::RegisterGroupRequest& message) {
  GroupSpec group;
  group.name = message.name();
  group.tenant = message.tenant();
  group.nodes.assign(message.nodes().begin(), message.nodes().end());
  group.collectives.reserve(static_cast<std::size_t>(message.collectives_size()));
  for (const v1::GroupCollective& collective : message.collectives()) {
    SQUARE_ASSIGN_OR_RETURN(const CollectiveOp op, parse_collective_op(collective.op()));
    GroupCollective& added = group.collectives.emplace_back();
    added.op = op;
    added.root = Rank(collective.root());
    added.weight = collective.weight();
    added.size_bytes = collective.size_bytes();
    for (const std::uint32_t member : collective.members()) added.members.emplace_back(member);
    added.channel = collective.channel();
  }
  group.registrant = message.node();
  group.closed_number = message.closed_number();
  group.number = message.number();
  group.redundancy = message.redundancy();
  group.grant = message.grant();
  group.keys = message.keys();
  group.origin.group = message.origin().group();
  group.origin.number = message.origin().number();
  for (const std::uint32_t rank : message.origin().ranks()) group.origin.ranks.emplace_back(rank);
  group.origin.joiners.assign(message.origin().joiners().begin(), message.origin().joiners().end());
  return group;
}

v1::Sights to_message(const std::vector<BlockSight>& sights) {
  v1::Sights message;
  for (const BlockSight& sight : sights) {
    v1::Sights::Sight& told = *message.add_sights();
    told.set_epoch(sight.name.epoch.value());
    told.set_origin(sight.name.origin.value());
    told.set_session(sight.name.session.value());
    told.set_stream(sight.name.stream.value());
    told.set_operation(sight.name.operation.value());
    told.set_sequence(sight.name.sequence);
    told.set_from(sight.from);
    told.set_digest(sight.digest.data(), sight.digest.size());
  }
  return message;
}

std::vector<BlockSight> from_message(const v1::Sights& message) {
  std::vector<BlockSight> sights;
  for (const v1::Sights::Sight& told : message.sights()) {
    BlockSight sight{{Epoch(told.epoch()), OriginTag(told.origin()), SessionId(told.session()),
                      StreamIndex(static_cast<StreamIndex::value_type>(told.stream())),
                      OperationId(told.operation()), told.sequence()},
                     told.from(),
                     {}};
    if (told.digest().size() != sight.digest.size() || told.from().size() > kMaxNodeNameBytes) continue;
    std::memcpy(sight.digest.data(), told.digest().data(), sight.digest.size());
    sights.push_back(std::move(sight));
  }
  return sights;
}

v1::RegroupRequest to_message(const RegroupRequest& request) {
  v1::RegroupRequest message;
  message.set_group(request.group);
  message.set_number(request.number);
  for (const Rank rank : request.ranks) message.add_ranks(rank.value());
  message.set_joiner(request.joiner);
  message.set_joiners(request.joiners);
  message.mutable_tenants()->Add(request.tenants.begin(), request.tenants.end());
  message.set_allow_minority(request.allow_minority);
  return message;
}

RegroupRequest from_message(const v1::RegroupRequest& message) {
  RegroupRequest request{message.group(), message.number(), {}, message.joiner(), message.joiners()};
  for (const std::uint32_t rank : message.ranks()) request.ranks.emplace_back(rank);
  request.tenants.assign(message.tenants().begin(), message.tenants().end());
  request.allow_minority = message.allow_minority();
  return request;
}

v1::WentOn to_message(const Continuation& one) {
  v1::WentOn message;
  message.set_group(one.group);
  message.set_number(one.number);
  message.set_tenant(one.tenant);
  message.set_next(one.next);
  return message;
}

Continuation from_message(const v1::WentOn& message) {
  return {message.group(), message.number(), message.tenant(), message.next()};
}

v1::MeasuredLink to_message(const LinkReport& report, TimePoint now) {
  v1::MeasuredLink link;
  link.set_peer(report.peer);
  link.set_round_trip_nanoseconds(static_cast<std::uint64_t>(report.round_trip.count()));
  link.set_capacity_bps(report.capacity_bps);
  link.set_is_probed(report.is_probed);
  if (report.capacity_bps > 0)
    link.set_age_nanoseconds(static_cast<std::uint64_t>(std::max<Duration>(now - report.when, {}).count()));
  return link;
}

v1::Heartbeat to_message(const NodeReport& report, TimePoint now) {
  v1::Heartbeat beat;
  for (const std::string& peer : report.heard) beat.add_heard(peer);
  for (const LinkReport& link : report.measured) *beat.add_links() = to_message(link, now);
  for (const auto& [collective, bytes] : report.used) {
    v1::CollectiveUse& use = *beat.add_used();
    use.set_collective(collective.value());
    use.set_bytes(bytes);
  }
  return beat;
}

v1::BrokenLinks to_message(const LinkTroubles& troubles, TimePoint now) {
  v1::BrokenLinks message;
  *message.mutable_peers() = {troubles.broken.begin(), troubles.broken.end()};
  for (const RefusedPeer& refused : troubles.refused) {
    v1::RefusedPeer& added = *message.add_refused();
    added.set_peer(refused.peer);
    added.set_nanoseconds(static_cast<std::uint64_t>(std::max<Duration>(now - refused.since, {}).count()));
    added.set_is_heard(refused.is_heard);
  }
  for (const LossyRelay& lossy : troubles.lossy) {
    v1::LossyRelay& added = *message.add_lossy();
    added.set_relay(lossy.relay);
    added.set_is_way(lossy.is_way);
  }
  return message;
}

v1::Goodbye to_message(const FinishedOperations& finished) {
  v1::Goodbye message;
  for (const auto& [collective, count] : finished) {
    if (message.finished_size() == kMaxFinishedCollectives) break;
    message.add_finished()->set_collective(collective.value());
    message.mutable_finished()->rbegin()->set_count(count);
  }
  return message;
}

std::optional<FinishedOperations> from_message(const v1::Gone& message) {
  if (!message.in_order()) return std::nullopt;
  FinishedOperations finished;
  for (const v1::FinishedOperations& one : message.finished())
    finished.emplace(CollectiveId(one.collective()), one.count());
  return finished;
}

std::vector<CollectiveId> from_message(const v1::Unplanned& message) {
  std::vector<CollectiveId> collectives;
  for (const std::uint32_t id : message.collectives()) collectives.emplace_back(id);
  return collectives;
}

v1::Revoked to_message(const std::vector<Revocation>& revoked) {
  v1::Revoked message;
  for (const Revocation& one : revoked) {
    v1::Revoked::Name& name = *message.add_names();
    name.set_role(std::string(to_string(one.role)));
    name.set_name(one.name);
    name.set_before(one.before);
  }
  return message;
}

std::vector<Revocation> from_message(const v1::Revoked& message) {
  std::vector<Revocation> revoked;
  for (const v1::Revoked::Name& name : message.names()) {
    const auto role = parse_role(name.role());
    if (role.is_ok()) revoked.push_back({*role, name.name(), name.before()});
  }
  return revoked;
}

Duration bounded(Duration wait) { return std::clamp(wait, Duration{0}, kMaxWait); }

std::int64_t wall_nanoseconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

}  // namespace square::controller
