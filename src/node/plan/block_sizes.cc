#include "node/plan/block_sizes.h"

#include <algorithm>

namespace square {
namespace {

// By node and tenant: streams into the node.
using StreamCounts = std::map<NodeId, std::map<std::string_view, std::size_t>>;

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

StreamCounts count_streams(const Plan& plan) {
  StreamCounts counts;
  for (const PlanSession& session : plan.sessions) {
    const std::string_view tenant = tenant_of(plan, session);
    for (const PlanStream& stream : session.streams) {
      for (const auto& [from, to] : stream.links) ++counts[to][tenant];
    }
  }
  return counts;
}

// The largest block of which two a stream fit into the tenant's part everywhere.
double fitting_block(const PlanSession& session, std::string_view tenant, const StreamCounts& counts,
                     const TenantWeights& weights) {
  double smallest = static_cast<double>(kMaxBlockBytes);
  for (const PlanStream& stream : session.streams) {
    for (const auto& [from, to] : stream.links) {
      const auto& tenants = counts.at(to);
      double weight = 0;
      for (const auto& [name, streams] : tenants) weight += weights.of(name);
      const double part = static_cast<double>(kPlanWindowBytes) * weights.of(tenant) / weight;
      const auto blocks = static_cast<double>(kMinWindowBlocks * tenants.at(tenant));
      smallest = std::min(smallest, part / blocks);
    }
  }
  return smallest;
}

}  // namespace

std::string_view tenant_of(const Plan& plan, const PlanSession& session) {
  const PlanCollective* collective = plan.find_collective(session.collective);
  return collective == nullptr ? std::string_view() : std::string_view(collective->tenant);
}

TenantWeights::TenantWeights(const Plan& plan) {
  for (const PlanTenant& tenant : plan.tenants) weights_.emplace(tenant.name, tenant.weight);
}

double TenantWeights::of(std::string_view tenant) const {
  const auto found = weights_.find(tenant);
  return found == weights_.end() || !(found->second > 0) ? 1.0 : found->second;
}

BlockSizes::BlockSizes(const Plan& plan, const TenantWeights& weights) {
  const StreamCounts counts = count_streams(plan);
  for (const PlanSession& session : plan.sessions) {
    if (session.streams.empty()) continue;
    const double typical_bps = typical_rate_bps(session);
    const double most = fitting_block(session, tenant_of(plan, session), counts, weights);
    const auto block_of = [&](double seconds) {
      return whole_block(std::min(typical_bps * seconds / kBitsPerByte, most));
    };
    sizes_[session.id] = {block_of(kBlockSeconds), block_of(kCoarseBlockSeconds),
                          typical_bps / total_rate_bps(session), session.streams.size()};
  }
}

const BlockSizes::Sizes& BlockSizes::of(SessionId session) const {
  static const Sizes kSmallest;
  const auto found = sizes_.find(session);
  return found == sizes_.end() ? kSmallest : found->second;
}

std::size_t BlockSizes::block_bytes(SessionId session, std::uint64_t total_bytes) const {
  if (!sizes_.contains(session)) return kMinBlockBytes;
  const Sizes& sizes = of(session);
  const auto total = static_cast<double>(total_bytes);
  const double steady = std::clamp(total * sizes.typical_part * kBlockPartOfOperation,
                                   static_cast<double>(sizes.fine), static_cast<double>(sizes.coarse));
  return whole_block(std::min(steady, total / static_cast<double>(kBlocksPerStream * sizes.streams)));
}

}  // namespace square
