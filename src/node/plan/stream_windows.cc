#include "node/plan/stream_windows.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>

namespace square {
namespace {

using LinksIn = std::map<std::string, const PlanLink*>;  // by the tail's name

double round_trip_seconds(const LocalStream& stream, const LinksIn& links) {
  double seconds = 0;
  for (const std::string& parent : stream.parents) {
    const auto link = links.find(parent);
    if (link == links.end() || link->second->latency == Duration(0)) {
      seconds = std::max(seconds, kAssumedRoundTripSeconds);
    } else {
      seconds = std::max(seconds, 2 * to_seconds(link->second->latency));
    }
  }
  return seconds;
}

bool has_unlimited_hop(const LocalStream& stream, const LinksIn& links) {
  return std::ranges::any_of(stream.parents, [&](const std::string& parent) {
    const auto link = links.find(parent);
    return link != links.end() && link->second->capacity_bps == kUnlimited;
  });
}

std::size_t credit_blocks(std::size_t window_blocks, double part, double block_bytes) {
  const auto window = static_cast<double>(window_blocks);
  const double enough = std::max(part * window, static_cast<double>(kCheapCreditBytes) / block_bytes);
  return std::max<std::size_t>(1, static_cast<std::size_t>(std::min(window / 2, enough)));
}

}  // namespace

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

void fit_windows(std::map<StreamKey, LocalStream>& streams, const Plan& plan, NodeId self,
                 const BlockSizes& sizes, std::size_t window_bytes) {
  LinksIn links;
  for (const PlanLink& link : plan.links) {
    if (link.to == self) links.emplace(plan.nodes[link.from.index()].name, &link);
  }
  struct Reserved {
    LocalStream* stream;
    double bytes;
    double credit_part;  // of the window
    double block_bytes;
  };
  std::map<std::string_view, std::vector<Reserved>> tenants;
  std::map<std::string_view, double> weights;
  for (auto& [key, stream] : streams) {
    if (stream.parents.empty()) continue;
    const BlockSizes::Sizes& blocks_of = sizes.of(key.session);
    const double rate = has_unlimited_hop(stream, links) ? kUnlimitedWindowBps : stream.rate_bps;
    const double seconds = round_trip_seconds(stream, links) + kWindowSlackSeconds;
    const double under_way = rate * seconds / kBitsPerByte / static_cast<double>(blocks_of.fine);
    const auto most = static_cast<double>(kMaxWindowBlocks - kSpareWindowBlocks);
    stream.window_blocks =
        kSpareWindowBlocks + static_cast<std::size_t>(std::ceil(std::min(most, under_way)));
    const auto blocks = static_cast<double>(stream.parents.size() * stream.window_blocks);
    weights[stream.tenant] = stream.tenant_weight;
    const double credit_part = kCreditPartOfSlack * kWindowSlackSeconds / seconds;
    tenants[stream.tenant].push_back({&stream, blocks * static_cast<double>(blocks_of.coarse), credit_part,
                                      static_cast<double>(blocks_of.fine)});
  }
  std::vector<Claim> claims;
  for (const auto& [tenant, reserved] : tenants) {
    Claim claim{0, weights.at(tenant)};
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
      one.stream->credit_blocks = credit_blocks(one.stream->window_blocks, one.credit_part, one.block_bytes);
    }
  }
}

}  // namespace square
