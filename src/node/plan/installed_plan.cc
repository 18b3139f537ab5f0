#include "node/plan/installed_plan.h"

#include <algorithm>

#include "base/plan/lifeline.h"
#include "node/plan/stream_windows.h"

namespace square {

StreamKey key_of(const FrameHeader& header) {
  return {header.epoch, header.session, header.stream, header.origin};
}

void set_stream(FrameHeader& header, const StreamKey& key) {
  header.epoch = key.epoch;
  header.session = key.session;
  header.stream = key.stream;
  header.origin = key.origin;
}

std::size_t depth_of(const PlanStream& stream, SessionKind kind) {
  std::map<NodeId, std::size_t> hops;
  std::size_t deepest = 0;
  const auto reach = [&](NodeId near, NodeId far) {
    deepest = std::max(deepest, hops[far] = hops[near] + 1);
  };
  if (kind == SessionKind::kReduce) {
    for (auto link = stream.links.rbegin(); link != stream.links.rend(); ++link)
      reach(link->second, link->first);
  } else {
    for (const auto& [from, to] : stream.links) reach(from, to);
  }
  return deepest;
}

InstalledPlan::InstalledPlan(std::shared_ptr<const Plan> plan, const std::string& self,
                             std::size_t window_bytes)
    : plan_(plan->part ? std::move(plan) : with_lifelines(plan)), self_(plan_->find_node(self)) {
  for (const PlanSession& session : plan_->sessions) {
    sessions_.emplace(session.id, &session);
    sessions_of_[session.collective].push_back(&session);
  }
  if (!self_) return;
  const TenantWeights weights(*plan_);
  const LinkLatencies latencies(*plan_);
  block_sizes_ = BlockSizes(*plan_);
  for (const PlanSession& session : plan_->sessions) {
    for (std::size_t i = 0; i < session.streams.size(); ++i) add_stream(session, i, weights, latencies);
  }
  fit_windows(streams_, *plan_, *self_, block_sizes_, window_bytes);
  for (const auto& [key, stream] : streams_) streams_of_[key.session].push_back(&stream);
  note_links();
}

void InstalledPlan::note_links() {
  const std::vector<double> paces = plan_->part ? std::vector<double>() : link_paces(*plan_);
  for (std::size_t i = 0; i < plan_->links.size(); ++i) {
    const PlanLink& link = plan_->links[i];
    if (link.from != *self_ && link.to != *self_) continue;
    paces_.insert_or_assign({link.from, link.to}, plan_->part ? link.pace_bps : paces[i]);
    if (!(link.load_bps > 0)) continue;
    fastest_link_bps_ =
        std::max(fastest_link_bps_, std::min({link.capacity_bps, plan_->nodes[link.from.index()].egress_bps,
                                              plan_->nodes[link.to.index()].ingress_bps}));
  }
}

void InstalledPlan::add_stream(const PlanSession& session, std::size_t index, const TenantWeights& weights,
                               const LinkLatencies& latencies) {
  const PlanStream& stream = session.streams[index];
  LocalStream local;
  for (const auto& [from, to] : stream.links) {
    if (to == *self_) local.parents.push_back(plan_->nodes[from.index()].name);
    if (from == *self_) local.children.push_back(plan_->nodes[to.index()].name);
  }
  if (local.parents.empty() && local.children.empty()) return;
  local.key = {plan_->epoch, session.id, StreamIndex(static_cast<std::uint16_t>(index)),
               tag_of(plan_->origin)};
  local.collective = session.collective;
  local.tenant = tenant_of(*plan_, session);
  local.tenant_weight = weights.of(local.tenant);
  local.kind = session.kind;
  local.rate_bps = stream.rate_bps;
  const PlanCollective* collective = plan_->find_collective(session.collective);
  local.weight = (collective == nullptr ? 1.0 : collective->weight) * stream.rate_bps / session.rate_bps;
  local.depth = depth_of(stream, session.kind);
  if (session.root == *self_) local.latency = stream.latency.value_or(latencies.longest(stream));
  local.session = &session;
  local.is_root = session.root == *self_;
  local.is_member = std::ranges::find(session.members, *self_) != session.members.end();
  local.is_destination = local.is_member && !local.is_root;
  streams_.emplace(local.key, std::move(local));
}

const LocalStream* InstalledPlan::find(const StreamKey& key) const {
  const auto found = streams_.find(key);
  return found == streams_.end() ? nullptr : &found->second;
}

const std::vector<const LocalStream*>& InstalledPlan::streams_of(SessionId session) const {
  static const std::vector<const LocalStream*> kNone;
  const auto found = streams_of_.find(session);
  return found == streams_of_.end() ? kNone : found->second;
}

const std::vector<const PlanSession*>& InstalledPlan::sessions_of(CollectiveId collective) const {
  static const std::vector<const PlanSession*> kNone;
  const auto found = sessions_of_.find(collective);
  return found == sessions_of_.end() ? kNone : found->second;
}

const PlanSession* InstalledPlan::session(SessionId session) const {
  const auto found = sessions_.find(session);
  return found == sessions_.end() ? nullptr : found->second;
}

std::optional<double> InstalledPlan::pace_bps(const std::string& peer) const {
  return pace_between(self_, plan_->find_node(peer));
}

std::optional<double> InstalledPlan::pace_from_bps(const std::string& peer) const {
  return pace_between(plan_->find_node(peer), self_);
}

std::optional<double> InstalledPlan::pace_between(std::optional<NodeId> tail,
                                                  std::optional<NodeId> head) const {
  if (!tail || !head) return std::nullopt;
  const auto found = paces_.find({*tail, *head});
  return found == paces_.end() ? std::nullopt : std::optional(found->second);
}

double InstalledPlan::egress_bps() const {
  return self_ ? plan_->nodes[self_->index()].egress_bps : kUnlimited;
}

ByteRange session_range(const Plan& plan, const PlanSession& session, std::uint64_t operation_bytes) {
  const PlanCollective* collective = plan.find_collective(session.collective);
  const std::uint64_t planned = collective == nullptr ? 0 : collective->size_bytes;
  if (planned == 0 || planned == session.size_bytes) return {0, operation_bytes};
  __extension__ using Wide = unsigned __int128;
  const auto scale = [&](std::uint64_t position) {
    return static_cast<std::uint64_t>(Wide{position} * operation_bytes / planned);
  };
  const std::uint64_t begin = scale(session.offset_bytes);
  return {begin, scale(session.offset_bytes + session.size_bytes) - begin};
}

}  // namespace square
