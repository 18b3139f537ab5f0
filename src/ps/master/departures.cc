#include "ps/master/departures.h"

#include <fmt/format.h>

#include <set>
#include <utility>
#include <vector>

#include "base/log.h"
#include "ps/layout.h"

namespace square::ps {

// What all servers have of it stays; what is on its way does not.
void Departures::lose(WorkerEntry& worker) {
  if (const PeerId peer = std::exchange(worker.peer, 0)) parts_.desk.close(peer);
  for (const Push& push : parts_.pushes.remove_all(worker.name)) {
    if (!push.is_seed) ++worker.skipped;
  }
  parts_.pulls.end(worker.name);
}

void Departures::lose(ServerEntry& server, const Status& reason) {
  if (const PeerId peer = std::exchange(server.peer, 0)) parts_.desk.close(peer);
  if (!std::exchange(server.is_ready, false)) return;
  log(LogLevel::kWarning, "ps", "{}", reason.message());
  parts_.pulls.on_server_lost(server.name);
  for (const Push& push : parts_.pushes.remove_all()) {
    if (!push.is_seed) outcomes_.skip(push, reason);
  }
  parts_.rounds.on_server_lost(server);
}

void Departures::remove(const std::string& name) {
  WorkerEntry* const worker = parts_.members.worker(name);
  if (worker == nullptr) return;
  lose(*worker);
  release_chunks(name);
  parts_.rounds.forget(name);
  parts_.members.workers().erase(name);
}

void Departures::release_chunks(const std::string& worker) {
  std::set<std::uint64_t> kept;
  if (const Push* const push = parts_.rounds.push_of(worker))
    kept.insert(push->chunks.begin(), push->chunks.end());
  parts_.chunks.release(worker, kept);
}

void Departures::look_for_the_silent() {
  const TimePoint limit = parts_.desk.now - parts_.desk.settings.lease;
  std::vector<std::string> gone;
  for (auto& [name, worker] : parts_.members.workers()) {
    if (worker.heard < limit) gone.push_back(name);
  }
  for (const std::string& name : gone) {
    log(LogLevel::kWarning, "ps", "worker \"{}\" is not heard of any more and is removed", name);
    remove(name);
  }
  for (auto& [name, server] : parts_.members.servers()) {
    if (server.peer != 0 && server.heard < limit) {
      lose(server, deadline_exceeded(fmt::format("server \"{}\" is silent", name)));
    }
  }
  // The master waits for a server that has a shard. It forgets others with all that they have said, so that
  // names and hellos of servers that come and go do not add up.
  const v1::PsLayout& layout = parts_.desk.committed.record.layout();
  std::erase_if(parts_.members.servers(), [&](const auto& entry) {
    const auto& [name, server] = entry;
    return server.peer == 0 && server.heard < limit && shard_of(layout, name) == nullptr;
  });
}

}  // namespace square::ps
