#include "ps/master/pulls.h"

#include <algorithm>
#include <vector>

namespace square::ps {

void Pulls::begin(const std::string& worker, const v1::PsRecord& record, bool is_committed) {
  const auto found = pulls_.find(worker);
  if (found != pulls_.end()) {
    if (found->second.version == record.version()) {
      if (is_committed) on_committed(record.version());
      return;
    }
    end(worker);
  }
  Pull& pull = pulls_[worker];
  pull.version = record.version();
  pull.layout = record.layout();
  pull.is_committed = is_committed;
  pull.since = desk_.now;
  pull.maker = record.maker();
  pull.tokens = record.tokens();
  for (const v1::PsShard& shard : pull.layout.shards()) pull.parts[shard.server()];
  if (is_committed) tell_committed(worker, pull.version);
  start(worker, pull);
}

void Pulls::tell_committed(const std::string& worker, std::uint64_t version) {
  const WorkerEntry* const to = members_.worker(worker);
  if (to == nullptr) return;
  v1::PsOrder order;
  order.set_committed(version);
  desk_.tell(to->peer, std::move(order));
}

void Pulls::tell_doubt(const std::string& worker) {
  const WorkerEntry* const to = members_.worker(worker);
  if (to == nullptr) return;
  v1::PsOrder order;
  order.mutable_outcome()->set_number(to->last_push);
  order.mutable_outcome()->set_kind(v1::PsPushOutcome::IN_DOUBT);
  order.mutable_outcome()->set_reason("a server does not answer");
  desk_.tell(to->peer, std::move(order));
}

void Pulls::start(const std::string& worker, Pull& pull) {
  const WorkerEntry* const to = members_.worker(worker);
  if (to == nullptr || to->peer == 0) return;
  for (const v1::PsShard& shard : pull.layout.shards()) {
    Part& part = pull.parts[shard.server()];
    const ServerEntry* const from = members_.server(shard.server());
    if (part.is_received || part.ticket != 0 || part.next_try > desk_.now) continue;
    if (from == nullptr || !from->is_ready) continue;
    part.ticket = ++last_ticket_;
    v1::PsTransfer transfer = lines_.transfer(*to, *from);
    transfer.set_ticket(part.ticket);
    transfer.set_version(pull.version);
    transfer.set_maker(pull.maker);
    transfer.set_tokens(pull.tokens);
    transfer.set_is_committed(pull.is_committed);
    *transfer.mutable_shard() = shard;
    v1::PsOrder send;
    *send.mutable_send_version() = transfer;
    desk_.tell(from->peer, std::move(send));
    v1::PsOrder take;
    *take.mutable_take_version() = std::move(transfer);
    desk_.tell(to->peer, std::move(take));
  }
}

void Pulls::stop(const std::string& worker, Pull& pull, const std::string& server) {
  Part& part = pull.parts[server];
  if (part.ticket == 0) return;
  const WorkerEntry* const to = members_.worker(worker);
  const ServerEntry* const from = members_.server(server);
  if (to != nullptr && from != nullptr) lines_.note_failure(*to, *from);
  v1::PsOrder cancel;
  cancel.set_cancel(part.ticket);
  if (to != nullptr) desk_.tell(to->peer, cancel);
  if (from != nullptr) desk_.tell(from->peer, cancel);
  part.ticket = 0;
}

void Pulls::on_received(WorkerEntry& worker, const v1::PsReceived& received) {
  const auto found = pulls_.find(worker.name);
  if (found == pulls_.end() || received.ticket() == 0) return;
  if (received.has_error()) {
    fail(worker.name, received.ticket());
    return;
  }
  for (auto& [server, part] : found->second.parts) {
    if (part.ticket != received.ticket()) continue;
    part.ticket = 0;
    part.is_received = true;
    worker.pull_seconds = to_seconds(desk_.now - found->second.since);
  }
}

void Pulls::on_send_failed(const ServerEntry& server, std::uint64_t ticket) {
  std::string worker;
  for (const auto& [name, pull] : pulls_) {
    const auto part = pull.parts.find(server.name);
    if (ticket != 0 && part != pull.parts.end() && part->second.ticket == ticket) worker = name;
  }
  if (!worker.empty()) fail(worker, ticket);
}

void Pulls::fail(const std::string& worker, std::uint64_t ticket) {
  Pull& pull = pulls_.at(worker);
  const auto part =
      std::ranges::find_if(pull.parts, [&](const auto& entry) { return entry.second.ticket == ticket; });
  if (part == pull.parts.end()) return;
  stop(worker, pull, part->first);
  const int doublings = std::min(part->second.failures++, 6);
  part->second.next_try = desk_.now + std::min<Duration>(kFirstWait * (1 << doublings), kLongestWait);
  // Its version may be gone from the server by now: the newest is not.
  if (pull.is_committed && pull.version < desk_.committed.version()) {
    begin(worker, desk_.committed.record, true);
  }
}

void Pulls::on_committed(std::uint64_t version) {
  for (auto& [worker, pull] : pulls_) {
    if (pull.version != version || pull.is_committed) continue;
    pull.is_committed = true;
    tell_committed(worker, version);
  }
}

void Pulls::cancel(std::uint64_t version) {
  std::vector<std::string> workers;
  for (const auto& [worker, pull] : pulls_) {
    if (pull.version == version && !pull.is_committed) workers.push_back(worker);
  }
  for (const std::string& worker : workers) end(worker);
}

void Pulls::end(const std::string& worker) {
  const auto found = pulls_.find(worker);
  if (found == pulls_.end()) return;
  for (const v1::PsShard& shard : found->second.layout.shards()) stop(worker, found->second, shard.server());
  pulls_.erase(found);
}

void Pulls::on_server_lost(const std::string& server) {
  for (auto& [worker, pull] : pulls_) {
    if (!pull.parts.contains(server)) continue;
    stop(worker, pull, server);
    tell_doubt(worker);
  }
}

void Pulls::on_time() {
  for (auto& [worker, pull] : pulls_) {
    // A server that was lost has the newest, and perhaps no other.
    if (pull.is_committed && pull.version < desk_.committed.version()) {
      const bool stands = std::ranges::any_of(pull.parts, [&](const auto& entry) {
        return !entry.second.is_received && entry.second.ticket == 0;
      });
      if (stands) {
        begin(std::string(worker), desk_.committed.record, true);
        return;  // the map has changed: the others in the next moment
      }
    }
    start(worker, pull);
  }
}

}  // namespace square::ps
