#include "node/plan/installed_plan.h"

#include <algorithm>

#include "node/plan/lifeline.h"

namespace square {
namespace {

// A link that the plan leaves empty still carries this part of its capacity.
constexpr double kMinPacePart = 0.01;
constexpr double kAssumedCapacityBps = 1e9;  // of an unlimited link

// What the links that share a node's limit may carry: each its planned load and an even
// part of what the plan leaves free, so that none lends away what another was promised.
struct Share {
  double load_bps = 0;
  double links = 0;

  void add(const PlanLink& link) {
    load_bps += link.load_bps;
    ++links;
  }
  [[nodiscard]] double of(const PlanLink& link, double limit_bps) const {
    if (limit_bps == kUnlimited) return kUnlimited;
    return link.load_bps + std::max(0.0, limit_bps - load_bps) / links;
  }
};

double total_rate_bps(const PlanSession& session) {
  double sum = 0;
  for (const PlanStream& stream : session.streams) sum += stream.rate_bps;
  return sum;
}

// The mean over a session's streams, weighted by rate: that of the stream of a random block.
double typical_rate_bps(const PlanSession& session) {
  double squares = 0;
  for (const PlanStream& stream : session.streams) squares += stream.rate_bps * stream.rate_bps;
  return squares / total_rate_bps(session);
}

std::size_t whole_block(double bytes) {
  const auto block = static_cast<std::size_t>(
      std::clamp(bytes, static_cast<double>(kMinBlockBytes), static_cast<double>(kMaxBlockBytes)));
  return block - block % kBlockGranuleBytes;
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
  if (!self_) return;
  for (const PlanTenant& tenant : plan_->tenants) tenant_weights_.emplace(tenant.name, tenant.weight);
  for (const PlanLink& link : plan_->links) {
    if (link.to == *self_) links_in_.emplace(plan_->nodes[link.from.index()].name, &link);
  }
  const StreamCounts counts = count_streams();
  for (const PlanSession& session : plan_->sessions) add_session(session, counts);
  fit_windows(window_bytes);
}

void InstalledPlan::add_session(const PlanSession& session, const StreamCounts& counts) {
  if (session.streams.empty()) return;
  const double typical_bps = typical_rate_bps(session);
  const double most = fitting_block(session, counts);
  const auto block_of = [&](double seconds) {
    return whole_block(std::min(typical_bps * seconds / kBitsPerByte, most));
  };
  block_sizes_[session.id] = {block_of(kBlockSeconds), block_of(kCoarseBlockSeconds),
                              typical_bps / total_rate_bps(session), session.streams.size()};
  for (std::size_t i = 0; i < session.streams.size(); ++i) add_stream(session, i);
}

void InstalledPlan::add_stream(const PlanSession& session, std::size_t index) {
  const PlanStream& stream = session.streams[index];
  LocalStream local;
  for (const auto& [from, to] : stream.links) {
    if (to == *self_) local.parents.push_back(plan_->nodes[from.index()].name);
    if (from == *self_) local.children.push_back(plan_->nodes[to.index()].name);
  }
  if (local.parents.empty() && local.children.empty()) return;
  local.key = {plan_->epoch, session.id, StreamIndex(static_cast<std::uint16_t>(index))};
  local.collective = session.collective;
  local.tenant = tenant_of(session);
  local.tenant_weight = tenant_weight(local.tenant);
  local.kind = session.kind;
  local.rate_bps = stream.rate_bps;
  const PlanCollective* collective = plan_->find_collective(session.collective);
  local.weight = (collective == nullptr ? 1.0 : collective->weight) * stream.rate_bps / session.rate_bps;
  local.depth = depth_of(stream, session.kind);
  local.is_destination =
      session.root != *self_ && std::ranges::find(session.members, *self_) != session.members.end();
  streams_.emplace(local.key, std::move(local));
}

const LocalStream* InstalledPlan::find(const StreamKey& key) const {
  const auto found = streams_.find(key);
  return found == streams_.end() ? nullptr : &found->second;
}

std::vector<const LocalStream*> InstalledPlan::streams_of(SessionId session) const {
  std::vector<const LocalStream*> found;
  for (auto it = streams_.lower_bound({epoch(), session, StreamIndex(0)});
       it != streams_.end() && it->first.session == session; ++it) {
    found.push_back(&it->second);
  }
  return found;
}

std::vector<const PlanSession*> InstalledPlan::sessions_of(CollectiveId collective) const {
  std::vector<const PlanSession*> found;
  for (const PlanSession& session : plan_->sessions) {
    if (session.collective == collective) found.push_back(&session);
  }
  return found;
}

std::size_t InstalledPlan::block_bytes(SessionId session, std::uint64_t total_bytes) const {
  const auto found = block_sizes_.find(session);
  if (found == block_sizes_.end()) return kMinBlockBytes;
  const BlockSizes& sizes = found->second;
  const auto total = static_cast<double>(total_bytes);
  const double steady = std::clamp(total * sizes.typical_part * kBlockPartOfOperation,
                                   static_cast<double>(sizes.fine), static_cast<double>(sizes.coarse));
  return whole_block(std::min(steady, total / static_cast<double>(kBlocksPerStream * sizes.streams)));
}

std::size_t InstalledPlan::largest_block_bytes(SessionId session) const {
  const auto found = block_sizes_.find(session);
  return found == block_sizes_.end() ? kMinBlockBytes : found->second.coarse;
}

double InstalledPlan::pace_bps(const std::string& peer) const {
  return pace_between(self_, plan_->find_node(peer));
}

double InstalledPlan::pace_from_bps(const std::string& peer) const {
  return pace_between(plan_->find_node(peer), self_);
}

double InstalledPlan::pace_between(std::optional<NodeId> tail, std::optional<NodeId> head) const {
  if (!tail || !head) return kUnlimited;
  const PlanLink* own = nullptr;
  Share leaving;
  Share entering;
  for (const PlanLink& link : plan_->links) {
    if (link.from == *tail) leaving.add(link);
    if (link.to == *head) entering.add(link);
    if (link.from == *tail && link.to == *head) own = &link;
  }
  if (own == nullptr) return kUnlimited;
  const double pace = std::min({own->capacity_bps, leaving.of(*own, plan_->nodes[tail->index()].egress_bps),
                                entering.of(*own, plan_->nodes[head->index()].ingress_bps)});
  return std::max(pace, kMinPacePart * std::min(own->capacity_bps, kAssumedCapacityBps));
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
