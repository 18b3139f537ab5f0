#include "ps/master/members.h"

#include <algorithm>

namespace square::ps {
namespace {

template <typename Map>
auto* named(Map& members, const std::string& name) {
  const auto found = members.find(name);
  return found == members.end() ? nullptr : &found->second;
}

template <typename Map>
auto* speaking(Map& members, PeerId peer) {
  const auto found = std::ranges::find_if(
      members, [&](const auto& entry) { return peer != 0 && entry.second.peer == peer; });
  return found == members.end() ? nullptr : &found->second;
}

}  // namespace

const v1::PsHeld* ServerEntry::find(std::uint64_t version, std::uint64_t maker) const {
  const auto found = std::ranges::find_if(held, [&](const v1::PsHeld& one) {
    return one.record().version() == version && one.record().maker() == maker;
  });
  return found == held.end() ? nullptr : &*found;
}

WorkerEntry* Members::worker(const std::string& name) { return named(workers_, name); }
ServerEntry* Members::server(const std::string& name) { return named(servers_, name); }
WorkerEntry* Members::worker_at(PeerId peer) { return speaking(workers_, peer); }
ServerEntry* Members::server_at(PeerId peer) { return speaking(servers_, peer); }

std::size_t Members::live_workers() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(workers_, [](const auto& entry) { return entry.second.peer != 0; }));
}

bool Members::are_ready(const v1::PsLayout& layout, std::string* missing) const {
  for (const v1::PsShard& shard : layout.shards()) {
    const auto found = servers_.find(shard.server());
    if (found != servers_.end() && found->second.is_ready) continue;
    if (missing != nullptr) *missing = shard.server();
    return false;
  }
  return layout.shards_size() > 0;
}

bool Members::are_heard(const v1::PsLayout& layout, TimePoint since) const {
  return std::ranges::all_of(layout.shards(), [&](const v1::PsShard& shard) {
    const auto found = servers_.find(shard.server());
    return found != servers_.end() && found->second.is_ready && found->second.heard >= since;
  });
}

}  // namespace square::ps
