#include "controller/part_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/plan/codes.h"

namespace square::controller {
namespace {

using Link = std::pair<NodeId, NodeId>;

constexpr std::size_t kMaxStreams = std::numeric_limits<StreamIndex::value_type>::max();

Status broken(std::string_view what) {
  return invalid_argument(fmt::format("the controller's part of a plan has {}", what));
}

// No rate, weight or size is less than nothing.
bool are_amounts(std::initializer_list<double> values) {
  return std::ranges::all_of(values, [](double value) { return value >= 0; });
}

Result<PlanNode> value_of(const v1::PartNode& record) {
  if (!are_amounts({record.egress_bps(), record.ingress_bps()})) return broken("a node with a wrong limit");
  return PlanNode{record.name(), record.egress_bps(), record.ingress_bps(), record.relays()};
}

Result<PlanTenant> value_of(const v1::PartTenant& record) {
  if (!are_amounts({record.weight(), record.rate_bps()})) return broken("a tenant with a wrong figure");
  PlanTenant tenant{record.name(), record.weight(), record.rate_bps()};
  if (record.has_open_operations()) tenant.open.operations = record.open_operations();
  if (record.has_open_bytes()) tenant.open.bytes = record.open_bytes();
  return tenant;
}

Result<PlanLink> value_of(const v1::PartLink& record) {
  PlanLink link;
  link.from = NodeId(record.from());
  link.to = NodeId(record.to());
  link.capacity_bps = record.capacity_bps();
  link.load_bps = record.load_bps();
  link.latency = Duration(record.latency_nanoseconds());
  link.avoided = record.avoided();
  link.pace_bps = record.pace_bps();
  if (!are_amounts({link.capacity_bps, link.load_bps, link.pace_bps}) || link.latency < Duration{0}) {
    return broken("a link with a wrong figure");
  }
  return link;
}

Result<PlanCollective> value_of(const v1::PartCollective& record) {
  PlanCollective collective;
  collective.id = CollectiveId(record.id());
  collective.tenant = record.tenant();
  collective.group = record.group();
  collective.op = static_cast<CollectiveOp>(record.op());
  collective.weight = record.weight();
  collective.size_bytes = record.size_bytes();
  collective.rate_bps = record.rate_bps();
  collective.since = Epoch(record.since());
  if (record.op() > static_cast<std::uint32_t>(CollectiveOp::kScatter)) return broken("an unknown operation");
  if (!are_amounts({collective.weight, collective.rate_bps}))
    return broken("a collective with a wrong figure");
  return collective;
}

Result<PlanCodePart> value_of(const v1::PartCoded& record) {
  PlanCodePart part;
  part.code = record.code();
  part.origin = NodeId(record.origin());
  if (record.terms_size() != record.factors_size()) return broken("a sum with a wrong figure");
  for (int i = 0; i < record.terms_size(); ++i) {
    if (record.terms(i) >= kMaxStreams) return broken("a sum of streams that are not there");
    part.terms.emplace_back(StreamIndex(static_cast<std::uint16_t>(record.terms(i))), record.factors(i));
  }
  part.row.assign(record.row().begin(), record.row().end());
  part.byte_factors.assign(record.byte_factors().begin(), record.byte_factors().end());
  part.byte_row.assign(record.byte_row().begin(), record.byte_row().end());
  return part;
}

Result<PlanCode> value_of(const v1::PartCode& record) {
  PlanCode code;
  code.field = static_cast<FieldKind>(record.field());
  code.blocks = record.blocks();
  if (code.blocks > kMaxCodeBlocks) return broken("a code with too many blocks");
  code.redundancy = record.redundancy();
  code.rate_bps = record.rate_bps();
  if (!are_amounts({code.rate_bps})) return broken("a code with a wrong figure");
  for (const v1::PartSink& sink : record.sinks()) {
    PlanCode::Sink& added = code.sinks.emplace_back();
    added.member = NodeId(sink.member());
    for (const std::uint32_t stream : sink.streams())
      added.streams.emplace_back(static_cast<std::uint16_t>(std::min<std::uint32_t>(stream, kMaxStreams)));
    if (sink.inverse_size() != static_cast<int>(code.blocks * code.blocks))
      return broken("a code without its inverse");
    for (std::uint32_t i = 0; i < code.blocks; ++i) {
      const auto row = sink.inverse().begin() + static_cast<int>(i * code.blocks);
      added.inverse.emplace_back(row, row + static_cast<int>(code.blocks));
    }
  }
  return code;
}

Result<PlanStream> value_of(const v1::PartStream& record) {
  PlanStream stream;
  stream.rate_bps = record.rate_bps();
  if (record.has_coded()) {
    SQUARE_ASSIGN_OR_RETURN(stream.coded, value_of(record.coded()));
  }
  stream.latency = Duration(record.latency_nanoseconds());
  stream.is_spare = record.is_spare();
  if (!are_amounts({stream.rate_bps}) || *stream.latency < Duration{0} || record.ends_size() % 2 != 0) {
    return broken("a stream with a wrong figure");
  }
  for (int i = 0; i < record.ends_size(); i += 2) {
    stream.links.emplace_back(NodeId(record.ends(i)), NodeId(record.ends(i + 1)));
  }
  return stream;
}

Result<PlanSession> value_of(const v1::PartSession& record) {
  PlanSession session;
  session.id = SessionId(record.id());
  session.collective = CollectiveId(record.collective());
  session.kind = static_cast<SessionKind>(record.kind());
  session.root = NodeId(record.root());
  for (const std::uint32_t member : record.members()) session.members.emplace_back(member);
  session.offset_bytes = record.offset_bytes();
  session.size_bytes = record.size_bytes();
  if (record.has_pair()) session.pair = SessionId(record.pair());
  session.rate_bps = record.rate_bps();
  session.block_limit_bytes = record.block_limit_bytes();
  if (record.kind() > static_cast<std::uint32_t>(SessionKind::kUnicast)) return broken("an unknown session");
  if (!are_amounts({session.rate_bps, session.block_limit_bytes}))
    return broken("a session with a wrong figure");
  if (static_cast<std::size_t>(record.streams_size()) > kMaxStreams) return broken("too many streams");
  for (const v1::PartStream& stream : record.streams()) {
    SQUARE_ASSIGN_OR_RETURN(PlanStream added, value_of(stream));
    session.streams.push_back(std::move(added));
  }
  for (const v1::PartCode& code : record.codes()) {
    SQUARE_ASSIGN_OR_RETURN(PlanCode added, value_of(code));
    session.codes.push_back(std::move(added));
  }
  if (!check_codes(session).is_ok()) return broken("a code that cannot be followed");
  return session;
}

std::string key_of(const PlanTenant& tenant) { return tenant.name; }
Link key_of(const PlanLink& link) { return {link.from, link.to}; }
CollectiveId key_of(const PlanCollective& collective) { return collective.id; }
SessionId key_of(const PlanSession& session) { return session.id; }

// The values of before, in ascending order, without those that are gone, and with those that are told.
template <typename Record, typename Value, typename Key, typename Told>
Status merge(std::vector<Value>& values, const Told& told, const std::set<Key>& gone) {
  std::vector<Value> before = std::exchange(values, {});
  values.reserve(before.size() + static_cast<std::size_t>(told.size()));
  auto old = before.begin();
  const auto keep_until = [&](const Key* end) {
    for (; old != before.end() && (end == nullptr || key_of(*old) < *end); ++old) {
      if (!gone.contains(key_of(*old))) values.push_back(std::move(*old));
    }
  };
  for (const std::string& bytes : told) {
    Record record;
    if (!record.ParseFromString(bytes)) return broken("a record that cannot be read");
    SQUARE_ASSIGN_OR_RETURN(Value value, value_of(record));
    const Key key = key_of(value);
    if (!values.empty() && !(key_of(values.back()) < key)) return broken("records in another order");
    keep_until(&key);
    if (old != before.end() && key_of(*old) == key) ++old;
    values.push_back(std::move(value));
  }
  keep_until(nullptr);
  return {};
}

Status merge_nodes(std::vector<PlanNode>& nodes, const v1::PlanPart& part) {
  if (part.nodes().empty()) return {};
  nodes.clear();
  for (const std::string& bytes : part.nodes()) {
    v1::PartNode record;
    if (!record.ParseFromString(bytes)) return broken("a record that cannot be read");
    SQUARE_ASSIGN_OR_RETURN(PlanNode node, value_of(record));
    nodes.push_back(std::move(node));
  }
  return {};
}

// Everything that is meant by a number is there.
Status check_numbers(const Plan& plan) {
  const auto is_node = [&](NodeId id) { return id.index() < plan.nodes.size(); };
  const auto are_nodes = [&](const Link& link) { return is_node(link.first) && is_node(link.second); };
  for (const PlanLink& link : plan.links) {
    if (!are_nodes(key_of(link))) return broken("a link of an unknown node");
  }
  for (const PlanCollective& collective : plan.collectives) {
    if (collective.since == Epoch(0) || collective.since > plan.epoch)
      return broken("a collective since a plan that cannot be");
  }
  for (const PlanSession& session : plan.sessions) {
    if (!is_node(session.root) || !std::ranges::all_of(session.members, is_node)) {
      return broken("a session of an unknown node");
    }
    for (const PlanStream& stream : session.streams) {
      if (!std::ranges::all_of(stream.links, are_nodes)) return broken("a stream over an unknown node");
    }
    if (session.pair && plan.find_session(*session.pair) == nullptr) return broken("half of a share");
    if (plan.find_collective(session.collective) == nullptr) return broken("a session of no collective");
  }
  return {};
}

template <typename Id, typename Numbers>
std::set<Id> ids_of(const Numbers& numbers) {
  std::set<Id> ids;
  for (const auto number : numbers) ids.insert(Id(number));
  return ids;
}

std::set<Link> links_of(const google::protobuf::RepeatedField<std::uint64_t>& numbers) {
  std::set<Link> links;
  for (const std::uint64_t number : numbers) {
    links.emplace(NodeId(static_cast<std::uint32_t>(number >> 32U)),
                  NodeId(static_cast<std::uint32_t>(number)));
  }
  return links;
}

}  // namespace

const Plan* PartReader::base_of(const v1::PlanPart& part) const {
  const auto found = std::ranges::find_if(kept_, [&](const std::shared_ptr<const Plan>& plan) {
    return plan->epoch == Epoch(part.base_epoch()) && plan->origin == PlanOrigin{part.store(), part.term()};
  });
  return found == kept_.end() ? nullptr : found->get();
}

bool PartReader::lacks_base(const v1::PlanPart& part) const {
  return part.base_epoch() != 0 && base_of(part) == nullptr;
}

Result<std::shared_ptr<const Plan>> PartReader::read(const v1::PlanPart& part) {
  if (lacks_base(part)) {
    return failed_precondition(
        fmt::format("plan {} is told against plan {}, which is not here", part.epoch(), part.base_epoch()));
  }
  const Plan* const base = part.base_epoch() == 0 ? nullptr : base_of(part);
  Plan plan = base == nullptr ? Plan() : *base;
  plan.epoch = Epoch(part.epoch());
  plan.origin = {part.store(), part.term()};
  plan.policy = part.policy();
  plan.provisional = part.provisional();
  plan.part = PlanPart{node_, part.next_collective(), part.next_session()};
  SQUARE_RETURN_IF_ERROR(merge_nodes(plan.nodes, part));
  SQUARE_RETURN_IF_ERROR(
      merge<v1::PartTenant>(plan.tenants, part.tenants(),
                            std::set<std::string>(part.gone_tenants().begin(), part.gone_tenants().end())));
  SQUARE_RETURN_IF_ERROR(merge<v1::PartLink>(plan.links, part.links(), links_of(part.gone_links())));
  SQUARE_RETURN_IF_ERROR(merge<v1::PartCollective>(plan.collectives, part.collectives(),
                                                   ids_of<CollectiveId>(part.gone_collectives())));
  SQUARE_RETURN_IF_ERROR(
      merge<v1::PartSession>(plan.sessions, part.sessions(), ids_of<SessionId>(part.gone_sessions())));
  SQUARE_RETURN_IF_ERROR(check_numbers(plan));
  kept_.push_back(std::make_shared<const Plan>(std::move(plan)));
  if (kept_.size() > kKeptParts) kept_.pop_front();
  return kept_.back();
}

}  // namespace square::controller
