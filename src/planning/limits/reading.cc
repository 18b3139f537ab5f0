#include "planning/limits/reading.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "validator/checks.h"

namespace square::planning {
namespace {

void add_load(std::vector<LimitedResource::Load>& loads, SessionId session, double rate_bps) {
  if (loads.empty() || loads.back().session != session) loads.push_back({session, 0.0});
  loads.back().rate_bps += rate_bps;
}

}  // namespace

bool Payload::crosses(const NodeSet& into) const {
  const auto is_in = [&](NodeId node) { return into[node.index()]; };
  const bool is_inside = std::any_of(others.begin(), others.end(), is_in);
  const bool is_outside = !std::all_of(others.begin(), others.end(), is_in);
  if (is_anywhere) return is_inside && is_outside;
  return adds ? is_in(root) && is_outside : !is_in(root) && is_inside;
}

Lengths::Lengths(const Plan& plan)
    : link(plan.links.size(), 0.0), egress(plan.nodes.size(), 0.0), ingress(plan.nodes.size(), 0.0) {}

Lengths::Lengths(const Plan& plan, const PlanLevel& level) : Lengths(plan) {
  for (const auto& [id, length] : level.links) link[id.index()] += length;
  for (const auto& [node, length] : level.egress) egress[node.index()] += length;
  for (const auto& [node, length] : level.ingress) ingress[node.index()] += length;
  budget = level.budget;
  for (const PlanPacking& packing : level.packings) packings.emplace(packing.session, &packing);
}

PlanReading::PlanReading(const Plan& plan)
    : plan_(plan),
      capacity_bps_(validation::counted_capacities(plan)),
      kept_bps_(validation::kept_rates(plan)),
      level_of_(validation::levels_of_collectives(plan)),
      on_link_(plan.links.size()),
      leaving_(plan.nodes.size()),
      entering_(plan.nodes.size()),
      name_rank_(plan.nodes.size()),
      job_of_(validation::number_jobs(plan)) {
  for (std::size_t c = 0; c < plan.collectives.size(); ++c) {
    const PlanCollective& collective = plan.collectives[c];
    position_of_.emplace(collective.id, c);
    member_count_.push_back(validation::members_of(plan, collective).size());
    is_planned_sum_.push_back(validation::is_planned_all_reduce(plan, collective));
  }
  payloads_.resize(plan.collectives.size());
  for (std::size_t c = 0; c < plan.collectives.size(); ++c) read_payloads(c);
  read_loads();
  std::vector<std::size_t> by_name(plan.nodes.size());
  std::iota(by_name.begin(), by_name.end(), 0);
  std::sort(by_name.begin(), by_name.end(), [&](std::size_t a, std::size_t b) {
    return std::tie(plan.nodes[a].name, a) < std::tie(plan.nodes[b].name, b);
  });
  for (std::size_t rank = 0; rank < by_name.size(); ++rank) name_rank_[by_name[rank]] = rank;
}

void PlanReading::take(LimitedResource& resource, const Loads& loads) const {
  std::map<std::size_t, std::map<JobTurn, double>> sums;  // by job
  for (const LimitedResource::Load& load : loads) {
    const auto& [job, turn] = when_.at(load.session);
    sums[job][turn] += load.rate_bps;
  }
  std::map<std::size_t, JobTurn> counted;
  for (const auto& [job, turns] : sums) {
    const auto by_rate = [](const auto& a, const auto& b) { return a.second < b.second; };
    const bool is_asked = asked_ && asked_->first == job;
    counted[job] = is_asked ? asked_->second : std::ranges::max_element(turns, by_rate)->first;
  }
  for (const LimitedResource::Load& load : loads) {
    const auto& [job, turn] = when_.at(load.session);
    if (counted.at(job) != turn) continue;
    resource.loads.push_back(load);
    resource.load_bps += load.rate_bps;
  }
}

void PlanReading::read_loads() {
  const validation::LinkTable table(plan_);
  for (const PlanSession& session : plan_.sessions) {
    when_.emplace(session.id, when_of(position_of(session.collective)));
    for (const PlanStream& stream : session.streams) {
      for (const auto& [from, to] : stream.links) {
        const int link = table.find(from, to);
        if (link < 0) continue;  // the validator says so
        add_load(on_link_[static_cast<std::size_t>(link)], session.id, stream.rate_bps);
        add_load(leaving_[from.index()], session.id, stream.rate_bps);
        add_load(entering_[to.index()], session.id, stream.rate_bps);
      }
    }
  }
}

void PlanReading::read_payloads(std::size_t c) {
  const PlanCollective& collective = plan_.collectives[c];
  std::vector<Payload>& payloads = payloads_[c];
  if (is_planned_sum_[c]) {
    payloads.push_back({1.0, true, false, {}, validation::members_of(plan_, collective)});
    return;
  }
  std::map<std::tuple<NodeId, std::uint64_t, std::uint64_t, std::uint32_t>, std::size_t> known;
  for (const SessionId id : collective.sessions) {
    const PlanSession& session = *plan_.find_session(id);
    const std::uint32_t own = validation::copies_payload(collective.op) ? 0 : id.value();
    const auto [entry, is_new] = known.emplace(
        std::tuple(session.root, session.offset_bytes, session.size_bytes, own), payloads.size());
    if (is_new) {
      const double share = validation::share_of(collective, member_count_[c], session);
      payloads.push_back({share, false, session.kind == SessionKind::kReduce, session.root, {}});
    }
    for (const NodeId member : session.members) {
      if (member != session.root) payloads[entry->second].others.push_back(member);
    }
  }
}

std::optional<std::size_t> PlanReading::level_of(std::size_t collective) const {
  const std::size_t level = level_of_[collective];
  return level < plan_.certificate.levels.size() ? std::optional(level) : std::nullopt;
}

double PlanReading::share_of(const PlanSession& session) const {
  const std::size_t c = position_of(session.collective);
  if (is_planned_sum_[c]) return 1.0;
  return validation::share_of(plan_.collectives[c], member_count_[c], session);
}

LimitedResource PlanReading::link(LinkId id, double length) const {
  LimitedResource resource;
  resource.link = id;
  resource.capacity_bps = capacity_bps_[id.index()];
  resource.length = length;
  take(resource, on_link_[id.index()]);
  return resource;
}

LimitedResource PlanReading::node_limit(LimitedResource::Kind kind, NodeId node, double length) const {
  LimitedResource resource;
  resource.kind = kind;
  resource.node = node;
  resource.capacity_bps = limit_bps(kind, node);
  resource.length = length;
  take(resource, (kind == LimitedResource::Kind::kEgress ? leaving_ : entering_)[node.index()]);
  return resource;
}

double PlanReading::limit_bps(LimitedResource::Kind kind, NodeId node) const {
  const PlanNode& found = plan_.nodes[node.index()];
  return kind == LimitedResource::Kind::kEgress ? found.egress_bps : found.ingress_bps;
}

std::vector<LinkId> PlanReading::links_into(const NodeSet& into) const {
  std::vector<LinkId> links;
  for (std::size_t e = 0; e < plan_.links.size(); ++e) {
    const PlanLink& link = plan_.links[e];
    if (into[link.to.index()] && !into[link.from.index()]) {
      links.push_back(LinkId(static_cast<std::uint32_t>(e)));
    }
  }
  return links;
}

}  // namespace square::planning
