#include "node/plan/installed_plan.h"

#include <algorithm>

#include "node/plan/lifeline.h"
#include "node/plan/stream_windows.h"

namespace square {
namespace {

// A link that the plan leaves empty still carries this part of its capacity.
constexpr double kMinPacePart = 0.01;
constexpr double kAssumedCapacityBps = 1e9;  // of an unlimited link

}  // namespace

StreamKey key_of(const FrameHeader& header) {
  return {header.epoch, header.session, header.stream, header.origin};
}

void set_stream(FrameHeader& header, const StreamKey& key) {
  header.epoch = key.epoch;
  header.session = key.session;
  header.stream = key.stream;
  header.origin = key.origin;
}

void InstalledPlan::LinkShare::add(const PlanLink& link) {
  load_bps += link.load_bps;
  ++links;
}

double InstalledPlan::LinkShare::of(const PlanLink& link, double limit_bps) const {
  if (limit_bps == kUnlimited) return kUnlimited;
  return link.load_bps + std::max(0.0, limit_bps - load_bps) / links;
}

namespace {

// Of its links, as far as the plan tells.
Duration longest_latency(const Plan& plan, const PlanStream& stream) {
  Duration longest{0};
  for (const PlanLink& link : plan.links) {
    if (link.latency > longest &&
        std::ranges::find(stream.links, std::pair(link.from, link.to)) != stream.links.end())
      longest = link.latency;
  }
  return longest;
}

}  // namespace

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
    : plan_(with_lifelines(std::move(plan))), self_(plan_->find_node(self)) {
  for (const PlanSession& session : plan_->sessions) {
    sessions_.emplace(session.id, &session);
    sessions_of_[session.collective].push_back(&session);
  }
  if (!self_) return;
  const TenantWeights weights(*plan_);
  block_sizes_ = BlockSizes(*plan_, weights);
  for (const PlanSession& session : plan_->sessions) {
    for (std::size_t i = 0; i < session.streams.size(); ++i) add_stream(session, i, weights);
  }
  fit_windows(streams_, *plan_, *self_, block_sizes_, window_bytes);
  for (const auto& [key, stream] : streams_) streams_of_[key.session].push_back(&stream);
  note_links();
}

void InstalledPlan::note_links() {
  leaving_.resize(plan_->nodes.size());
  entering_.resize(plan_->nodes.size());
  for (const PlanLink& link : plan_->links) {
    leaving_[link.from.index()].add(link);
    entering_[link.to.index()].add(link);
    if (link.from != *self_ && link.to != *self_) continue;
    own_links_.insert_or_assign({link.from, link.to}, &link);
    if (!(link.load_bps > 0)) continue;
    fastest_link_bps_ =
        std::max(fastest_link_bps_, std::min({link.capacity_bps, plan_->nodes[link.from.index()].egress_bps,
                                              plan_->nodes[link.to.index()].ingress_bps}));
  }
}

void InstalledPlan::add_stream(const PlanSession& session, std::size_t index, const TenantWeights& weights) {
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
  if (session.root == *self_) local.latency = longest_latency(*plan_, stream);
  local.session = &session;
  local.is_root = session.root == *self_;
  local.is_member = std::ranges::find(session.members, *self_) != session.members.end();
  local.is_destination = local.is_member && !local.is_root;
  local.largest_block = largest_block_bytes(session.id);
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

void InstalledPlan::expect_blocks(SessionId session, std::size_t bytes) {
  for (auto next = streams_.lower_bound({epoch(), session, StreamIndex(0)});
       next != streams_.end() && next->first.session == session; ++next) {
    next->second.largest_block = std::max(next->second.largest_block, bytes);
  }
}

double InstalledPlan::pace_bps(const std::string& peer) const {
  return pace_between(self_, plan_->find_node(peer));
}

double InstalledPlan::pace_from_bps(const std::string& peer) const {
  return pace_between(plan_->find_node(peer), self_);
}

double InstalledPlan::pace_between(std::optional<NodeId> tail, std::optional<NodeId> head) const {
  if (!tail || !head) return kUnlimited;
  const auto found = own_links_.find({*tail, *head});
  if (found == own_links_.end()) return kUnlimited;
  const PlanLink& own = *found->second;
  const double egress = leaving_[tail->index()].of(own, plan_->nodes[tail->index()].egress_bps);
  const double ingress = entering_[head->index()].of(own, plan_->nodes[head->index()].ingress_bps);
  const double pace = std::min({own.capacity_bps, egress, ingress});
  return std::max(pace, kMinPacePart * std::min(own.capacity_bps, kAssumedCapacityBps));
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
