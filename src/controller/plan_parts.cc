#include "controller/plan_parts.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/plan/figures.h"
#include "base/plan/lifeline.h"
#include "controller/part_records.h"

namespace square::controller {
namespace {

// Positions of the values in the order of their keys.
template <typename Values, typename KeyOf>
std::vector<std::size_t> order_of(const Values& values, const KeyOf& key_of) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return key_of(values[i]); });
  return order;
}

void add_once(std::vector<std::uint32_t>& positions, std::size_t position) {
  if (positions.empty() || positions.back() != position)
    positions.push_back(static_cast<std::uint32_t>(position));
}

// What a node has now, `positions` among the records, against what it had: neither set is the whole.
template <typename Records>
struct Had {
  const Records* records = nullptr;
  const std::vector<std::uint32_t>* positions = nullptr;
};

template <typename Records, typename Add, typename Gone>
void tell(const Records& records, const std::vector<std::uint32_t>& positions, const Had<Records>& had,
          const Add& add, const Gone& gone) {
  static const std::vector<std::uint32_t> kNone;
  const std::vector<std::uint32_t>& before = had.positions == nullptr ? kNone : *had.positions;
  auto old = before.begin();
  for (const std::uint32_t position : positions) {
    const auto& key = records.keys[position];
    for (; old != before.end() && had.records->keys[*old] < key; ++old) gone(had.records->keys[*old]);
    const bool is_known = old != before.end() && had.records->keys[*old] == key;
    if (!is_known || had.records->bytes[*old] != records.bytes[position]) add(records.bytes[position]);
    if (is_known) ++old;
  }
  for (; old != before.end(); ++old) gone(had.records->keys[*old]);
}

}  // namespace

template <typename Key>
void PlanParts::Records<Key>::add(Key key, const google::protobuf::MessageLite& record) {
  keys.push_back(std::move(key));
  bytes.push_back(record.SerializeAsString());
}

// As nodes make them of the whole plan, whose links only this side has.
PlanParts::PlanParts(const std::shared_ptr<const Plan>& plan, const PlanParts* base, Epoch after,
                     const KeptWays& kept)
    : whole_(with_lifelines(with_kept(plan, kept))), oldest_(plan->epoch) {
  const Plan* const whole = whole_.get();
  PartWriter::write(*whole, head_);
  for (const PlanNode& node : whole->nodes) {
    v1::PartNode record;
    PartWriter::write(node, record);
    numbers_.emplace(node.name, nodes_.size());
    nodes_.push_back(record.SerializeAsString());
  }
  shares_.resize(nodes_.size());
  add_tenants(*whole);
  add_links(*whole);
  add_sessions(*whole);
  const bool has_base = base != nullptr && base->head_.store() == head_.store() &&
                        base->head_.term() == head_.term() && has_same_nodes(*base);
  add_collectives(*whole, has_base ? base : nullptr, after);
  if (kept.parts) {
    kept_ = kept.collectives;
    keep(*kept.parts);
  }
  share_out(*whole);
  for (Share& share : shares_) {
    std::ranges::sort(share.tenants);
    share.tenants.erase(std::ranges::unique(share.tenants).begin(), share.tenants.end());
  }
}

void PlanParts::add_tenants(const Plan& plan) {
  for (const std::size_t i : order_of(plan.tenants, [](const PlanTenant& tenant) { return tenant.name; })) {
    const PlanTenant& tenant = plan.tenants[i];
    v1::PartTenant record;
    PartWriter::write(tenant, record);
    weights_.push_back(tenant.weight);
    tenants_.add(tenant.name, record);
  }
}

void PlanParts::add_links(const Plan& plan) {
  const std::vector<double> paces = link_paces(plan);
  for (const std::size_t i :
       order_of(plan.links, [](const PlanLink& link) { return Link(link.from, link.to); })) {
    const PlanLink& link = plan.links[i];
    v1::PartLink record;
    PartWriter::write(link, record);
    record.set_pace_bps(paces[i]);
    for (const NodeId end : {link.from, link.to}) add_once(shares_[end.index()].links, links_.keys.size());
    links_.add({link.from, link.to}, record);
  }
}

void PlanParts::add_collectives(const Plan& plan, const PlanParts* base, Epoch after) {
  CollectiveId::value_type next = 0;
  for (const std::size_t i :
       order_of(plan.collectives, [](const PlanCollective& collective) { return collective.id; })) {
    const PlanCollective& collective = plan.collectives[i];
    next = collective.id.value() + 1;
    v1::PartCollective record;
    PartWriter::write(collective, record);
    since_.push_back(since(collective, record, base, after));
    oldest_ = std::min(oldest_, since_.back());
    record.set_since(since_.back().value());
    collectives_.add(collective.id, record);
  }
  head_.set_next_collective(next);
}

