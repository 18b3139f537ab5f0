#include "planning/limits/cuts.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace square::planning {
namespace {

using LimitKind = LimitedResource::Kind;

NodeSet set_of(const PlanReading& reading, const std::vector<NodeId>& nodes, bool complement) {
  NodeSet set(reading.plan().nodes.size(), complement);
  for (const NodeId node : nodes) set[node.index()] = !complement;
  return set;
}

// The places of the set's names among all names, lowest first.
std::vector<std::size_t> ranks_of(const PlanReading& reading, const NodeSet& set) {
  std::vector<std::size_t> ranks;
  for (std::size_t v = 0; v < set.size(); ++v) {
    if (set[v]) ranks.push_back(reading.name_rank(NodeId(static_cast<std::uint32_t>(v))));
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

// Limits of nodes, those that are to be named by name.
using HeldNodes = std::set<std::tuple<LimitKind, std::size_t, NodeId>>;

struct CutLoad {
  double bps = 0.0;
  HeldNodes held;  // whose limits are below what their links carry
};

NodeId end_of(const PlanLink& link, LimitKind kind) {
  return kind == LimitKind::kEgress ? link.from : link.to;
}

// What the links carry within the limits of the nodes at one of their ends.
CutLoad within_limits(const PlanReading& reading, const std::vector<LimitedResource>& links, LimitKind kind) {
  std::vector<double> together(reading.plan().nodes.size(), 0.0);
  std::vector<NodeId> nodes;  // as they come
  std::vector<bool> is_known(together.size(), false);
  for (const LimitedResource& link : links) {
    const NodeId node = end_of(reading.plan().links[link.link.index()], kind);
    if (!is_known[node.index()]) nodes.push_back(node);
    is_known[node.index()] = true;
    together[node.index()] += link.capacity_bps;
  }
  CutLoad carried;
  for (const NodeId node : nodes) {
    const double limit = reading.limit_bps(kind, node);
    if (limit < together[node.index()]) carried.held.emplace(kind, reading.name_rank(node), node);
    carried.bps += std::min(limit, together[node.index()]);
  }
  return carried;
}

std::vector<LimitedResource> links_of(const PlanReading& reading, const NamedCut& cut,
                                      const Lengths& lengths) {
  std::vector<LimitedResource> links;
  for (const LinkId id : reading.links_into(cut.into)) {
    links.push_back(reading.link(id, lengths.link[id.index()]));
  }
  const auto key = [&](const LimitedResource& resource) {
    const PlanLink& link = reading.plan().links[resource.link.index()];
    return std::tuple(-resource.load_bps, -resource.capacity_bps, reading.name_rank(link.from),
                      reading.name_rank(link.to));
  };
  std::stable_sort(links.begin(), links.end(),
                   [&](const LimitedResource& a, const LimitedResource& b) { return key(a) < key(b); });
  return links;
}

std::vector<LimitingCut::Demand> demands_on(const PlanReading& reading, const NodeSet& into) {
  std::vector<LimitingCut::Demand> demands;
  for (std::size_t c = 0; c < reading.plan().collectives.size(); ++c) {
    double crossings = 0.0;
    for (const Payload& payload : reading.payloads(c)) {
      if (payload.crosses(into)) crossings += payload.share;
    }
    if (!(crossings > 0.0)) continue;
    const double rate = reading.kept_bps(c);
    demands.push_back({reading.plan().collectives[c].id, crossings, rate, crossings * rate});
  }
  return demands;
}

double left_to(CollectiveId collective, const LimitingCut& cut) {
  double own = 0.0;
  double others = 0.0;
  for (const LimitingCut::Demand& demand : cut.demands) {
    if (demand.collective == collective) {
      own += demand.crossings;
    } else {
      others += demand.needs_bps;
    }
  }
  return own > 0.0 ? std::max(cut.carried_bps - others, 0.0) / own : kUnlimited;
}

}  // namespace

std::vector<NamedCut> packed_cuts(const PlanReading& reading, const Lengths& lengths,
                                  const std::vector<SessionId>& sessions) {
  std::map<NodeSet, NamedCut> alike;
  for (const SessionId id : sessions) {
    const auto packing = lengths.packings.find(id);
    if (packing == lengths.packings.end()) continue;
    const PlanSession& session = *reading.plan().find_session(id);
    const bool reverse = session.kind == SessionKind::kReduce;
    const double share = reading.share_of(session);
    for (const PlanPacking::Cut& packed : packing->second->cuts) {
      NodeSet into = set_of(reading, packed.far_side, reverse);
      NamedCut& cut = alike.try_emplace(into, NamedCut{into, reverse, 0.0, {}}).first->second;
      cut.length += share * packed.length;
      cut.sessions.push_back(id);
    }
  }
  using Key = std::tuple<double, std::size_t, std::vector<std::size_t>>;
  std::vector<std::pair<Key, NamedCut>> sorted;
  for (auto& [into, cut] : alike) {
    std::sort(cut.sessions.begin(), cut.sessions.end());
    cut.sessions.erase(std::unique(cut.sessions.begin(), cut.sessions.end()), cut.sessions.end());
    std::vector<std::size_t> ranks = ranks_of(reading, into);
    const std::size_t size = ranks.size();
    sorted.emplace_back(Key(-cut.length, size, std::move(ranks)), std::move(cut));
  }
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<NamedCut> cuts;
  for (auto& [key, cut] : sorted) cuts.push_back(std::move(cut));
  return cuts;
}

std::vector<NamedCut> certified_cuts(const PlanReading& reading, CollectiveId collective) {
  std::vector<const PlanCut*> found;
  for (const PlanCut& cut : reading.plan().certificate.cuts) {
    if (cut.collective == collective) found.push_back(&cut);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const PlanCut* a, const PlanCut* b) { return a->bound_bps < b->bound_bps; });
  std::vector<NamedCut> cuts;
  for (const PlanCut* cut : found) {
    cuts.push_back({set_of(reading, cut->source_side, true), false, 0.0, {}});
  }
  return cuts;
}

LimitingCut crossed(const PlanReading& reading, const NamedCut& cut, const Lengths& lengths,
                    CollectiveId collective) {
  LimitingCut result;
  for (std::size_t v = 0; v < cut.into.size(); ++v) {
    if (cut.into[v]) result.into.push_back(NodeId(static_cast<std::uint32_t>(v)));
  }
  result.is_left = cut.is_left;
  result.length = cut.length;
  result.sessions = cut.sessions;
  result.links = links_of(reading, cut, lengths);
  const CutLoad by_tails = within_limits(reading, result.links, LimitKind::kEgress);
  const CutLoad by_heads = within_limits(reading, result.links, LimitKind::kIngress);
  result.carried_bps = std::min(by_tails.bps, by_heads.bps);
  HeldNodes held = by_tails.bps <= by_heads.bps ? by_tails.held : by_heads.held;
  for (const LimitedResource& resource : result.links) {
    const PlanLink& link = reading.plan().links[resource.link.index()];
    if (lengths.egress[link.from.index()] > 0.0) {
      held.emplace(LimitKind::kEgress, reading.name_rank(link.from), link.from);
    }
    if (lengths.ingress[link.to.index()] > 0.0) {
      held.emplace(LimitKind::kIngress, reading.name_rank(link.to), link.to);
    }
  }
  for (const auto& [kind, rank, node] : held) {
    const auto& of_kind = kind == LimitKind::kEgress ? lengths.egress : lengths.ingress;
    result.node_limits.push_back(reading.node_limit(kind, node, of_kind[node.index()]));
  }
  result.demands = demands_on(reading, cut.into);
  result.bound_bps = left_to(collective, result);
  return result;
}

}  // namespace square::planning
