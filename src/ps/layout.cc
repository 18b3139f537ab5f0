#include "ps/layout.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "ps/protocol.h"

namespace square::ps {
namespace {

constexpr double kSnap = 0.05;  // of the usual share

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

}  // namespace

v1::PsLayout make_layout(const v1::PsModel& model, const std::vector<ServerShare>& servers) {
  const std::uint64_t total = elements_of(model);
  const std::vector<std::uint64_t> ends = ends_of(model);
  double capacity = 0;
  for (const ServerShare& server : servers) capacity += server.capacity;
  const double share = static_cast<double>(total) / static_cast<double>(servers.size());
  v1::PsLayout layout;
  double sum = 0;
  std::uint64_t begin = 0;
  for (std::size_t i = 0; i < servers.size(); ++i) {
    sum += capacity > 0 ? servers[i].capacity / capacity : 1.0 / static_cast<double>(servers.size());
    std::uint64_t end = total;
    if (i + 1 < servers.size()) {
      end = std::clamp(snapped(sum * static_cast<double>(total), ends, kSnap * share), begin, total);
    }
    v1::PsShard& shard = *layout.add_shards();
    shard.set_server(servers[i].name);
    shard.set_begin(begin);
    shard.set_end(end);
    begin = end;
  }
  return layout;
}

}  // namespace square::ps