Epoch PlanParts::since(const PlanCollective& collective, v1::PartCollective record, const PlanParts* base,
                       Epoch after) const {
  const Epoch now(head_.epoch());
  if (base == nullptr) return now;
  const auto known = std::ranges::lower_bound(base->collectives_.keys, collective.id);
  if (known == base->collectives_.keys.end() || *known != collective.id) return now;
  const auto position = static_cast<std::size_t>(known - base->collectives_.keys.begin());
  const Epoch before = base->since_[position];
  record.set_since(before.value());
  const bool is_same = before > after && base->collectives_.bytes[position] == record.SerializeAsString() &&
                       has_same_weight(collective.tenant, *base) && has_same_sessions(collective.id, *base);
  return is_same ? before : now;
}

// Byte for byte: what nodes work out of a record, like the size of blocks, must be the same at all of them.
void PlanParts::keep(const PlanParts& before) {
  std::erase_if(kept_, [&](CollectiveId id) { return !since(id) || !before.since(id); });
  for (const CollectiveId id : kept_) {
    const auto copy = [](auto& to, const auto& from, const auto& key) {
      const auto here = std::ranges::lower_bound(to.keys, key) - to.keys.begin();
      const auto there = std::ranges::lower_bound(from.keys, key) - from.keys.begin();
      to.bytes[static_cast<std::size_t>(here)] = from.bytes[static_cast<std::size_t>(there)];
      return static_cast<std::size_t>(here);
    };
    since_[copy(collectives_, before.collectives_, id)] = *before.since(id);
    oldest_ = std::min(oldest_, *before.since(id));
    const auto sessions = before.sessions_of_.find(id);
    if (sessions == before.sessions_of_.end()) continue;
    for (const std::uint32_t position : sessions->second)
      copy(sessions_, before.sessions_, before.sessions_.keys[position]);
  }
}

std::optional<Epoch> PlanParts::since(CollectiveId collective) const {
  const auto found = std::ranges::lower_bound(collectives_.keys, collective);
  if (found == collectives_.keys.end() || *found != collective) return std::nullopt;
  return since_[static_cast<std::size_t>(found - collectives_.keys.begin())];
}

// Those of the base have the same numbers here.
bool PlanParts::has_same_nodes(const PlanParts& base) const {
  return std::ranges::all_of(base.numbers_, [&](const auto& node) {
    const auto here = numbers_.find(node.first);
    return here != numbers_.end() && here->second == node.second;
  });
}

bool PlanParts::has_same_weight(const std::string& tenant, const PlanParts& base) const {
  const auto weight_in = [&](const PlanParts& parts) {
    const auto found = std::ranges::lower_bound(parts.tenants_.keys, tenant);
    const bool is_there = found != parts.tenants_.keys.end() && *found == tenant;
    return is_there ? parts.weights_[static_cast<std::size_t>(found - parts.tenants_.keys.begin())] : 1.0;
  };
  return weight_in(*this) == weight_in(base);
}

bool PlanParts::has_same_sessions(CollectiveId collective, const PlanParts& base) const {
  static const std::vector<std::uint32_t> kNone;
  const auto positions_in = [&](const PlanParts& parts) -> const std::vector<std::uint32_t>& {
    const auto found = parts.sessions_of_.find(collective);
    return found == parts.sessions_of_.end() ? kNone : found->second;
  };
  return std::ranges::equal(positions_in(*this), positions_in(base),
                            [&](std::size_t here, std::size_t there) {
                              return sessions_.bytes[here] == base.sessions_.bytes[there];
                            });
}

void PlanParts::add_sessions(const Plan& plan) {
  const std::vector<double> limits = block_limits(plan);
  const LinkLatencies latencies(plan);
  SessionId::value_type next = 0;
  for (const std::size_t i : order_of(plan.sessions, [](const PlanSession& session) { return session.id; })) {
    const PlanSession& session = plan.sessions[i];
    next = session.id.value() + 1;
    sessions_of_[session.collective].push_back(static_cast<std::uint32_t>(sessions_.keys.size()));
    v1::PartSession record;
    PartWriter::write(session, record);
    record.set_block_limit_bytes(limits[i]);
    for (std::size_t s = 0; s < session.streams.size(); ++s)
      record.mutable_streams(static_cast<int>(s))
          ->set_latency_nanoseconds(latencies.longest(session.streams[s]).count());
    sessions_.add(session.id, record);
  }
  head_.set_next_session(next);
}

