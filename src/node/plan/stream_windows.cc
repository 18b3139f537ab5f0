// How much memory each stream into a node may have under way.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "node/plan/installed_plan.h"

namespace square {

std::vector<double> share_out(double total, const std::vector<Claim>& claims) {
  std::vector<std::size_t> order(claims.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return claims[i].wanted / claims[i].weight; });
  double weight = 0;
  for (const Claim& claim : claims) weight += claim.weight;
  std::vector<double> given(claims.size());
  for (const std::size_t i : order) {
    given[i] = std::min(claims[i].wanted, total * claims[i].weight / weight);
    total -= given[i];
    weight -= claims[i].weight;
  }
  return given;
}

std::string_view InstalledPlan::tenant_of(const PlanSession& session) const {
  const PlanCollective* collective = plan_->find_collective(session.collective);
  return collective == nullptr ? std::string_view() : std::string_view(collective->tenant);
}

double InstalledPlan::tenant_weight(std::string_view tenant) const {
  const auto found = tenant_weights_.find(tenant);
  return found == tenant_weights_.end() || !(found->second > 0) ? 1.0 : found->second;
}

InstalledPlan::StreamCounts InstalledPlan::count_streams() const {
  StreamCounts counts;
  for (const PlanSession& session : plan_->sessions) {
    const std::string_view tenant = tenant_of(session);
    for (const PlanStream& stream : session.streams) {
      for (const auto& [from, to] : stream.links) ++counts[to][tenant];
    }
  }
  return counts;
}

double InstalledPlan::fitting_block(const PlanSession& session, const StreamCounts& counts) const {
  const std::string_view tenant = tenant_of(session);
  double smallest = static_cast<double>(kMaxBlockBytes);
  for (const PlanStream& stream : session.streams) {
    for (const auto& [from, to] : stream.links) {
      const auto& tenants = counts.at(to);
      double weight = 0;
      for (const auto& [name, streams] : tenants) weight += tenant_weight(name);
      const double part = static_cast<double>(kPlanWindowBytes) * tenant_weight(tenant) / weight;
      const auto blocks = static_cast<double>(kMinWindowBlocks * tenants.at(tenant));
      smallest = std::min(smallest, part / blocks);
    }
  }
  return smallest;
}

double InstalledPlan::round_trip_seconds(const LocalStream& stream) const {
  double seconds = 0;
  for (const std::string& parent : stream.parents) {
    const auto link = links_in_.find(parent);
    if (link == links_in_.end() || link->second->latency == Duration(0)) {
      seconds = std::max(seconds, kAssumedRoundTripSeconds);
    } else {
      seconds = std::max(seconds, 2 * to_seconds(link->second->latency));
    }
  }
  return seconds;
}

bool InstalledPlan::has_unlimited_hop(const LocalStream& stream) const {
  return std::ranges::any_of(stream.parents, [&](const std::string& parent) {
    const auto link = links_in_.find(parent);
    return link != links_in_.end() && link->second->capacity_bps == kUnlimited;
  });
}

void InstalledPlan::fit_windows(std::size_t window_bytes) {
  struct Reserved {
    LocalStream* stream;
    double bytes;
  };
  std::map<std::string_view, std::vector<Reserved>> tenants;
  for (auto& [key, stream] : streams_) {
    if (stream.parents.empty()) continue;
    const BlockSizes& sizes = block_sizes_.at(key.session);
    const double rate = has_unlimited_hop(stream) ? kUnlimitedWindowBps : stream.rate_bps;
    const double under_way = rate * (round_trip_seconds(stream) + kWindowSlackSeconds) / kBitsPerByte /
                             static_cast<double>(sizes.fine);
    const auto most = static_cast<double>(kMaxWindowBlocks - kSpareWindowBlocks);
    stream.window_blocks =
        kSpareWindowBlocks + static_cast<std::size_t>(std::ceil(std::min(most, under_way)));
    const auto blocks = static_cast<double>(stream.parents.size() * stream.window_blocks);
    tenants[stream.tenant].push_back({&stream, blocks * static_cast<double>(sizes.coarse)});
  }
  std::vector<Claim> claims;
  for (const auto& [tenant, reserved] : tenants) {
    Claim claim{0, tenant_weight(tenant)};
    for (const Reserved& one : reserved) claim.wanted += one.bytes;
    claims.push_back(claim);
  }
  const std::vector<double> given = share_out(static_cast<double>(window_bytes), claims);
  std::size_t number = 0;
  for (const auto& [tenant, reserved] : tenants) {
    const double part = given[number] / claims[number].wanted;
    ++number;
    for (const Reserved& one : reserved) {
      const auto blocks = static_cast<std::size_t>(static_cast<double>(one.stream->window_blocks) * part);
      one.stream->window_blocks = std::max(kMinWindowBlocks, blocks);
    }
  }
}

}  // namespace square
