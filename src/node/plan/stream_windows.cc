#include "node/plan/stream_windows.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace square {
namespace {

double round_trip_seconds(const LocalStream& stream, const LinksIn& links) {
  double seconds = 0;
  for (const std::string& parent : stream.parents) {
    const auto link = links.find(parent);
    if (link == links.end() || link->second.latency == Duration(0)) {
      seconds = std::max(seconds, kAssumedRoundTripSeconds);
    } else {
      seconds = std::max(seconds, 2 * to_seconds(link->second.latency));
    }
  }
  return seconds;
}

bool has_unlimited_hop(const LocalStream& stream, const LinksIn& links) {
  return std::ranges::any_of(stream.parents, [&](const std::string& parent) {
    const auto link = links.find(parent);
    return link != links.end() && link->second.is_unlimited;
  });
}

double spare_blocks(double block_bytes) {
  return std::clamp(std::floor(kSpareWindowBytes / block_bytes), static_cast<double>(kSpareWindowBlocks),
                    static_cast<double>(kMaxSpareWindowBlocks));
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

std::vector<WindowNeed> window_needs(const InstalledCollective& collective, const LinksIn& links) {
  std::vector<WindowNeed> needs;
  for (const LocalStream& stream : collective.streams()) {
    if (stream.parents.empty()) continue;
    const BlockSizes::Sizes& sizes = collective.block_sizes().of(stream.key.session);
    const auto fine = static_cast<double>(sizes.fine);
    const double rate = has_unlimited_hop(stream, links) ? kUnlimitedWindowBps : stream.rate_bps;
    const double seconds = round_trip_seconds(stream, links) + kWindowSlackSeconds;
    const double under_way = rate * seconds / kBitsPerByte / fine;
    const auto most = static_cast<double>(kMaxWindowBlocks - kMaxSpareWindowBlocks);
    const double blocks = spare_blocks(fine) + std::ceil(std::min(most, under_way));
    const auto hops = static_cast<double>(stream.parents.size());
    needs.push_back({stream.window.get(), blocks, hops * blocks * static_cast<double>(sizes.coarse),
                     kCreditPartOfSlack * kWindowSlackSeconds / seconds, fine});
  }
  return needs;
}

void WindowClaims::add(const InstalledCollective& collective, const std::vector<WindowNeed>& needs) {
  if (needs.empty()) return;
  const auto [number, is_new] = numbers_.try_emplace(collective.planned().tenant, tenants_.size());
  if (is_new) tenants_.push_back({{0, collective.streams().front().tenant_weight}, {}});
  Tenant& tenant = tenants_[number->second];
  double wanted = 0;
  for (const WindowNeed& need : needs) wanted += need.bytes;
  const LocalStream& any = collective.streams().front();
  if (!any.job.empty()) {
    Job& job = tenant.jobs[any.job];
    const double together = job.by_turn[any.turn] += wanted;
    wanted = std::max(together - job.most, 0.0);
    job.most += wanted;
  }
  tenant.claim.wanted += wanted;
  tenant.needs.push_back(&needs);
}

void WindowClaims::fit() const {
  std::vector<Claim> claims;
  for (const Tenant& tenant : tenants_) claims.push_back(tenant.claim);
  const std::vector<double> given = share_out(static_cast<double>(window_bytes_), claims);
  for (std::size_t i = 0; i < tenants_.size(); ++i) {
    const double part = given[i] / claims[i].wanted;
    for (const std::vector<WindowNeed>* needs : tenants_[i].needs) {
      for (const WindowNeed& need : *needs) {
        need.window->blocks = std::max(kMinWindowBlocks, static_cast<std::size_t>(need.blocks * part));
        need.window->credit_blocks = credit_blocks(need.window->blocks, need.credit_part, need.block_bytes);
      }
    }
  }
}

}  // namespace square
