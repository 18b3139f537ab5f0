#include "ps/layout.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "ps/protocol.h"

namespace square::ps {
namespace {

constexpr double kSnap = 0.05;  // of the usual share
constexpr std::size_t kMostPlaces = 64;

// Where tensors end, ascending.
std::vector<std::uint64_t> ends_of(const v1::PsModel& model) {
  std::vector<std::uint64_t> ends;
  std::uint64_t end = 0;
  for (const v1::PsTensor& tensor : model.tensors()) ends.push_back(end += elements_of(tensor));
  return ends;
}

std::uint64_t snapped(double wanted, const std::vector<std::uint64_t>& ends, double reach) {
  const auto cut = static_cast<std::uint64_t>(std::llround(wanted));
  auto above = std::ranges::lower_bound(ends, cut);
  std::uint64_t best = cut;
  double distance = reach;
  const auto consider = [&](std::uint64_t end) {
    const double away = std::abs(static_cast<double>(end) - wanted);
    if (away < distance) {
      best = end;
      distance = away;
    }
  };
  if (above != ends.end()) consider(*above);
  if (above != ends.begin()) consider(*std::prev(above));
  return best;
}

// 0: unknown. What a server says may be no number that shares can be made of.
double capacity_of(const ServerShare& server) {
  return std::isfinite(server.capacity) && server.capacity > 0 ? server.capacity : 0;
}

double total_capacity(const std::vector<ServerShare>& servers) {
  double known = 0;
  std::size_t count = 0;
  for (const ServerShare& server : servers) {
    known += capacity_of(server);
    count += capacity_of(server) > 0 ? 1 : 0;
  }
  return count == 0 ? 0 : known * static_cast<double>(servers.size()) / static_cast<double>(count);
}

// `ends` of all tensors, one at least.
v1::PsLayout cut(const std::vector<std::uint64_t>& ends, const std::vector<ServerShare>& servers) {
  const std::uint64_t total = ends.back();
  const auto count = static_cast<double>(servers.size());
  const double capacity = total_capacity(servers);
  v1::PsLayout layout;
  double sum = 0;
  std::uint64_t begin = 0;
  for (std::size_t i = 0; i < servers.size(); ++i) {
    const double own = capacity_of(servers[i]);
    sum += own > 0 ? own / capacity : 1 / count;
    std::uint64_t end = total;
    if (i + 1 < servers.size()) {
      const double wanted = std::min(sum, 1.0) * static_cast<double>(total);
      end = std::clamp(snapped(wanted, ends, kSnap * static_cast<double>(total) / count), begin, total);
    }
    v1::PsShard& shard = *layout.add_shards();
    shard.set_server(servers[i].name);
    shard.set_begin(begin);
    shard.set_end(end);
    begin = end;
  }
  return layout;
}

// Elements that are on another server after than before.
std::uint64_t moved(const v1::PsLayout& before, const v1::PsLayout& after) {
  std::uint64_t elements = 0;
  for (const v1::PsShard& shard : after.shards()) {
    elements += shard.end() - shard.begin();
    const v1::PsShard* const old = shard_of(before, shard.server());
    if (old == nullptr) continue;
    const v1::PsShard kept = overlap(*old, shard);
    elements -= kept.end() - kept.begin();
  }
  return elements;
}

}  // namespace

v1::PsLayout make_layout(const v1::PsModel& model, const std::vector<ServerShare>& servers) {
  return cut(ends_of(model), servers);
}

v1::PsLayout grow_layout(const v1::PsModel& model, const v1::PsLayout& before,
                         std::vector<ServerShare> servers, const std::vector<ServerShare>& newcomers) {
  const std::vector<std::uint64_t> ends = ends_of(model);
  for (const ServerShare& newcomer : newcomers) {
    std::vector<ServerShare> best;
    std::uint64_t fewest = 0;
    // Of many places some: the gain is in not being last.
    const std::size_t stride = 1 + servers.size() / kMostPlaces;
    for (std::size_t place = 0; place <= servers.size(); place += stride) {
      std::vector<ServerShare> tried = servers;
      tried.insert(tried.begin() + static_cast<std::ptrdiff_t>(place), newcomer);
      const std::uint64_t elements = moved(before, cut(ends, tried));
      if (best.empty() || elements < fewest) {
        fewest = elements;
        best = std::move(tried);
      }
    }
    servers = std::move(best);
  }
  return cut(ends, servers);
}

const v1::PsShard* shard_of(const v1::PsLayout& layout, const std::string& server) {
  const auto found = std::ranges::find_if(layout.shards(),
                                          [&](const v1::PsShard& shard) { return shard.server() == server; });
  return found == layout.shards().end() ? nullptr : &*found;
}

v1::PsShard overlap(const v1::PsShard& one, const v1::PsShard& other) {
  v1::PsShard both;
  both.set_begin(std::max(one.begin(), other.begin()));
  both.set_end(std::max(both.begin(), std::min(one.end(), other.end())));
  return both;
}

}  // namespace square::ps
