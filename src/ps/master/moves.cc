#include "ps/master/moves.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "ps/layout.h"

namespace square::ps {

std::vector<ServerEntry*> Moves::newcomers() {
  std::vector<ServerEntry*> found;
  for (auto& [name, server] : parts_.members.servers()) {
    const bool has_shard = shard_of(parts_.desk.committed.record.layout(), name) != nullptr;
    if (found.size() == kMostAtOnce) break;
    if (!has_shard && server.peer != 0 && parts_.desk.now - server.came >= kSettleTime) {
      found.push_back(&server);
    }
  }
  return found;
}

void Moves::on_time() {
  is_due_ = false;
  const v1::PsRecord& committed = parts_.desk.committed.record;
  if (!parts_.desk.settings.moves_shards || committed.version() == 0 || parts_.desk.now < next_try_) return;
  const std::vector<ServerEntry*> servers = newcomers();
  if (servers.empty() || !parts_.members.are_ready(committed.layout())) return;
  is_due_ = true;
  if (!parts_.rounds.is_idle() || !parts_.pushes.is_empty()) return;
  // A quorum that others would have to complete does not come: they are kept out.
  if (!parts_.rounds.is_window_open()) {
    parts_.rounds.skip_waiting(unavailable("parts of the model move to another server"));
  }
  if (parts_.rounds.is_free()) begin(servers);
}

v1::PsLayout Moves::layout_with(const std::vector<ServerEntry*>& newcomers) {
  const Committed& committed = parts_.desk.committed;
  std::vector<ServerShare> servers;
  for (const v1::PsShard& shard : committed.record.layout().shards()) {
    servers.push_back({shard.server(), parts_.members.server(shard.server())->capacity_bps});
  }
  std::vector<ServerShare> added;
  for (const ServerEntry* const server : newcomers) added.push_back({server->name, server->capacity_bps});
  return grow_layout(committed.model, committed.record.layout(), std::move(servers), added);
}

std::map<std::string, v1::PsMove> Moves::orders_for(const v1::PsLayout& layout) {
  const v1::PsRecord& before = parts_.desk.committed.record;
  std::map<std::string, v1::PsMove> orders;
  for (const v1::PsShard& wanted : layout.shards()) {
    orders[wanted.server()];
    for (const v1::PsShard& had : before.layout().shards()) {
      v1::PsShard part = overlap(wanted, had);
      if (had.server() == wanted.server() || part.begin() == part.end()) continue;
      part.set_server(had.server());
      v1::PsTransfer transfer = parts_.lines.transfer(*parts_.members.server(wanted.server()),
                                                      *parts_.members.server(had.server()));
      transfer.set_ticket(++parts_.last_ticket);
      transfer.set_version(before.version());
      transfer.set_maker(before.maker());
      *transfer.mutable_shard() = std::move(part);
      *orders[had.server()].add_gives() = transfer;
      *orders[wanted.server()].add_takes() = std::move(transfer);
    }
  }
  return orders;
}

void Moves::begin(const std::vector<ServerEntry*>& newcomers) {
  const v1::PsLayout layout = layout_with(newcomers);
  for (ServerEntry* const server : newcomers) {
    log(LogLevel::kInfo, "ps", "server \"{}\" gets its part of the model", server->name);
    admission_.admit(*server, layout);
  }
  is_due_ = false;
  tried_ = parts_.desk.committed.version() + 1;
  parts_.rounds.begin_move(layout, orders_for(layout));
}

void Moves::on_committed(std::uint64_t version) {
  if (version != tried_) return;
  tried_ = 0;
  failures_ = 0;
}

void Moves::on_skipped(std::uint64_t version) {
  if (tried_ == 0 || version != tried_) return;
  tried_ = 0;
  next_try_ =
      parts_.desk.now + std::min<Duration>(kFirstWait * (1 << std::min(failures_++, 6)), kLongestWait);
  const v1::PsLayout& layout = parts_.desk.committed.record.layout();
  // What is left of a transfer stays on its line.
  for (auto& [name, server] : parts_.members.servers()) {
    if (shard_of(layout, name) == nullptr) server.is_ready = false;  // it stands by again
    for (const v1::PsShard& shard : layout.shards()) {
      const ServerEntry* const giver = parts_.members.server(shard.server());
      if (giver != nullptr && giver != &server) parts_.lines.note_failure(server, *giver);
    }
  }
}

}  // namespace square::ps