// Which nodes collectives concern, their tenants and sessions with them.
void PlanParts::share_out(const Plan& plan) {
  std::map<CollectiveId, std::vector<bool>> concerned;
  for (const PlanSession& session : plan.sessions) {
    std::vector<bool>& nodes = concerned[session.collective];
    nodes.resize(nodes_.size());
    for (const NodeId member : session.members) nodes[member.index()] = true;
    for (const PlanStream& stream : session.streams) {
      for (const auto& [from, to] : stream.links) nodes[from.index()] = nodes[to.index()] = true;
    }
  }
  for (const PlanCollective& collective : plan.collectives) {
    const auto position = static_cast<std::size_t>(
        std::ranges::lower_bound(collectives_.keys, collective.id) - collectives_.keys.begin());
    const auto tenant = std::ranges::lower_bound(tenants_.keys, collective.tenant);
    const bool has_tenant = tenant != tenants_.keys.end() && *tenant == collective.tenant;
    const auto nodes = concerned.find(collective.id);
    for (std::size_t v = 0; v < shares_.size(); ++v) {
      if (nodes != concerned.end() && !nodes->second[v]) continue;
      shares_[v].collectives.push_back(static_cast<std::uint32_t>(position));
      if (has_tenant) add_once(shares_[v].tenants, static_cast<std::size_t>(tenant - tenants_.keys.begin()));
    }
  }
  for (Share& share : shares_) {
    std::ranges::sort(share.collectives);
    for (const std::uint32_t collective : share.collectives) {
      const auto its = sessions_of_.find(collectives_.keys[collective]);
      if (its != sessions_of_.end())
        share.sessions.insert(share.sessions.end(), its->second.begin(), its->second.end());
    }
    std::ranges::sort(share.sessions);
  }
}

const PlanParts::Share& PlanParts::share_of(const std::string& node) const {
  static const Share kNone;
  const auto found = numbers_.find(node);
  return found == numbers_.end() ? kNone : shares_[found->second];
}

PlanParts::EventPtr PlanParts::event_for(const std::string& node, const PlanParts* base) const {
  const bool is_known =
      base != nullptr && base->head_.store() == head_.store() && base->head_.term() == head_.term();
  const Share& share = share_of(node);
  const Share* const had = is_known ? &base->share_of(node) : nullptr;
  auto event = std::make_shared<v1::ControllerEvent>();
  v1::PlanPart& part = *event->mutable_plan();
  part = head_;
  if (is_known) part.set_base_epoch(base->head_.epoch());
  if (!is_known || nodes_ != base->nodes_) {
    for (const std::string& record : nodes_) part.add_nodes(record);
  }
  const auto had_of = [&](auto Share::*positions, auto PlanParts::*records) {
    using Kind = std::remove_cvref_t<decltype(this->*records)>;
    return is_known ? Had<Kind>{&(base->*records), &(had->*positions)} : Had<Kind>{};
  };
  tell(
      tenants_, share.tenants, had_of(&Share::tenants, &PlanParts::tenants_),
      [&](const std::string& record) { part.add_tenants(record); },
      [&](const std::string& name) { part.add_gone_tenants(name); });
  tell(
      links_, share.links, had_of(&Share::links, &PlanParts::links_),
      [&](const std::string& record) { part.add_links(record); },
      [&](const Link& link) {
        part.add_gone_links(std::uint64_t{link.first.value()} << 32U | link.second.value());
      });
  tell(
      collectives_, share.collectives, had_of(&Share::collectives, &PlanParts::collectives_),
      [&](const std::string& record) { part.add_collectives(record); },
      [&](CollectiveId id) { part.add_gone_collectives(id.value()); });
  tell(
      sessions_, share.sessions, had_of(&Share::sessions, &PlanParts::sessions_),
      [&](const std::string& record) { part.add_sessions(record); },
      [&](SessionId id) { part.add_gone_sessions(id.value()); });
  return event;
}

std::size_t PlanParts::size_bytes() const {
  std::size_t bytes = head_.ByteSizeLong();
  for (const auto* records :
       {&nodes_, &tenants_.bytes, &links_.bytes, &collectives_.bytes, &sessions_.bytes}) {
    // With the length before each.
    for (const std::string& record : *records) bytes += record.size() + sizeof(std::uint64_t);
  }
  return bytes;
}

}  // namespace square::controller
